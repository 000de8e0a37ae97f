"""An API server, asked over HTTP by the coroutines of one event loop."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import httpx

from extender.cluster.client.access import from_kubeconfig, from_kubeconfigs, from_service_account
from extender.cluster.client.errors import (
    AccessError,
    ProtocolError,
    RefusedError,
    UnauthorizedError,
    UnconnectedError,
    UnreachableError,
    UntrustedError,
)
from extender.cluster.client.session import CONNECT_TIMEOUT_S, ApiSession
from extender.cluster.client.status import read_status
from wasm_runtime.engine import MEBIBYTE

if TYPE_CHECKING:
    from kubernetes.client import Configuration

logger = logging.getLogger(__name__)

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
METHODS: Final = {"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "patch": "PATCH"}
"""HTTP methods of RBAC's verbs. https://kubernetes.io/docs/reference/access-authn-authz/authorization/"""
ANONYMOUS: Final = '"system:anonymous"'
"""How a refusal names us where no credentials came, for instance because a credential plugin has failed."""
RENEWAL_INTERVAL_S: Final = 10.0
"""Seconds. Credentials that are refused are loaded anew at most this often: loading may run a program."""
MAX_OBJECT_BYTES: Final = 16 * MEBIBYTE
"""Bytes of an answer with one object; etcd stores 1.5 MiB by default."""
MAX_REFUSAL_BYTES: Final = MEBIBYTE
"""Bytes that are read of an answer that is no success."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What to ask, in the words of RBAC and of HTTP. As text: `create pods/binding`."""

    verb: str
    """A key of METHODS."""
    resource: str
    """As in a role, with its API group where it has one: `nodes`, `pods/binding`, `events.events.k8s.io`."""
    path: str
    """Percent-encoded, from the API server's root."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    """JSON, or nothing; a merge patch (RFC 7396) where the verb is `patch`."""
    accept: str = PROTOBUF

    def __str__(self) -> str:
        """How messages name it."""
        return f"{self.verb} {self.resource}"


class ApiServer:
    """Sends requests with the credentials of the moment.

    The Authorization header is made anew for each request, so that rotated tokens count. When the server
    does not know us any more or its certificate is not trusted, the configuration is loaded anew and the
    request sent once more: that brings in renewed client certificates, authorities and token files.

    Make it anywhere, then use it from one event loop only. Every request raises ClusterError.
    """

    def __init__(self, load: Callable[[], Configuration], origin: str) -> None:
        """`load` reads the configuration, slowly maybe; `origin` names it in messages. Raises AccessError."""
        self._load = load
        self._origin = origin
        self._session = ApiSession(load())
        self._renewal = asyncio.Lock()
        self._renewed_at = -RENEWAL_INTERVAL_S

    @classmethod
    def from_kubeconfig(cls, path: Path, context: str | None = None) -> ApiServer:
        """The cluster of a kubeconfig's current context, or of `context`. Raises AccessError."""
        return cls(partial(from_kubeconfig, path, context), f"the kubeconfig {path}")

    @classmethod
    def from_kubeconfigs(cls, paths: Sequence[Path], context: str | None = None) -> ApiServer:
        """The same of several kubeconfigs, merged as kubectl does. Raises AccessError."""
        return cls(partial(from_kubeconfigs, paths, context), f"the kubeconfig {paths[0]}")

    @classmethod
    def in_cluster(cls) -> ApiServer:
        """The cluster that this process is a pod of. Raises AccessError."""
        return cls(from_service_account, "the pod's service account")

    @property
    def address(self) -> str:
        """The server's URL, without credentials."""
        return self._session.address

    async def call(self, request: ApiRequest, timeout: float, limit: int = MAX_OBJECT_BYTES) -> bytes:
        """The whole body of a successful answer: at most `limit` bytes, at most `timeout` seconds from now."""
        try:
            # Not asyncio.wait_for: before Python 3.12 it may swallow a cancellation that meets the answer.
            with anyio.fail_after(timeout):
                return await self._read(request, timeout, limit)
        except TimeoutError:
            raise UnreachableError(f"{request}: no answer of {self.address} within {timeout:g} s") from None

    async def write(self, request: ApiRequest, timeout: float, is_done: Callable[[bytes], bool]) -> None:
        """A request that changes something. `is_done` tells by the body of a success whether it is an API server's.

        Where it is not, as with a proxy's page to log in at, that is a ProtocolError.
        """
        body = await self.call(request, timeout)
        if not is_done(body):
            said, mend = read_status(body).message, "look what stands before the API server"
            raise ProtocolError(f"{request}: {self.address} sent a success that is none: {said!r}; {mend}")

    @asynccontextmanager
    async def stream(self, request: ApiRequest, silence: float) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The chunks of a successful answer as they arrive; none for `silence` seconds is an error."""
        response = await self._send(request, silence)
        try:
            with _network_errors(request, self.address):
                yield response.aiter_raw()
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close all connections. The object is of no use afterwards."""
        await self._session.client.aclose()

    async def _read(self, request: ApiRequest, timeout: float, limit: int) -> bytes:
        async with self.stream(request, timeout) as chunks:
            body = await _bounded(chunks, limit)
        if len(body) > limit:
            raise ProtocolError(f"{request}: {self.address} answers with more than {limit} bytes")
        return body

    async def _send(self, request: ApiRequest, silence: float) -> httpx.Response:
        """An answer that is a success, its body still to be read."""
        session = self._session
        try:
            return await self._attempt(session, request, silence)
        except (UnauthorizedError, UntrustedError):
            if not await self._renew(session):
                raise
        return await self._attempt(self._session, request, silence)

    async def _attempt(self, session: ApiSession, request: ApiRequest, silence: float) -> httpx.Response:
        with _network_errors(request, session.address):
            response = await session.client.send(
                session.client.build_request(
                    METHODS[request.verb],
                    request.path,
                    params=request.query,
                    content=request.body,
                    headers={
                        "Accept": request.accept,
                        "Content-Type": MERGE_PATCH if request.verb == "patch" else JSON,
                    },
                    # Below the time for all: httpcore leaks the socket of a TLS handshake that is cancelled,
                    # and closes one that is late.
                    timeout=httpx.Timeout(silence, connect=min(CONNECT_TIMEOUT_S, silence / 2)),
                    extensions=session.extensions,
                ),
                stream=True,
            )
            if response.is_success:
                return response
            try:
                body = await _bounded(response.aiter_raw(), MAX_REFUSAL_BYTES)
            finally:
                await response.aclose()
        status = read_status(body)
        message = status.message or response.reason_phrase
        raise self._refusal(request, response.status_code, message, is_status=not status.is_text)

    def _refusal(self, request: ApiRequest, code: int, message: str, *, is_status: bool) -> RefusedError:
        explanation = f"{request}: {self.address} answered {code}: {message}"
        if code == HTTPStatus.UNAUTHORIZED or ANONYMOUS in message:
            mend = f"the credentials are missing, wrong or expired: renew those of {self._origin}"
            return UnauthorizedError(f"{explanation}; {mend}", code, message, is_status=is_status)
        if code == HTTPStatus.FORBIDDEN and is_status:
            explanation += f"; RBAC must allow the verb {request.verb} on {request.resource}"
        return RefusedError(explanation, code, message, is_status=is_status)

    async def _renew(self, stale: ApiSession) -> bool:
        """Load the configuration anew; False where that was done a moment ago, or cannot be done."""
        async with self._renewal:
            if self._session is not stale:
                return True
            if time.monotonic() - self._renewed_at < RENEWAL_INTERVAL_S:
                return False
            try:
                self._session = await asyncio.to_thread(self._open)
            except AccessError as error:
                logger.warning("the credentials could not be renewed", extra={"error": str(error)})
                return False
            finally:
                self._renewed_at = time.monotonic()
            await stale.client.aclose()
            return True

    def _open(self) -> ApiSession:
        return ApiSession(self._load())


async def _bounded(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    """What comes until the end, or until it is more than `limit` bytes."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            break
    return bytes(body)


@contextmanager
def _network_errors(request: ApiRequest, address: str) -> Iterator[None]:
    """Makes httpx's errors ours."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise UnconnectedError(f"{request}: no connection to {address} in time") from error
    except httpx.TimeoutException as error:
        raise UnreachableError(f"{request}: {address} has fallen silent") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        causes = list(_causes(error))
        untrusted = [cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)]
        if untrusted:
            mend = "compare the certificate authority of the configuration with the server's certificate"
            raise UntrustedError(f"{request}: {address} is not trusted: {untrusted[0]}; {mend}") from error
        # The operating system's own words, if there are any, rather than a library's.
        words = [str(cause) for cause in causes if str(cause)] or [type(error).__name__]
        if isinstance(error, httpx.ConnectError):
            raise UnconnectedError(f"{request}: {address} cannot be reached: {words[-1]}") from error
        raise UnreachableError(f"{request}: {address} gave no whole answer: {words[-1]}") from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, its cause, the cause of that, and so on. Leaves out TLS's way to say that it waits for bytes."""
    while error is not None and not isinstance(error, ssl.SSLWantReadError):
        yield error
        error = error.__cause__ or error.__context__
