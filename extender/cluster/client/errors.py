"""What can be wrong between us and an API server; each message names the cause and what mends it."""

from __future__ import annotations

from http import HTTPStatus


class ClusterError(Exception):
    """The API server could not be asked, or did not do what it was asked."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request can succeed soon without anybody's doing."""
        return False

    @property
    def may_have_happened(self) -> bool:
        """Whether the API server may have done what it was asked."""
        return False


class AccessError(ClusterError):
    """Where the API server is, or who we are there, cannot be learnt: kubeconfig, service account."""


class UnreachableError(ClusterError):
    """No answer, or only a part of it: reset, late."""

    @property
    def may_pass(self) -> bool:
        """Servers and networks come back."""
        return True

    @property
    def may_have_happened(self) -> bool:
        """The answer may be all that was lost."""
        return True


class UnconnectedError(UnreachableError):
    """There is no connection. Nothing was asked."""

    @property
    def may_have_happened(self) -> bool:
        """Nobody heard of it."""
        return False


class UntrustedError(UnconnectedError):
    """The server's certificate is not trusted. Nothing was asked."""

    @property
    def may_pass(self) -> bool:
        """Somebody has to mend it."""
        return False


class ProtocolError(ClusterError):
    """The answer is not what an API server sends."""

    @property
    def may_have_happened(self) -> bool:
        """What answered may stand before an API server."""
        return True


class RefusedError(ClusterError):
    """The API server, or what stands before it, answered with a failure."""

    def __init__(self, explanation: str, code: int, message: str, *, is_status: bool = True) -> None:
        """`explanation` becomes the text: `message` with what was asked and what mends it."""
        super().__init__(explanation)
        self._is_status = is_status
        self.code = code
        """The HTTP status, or the code of the v1.Status inside a watch."""
        self.message = message
        """The server's own sentence."""

    def means(self, code: HTTPStatus) -> bool:
        """Whether an API server says that code, by a v1.Status. A proxy's page with it means something else."""
        return self._is_status and self.code == code

    @property
    def may_pass(self) -> bool:
        """The server is overloaded, starting, or has lost etcd."""
        return self.code == HTTPStatus.TOO_MANY_REQUESTS or self.may_have_happened

    @property
    def may_have_happened(self) -> bool:
        """A server that lost etcd does not know itself."""
        return self.code >= HTTPStatus.INTERNAL_SERVER_ERROR


class PodGoneError(ClusterError):
    """The pod that was asked for does not exist any more."""


class UnauthorizedError(RefusedError):
    """The server does not know us: 401, or 403 for the anonymous user that it takes us for."""
