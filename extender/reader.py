"""HTTP/1.1 requests, read out of the bytes of a connection as they come."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

import httptools

LONGEST_HEAD: Final = 64 * 1024
"""Bytes of a request's target and headers, and of what stands between the pieces of a body."""

LONGEST_ARRIVAL: Final = 60.0
"""Seconds from the first byte of a request to its last: kube-scheduler gives up after five by itself."""

logger = logging.getLogger(__name__)


class Request(NamedTuple):
    """A whole request."""

    method: str
    path: str
    body: bytes
    is_last: bool
    """Whether the connection ends with its answer."""


class Taker(Protocol):
    """What takes the requests of a connection, and answers them in the order in which they come."""

    def take(self, request: Request) -> None:
        """A request is there."""

    def take_too_long(self, request: Request) -> None:
        """One is there but for its body, which is too long and will be dropped."""

    def invite(self) -> None:
        """A client waits to be told that it may send its body."""

    def refuse(self, status: HTTPStatus, problem: str) -> None:
        """What has come is no request, and nothing can be read after it."""

    def shutdown(self) -> None:
        """The same, in the midst of a body that has been refused already."""


class Reader:
    """Reads what one client sends."""

    def __init__(self, taker: Taker, longest_body: int, clock: Callable[[], float]) -> None:
        """`longest_body` in bytes, `clock` in seconds."""
        self._taker = taker
        self._longest_body = longest_body
        self._clock = clock
        self._parser: Any = httptools.HttpRequestParser(self)
        self._stray = 0  # Bytes since a request began or a piece of a body came, but for those of that packet.
        self._is_refused = False
        self._began: float | None = None
        self.heard = clock()
        """When the client has sent something."""

    def feed(self, data: bytes) -> None:
        """Reads on. Raises nothing."""
        self.heard = self._clock()
        self._stray += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # The request was the last; what follows is of another protocol.
        except httptools.HttpParserCallbackError as error:
            self._refuse(*_cause(error.__context__))
        except httptools.HttpParserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"this is no HTTP/1.1: {error}")
        else:
            if self._stray > LONGEST_HEAD:
                self._refuse(*_HEAD_TOO_LONG)

    @property
    def is_amid(self) -> bool:
        """Whether a part of a request is there that is to be answered."""
        return self._began is not None and not self._is_refused

    def rest(self) -> None:
        """Counts time from now: until now nothing was taken from the client."""
        self.heard = self._clock()
        if self._began is not None:
            self._began = self.heard

    def look_at_clock(self) -> None:
        """Refuses a request that does not come to its end."""
        if self._began is not None and self._clock() - self._began > LONGEST_ARRIVAL:
            problem = f"the request has not come to its end within {LONGEST_ARRIVAL:g} seconds"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, problem)

    # -- what the parser calls ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._target = b""
        self._body: bytes | bytearray = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_length = self._stray = 0
        self._is_refused = False
        self._began = self.heard

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._target += url
        self._head_length += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._head_length += len(name) + len(value)
        lower = name.lower()
        if lower in _HEADERS:
            self._headers[lower] = value

    def on_headers_complete(self) -> None:
        """The body is to come."""
        if self._head_length > LONGEST_HEAD:
            raise _RefusedError(*_HEAD_TOO_LONG)
        if int(self._headers.get(b"content-length", 0)) > self._longest_body:
            self._refuse_body()
        elif self._headers.get(b"expect", b"").lower() == b"100-continue":
            self._taker.invite()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._stray = 0
        if self._is_refused:
            return
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body
        if len(self._body) > self._longest_body:
            self._refuse_body()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._began = None
        if self._is_refused:
            return
        request = self._request(bytes(self._body))
        self._body = b""
        self._taker.take(request)

    # -- what becomes of it ------------------------------------------------------------------------

    def _request(self, body: bytes) -> Request:
        parser = self._parser
        method = parser.get_method().decode("latin-1")
        target = self._target if method != "CONNECT" else b"/"  # It names no path, but a host.
        try:
            path = (httptools.parse_url(target).path or b"/").decode("latin-1")
        except httptools.HttpParserInvalidURLError:
            problem = f"this is no HTTP/1.1: the target is no URL: {target[:100].decode('latin-1')}"
            raise _RefusedError(HTTPStatus.BAD_REQUEST, problem) from None
        is_kept = parser.should_keep_alive() and not parser.should_upgrade()
        if b"connection" in self._headers:  # With it even HTTP/1.0 would be kept, where its answer said so.
            is_kept = is_kept and parser.get_http_version() == "1.1"
        return Request(method, unquote(path) if "%" in path else path, body, not is_kept)

    def _refuse_body(self) -> None:
        """Has it answered at once; the rest is read and dropped, so that the connection can be kept."""
        request = self._request(b"")
        self._is_refused = True
        self._body = b""
        self._taker.take_too_long(request)

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        if self._is_refused:
            self._taker.shutdown()
        else:
            self._is_refused = True
            self._taker.refuse(status, problem)


_HEADERS: Final = frozenset((b"connection", b"content-length", b"expect"))
"""Those that are read, in lower case."""

_HEAD_TOO_LONG: Final = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"the target and the headers are longer than {LONGEST_HEAD} bytes",
)


class _RefusedError(Exception):
    """Stops the parser, for the reason in its arguments."""


def _cause(error: BaseException | None) -> tuple[HTTPStatus, str]:
    """What is answered after an error while the parser called."""
    if isinstance(error, _RefusedError):
        status, problem = error.args
        return status, problem
    logger.error("a request failed for a fault of our own", exc_info=error)
    return HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log of the extender"
