"""HTTP/1.1 requests, read one by one out of the bytes of a connection as they come."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from io import SEEK_END, BytesIO
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

import httptools

MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes of a request's target and headers, and of what stands between the pieces of a body."""

MAX_PIECE_BYTES: Final = 8 * 1024
"""What is parsed before others have their turn, but for bodies of a known length: tiny headers and chunks take a
microsecond each."""

MAX_LENGTH_DIGITS: Final = 20
"""Digits of a Content-Length: as many as the largest number that the parser knows."""

HEAD_END: Final = b"\r\n\r\n"
NO_HTTP: Final = "this is no HTTP/1.1"
HEAD_TOO_LONG: Final = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"the target and the headers are longer than {MAX_HEAD_BYTES} bytes",
)
OUR_FAULT: Final = (HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log of the extender")

logger = logging.getLogger(__name__)


class Request(NamedTuple):
    """A whole request, or one that is refused before its body has come."""

    method: str
    path: str
    body: bytes
    is_last: bool
    """Whether the connection ends with its answer."""
    is_too_long: bool = False
    """Whether its body is, which is dropped."""


class Refusal(NamedTuple):
    """What has come is no request, and nothing can be read after it."""

    status: HTTPStatus
    problem: str


class ExpectContinue:
    """A client sent `Expect: 100-continue` and waits before it sends its body (RFC 9110, 10.1.1)."""


Event: TypeAlias = Request | Refusal | ExpectContinue


class ReceiveBuffer:
    """Bytes that were received and not parsed yet. `take` gives pieces with the end of one head at most.

    So a client that sends requests faster than they are answered has only its bytes queued, and no parsed requests.
    """

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._tail = b""  # The last bytes that were taken, where they may be the beginning of a head's end.
        self.size = 0
        """Bytes."""

    def add(self, data: bytes) -> None:
        """Takes what comes next."""
        self._data = self._data[self._at :] + data if self._data else data
        self._at = 0
        self.size = len(self._data)

    def take(self, body_left: int | None) -> bytes | memoryview:
        """The next piece, of which there must be one.

        `body_left` are the bytes that are left of a body, 0 in a head and None where nobody knows them.
        """
        begin, data = self._at, self._data
        length = begin + self.size
        if body_left:
            end = min(begin + body_left, length)
            self._tail = b""
        elif body_left == 0 and (found := self._head_end(begin)):
            end = found
            self._tail = b""
        else:
            end = min(begin + MAX_PIECE_BYTES, length)
            self._tail = (self._tail + data[max(begin, end - 3) : end])[-3:]
        self.size = length - end
        if end < length:
            self._at = end
            return memoryview(data)[begin:end]
        self._data, self._at = b"", 0
        return memoryview(data)[begin:] if begin else data

    def _head_end(self, begin: int) -> int | None:
        """Where the head ends, if that is within a piece. Its last bytes may have come in two."""
        for cut in range(len(self._tail), 0, -1):
            if self._tail.endswith(HEAD_END[:cut]) and self._data.startswith(HEAD_END[cut:], begin):
                return begin + len(HEAD_END) - cut
        found = self._data.find(HEAD_END, begin, begin + MAX_PIECE_BYTES)
        return found + len(HEAD_END) if found >= 0 else None


def body_length(headers: Mapping[bytes, bytes]) -> tuple[int | None, str | None]:
    """How long the body will be, None if its chunks will tell; and what is wrong with that."""
    if b"transfer-encoding" in headers:
        return None, None
    length = headers.get(b"content-length", b"0")
    if len(length) > MAX_LENGTH_DIGITS:
        return 0, f"{NO_HTTP}: Content-Length has {len(length)} digits"
    return int(length), None


class Reader:
    """Reads what one client sends. To be closed, since it and its parser refer to each other."""

    def __init__(self, longest_body: int) -> None:
        """`longest_body` in bytes."""
        self._longest_body = longest_body
        self._parser: Any = httptools.HttpRequestParser(self)
        self._received = ReceiveBuffer()
        self._events: deque[Event] = deque()
        self._piece_length = 0
        self._stray = 0  # Bytes of a head, or since a piece of a body came.
        self._body: bytes | BytesIO = b""
        self._left: int | None = 0  # Bytes of the body that are to come, None if nobody knows.
        self._is_over = False
        self.held = 0
        """Bytes of a body that has not come to its end."""
        self.is_amid = False
        """Whether a part of a request has come."""
        self.is_dropping = False
        """Whether that request has been refused, so that its rest is dropped."""

    @property
    def is_owed(self) -> bool:
        """Whether a part of a request is there that is to be answered."""
        return self.is_amid and not self.is_dropping

    @property
    def has_more(self) -> bool:
        """Whether `read` may go on before more has come."""
        return bool(self._events or (self._received.size and not self._is_over))

    def add(self, data: bytes) -> None:
        """Takes what has come."""
        if not self._is_over:
            self._received.add(data)

    def read(self) -> Event | None:
        """What has come next; None where more has to come, or others are to have their turn before. Raises nothing."""
        events, received, budget = self._events, self._received, MAX_PIECE_BYTES
        while not events and received.size and not self._is_over and budget > 0:
            left = self._left
            self._parse(received.take(left))
            if not left:
                budget -= self._piece_length
        return events.popleft() if events else None

    def drop(self) -> Request:
        """Drops the request whose body is coming, and the rest of it as it comes: what is to be answered."""
        self.is_dropping = True
        self._body, self.held = b"", 0
        return Request(self._method, self._path, b"", self._is_last)

    def close(self) -> None:
        """Lets go of everything."""
        self._is_over = True
        self._parser = None
        self._body, self.held = b"", 0
        self._received = ReceiveBuffer()
        self._events.clear()

    def _parse(self, piece: bytes | memoryview) -> None:
        self._piece_length = len(piece)
        self._stray += self._piece_length
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._is_over = True  # The request was the last; what follows is of another protocol.
        except httptools.HttpParserCallbackError as error:
            logger.error("a request failed for a fault of our own", exc_info=error.__context__)
            self._refuse(*OUR_FAULT)
        except httptools.HttpParserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"{NO_HTTP}: {error}")
        else:
            if self._stray > MAX_HEAD_BYTES:
                self._refuse(*HEAD_TOO_LONG)

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._events.append(Refusal(status, problem))

    # -- what the parser calls ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._stray = self._piece_length
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self.is_amid = True

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or one after a body."""
        lower = name.lower()
        if lower in _HEADERS:
            self._headers[lower] = value

    def on_headers_complete(self) -> None:
        """The body is to come."""
        if self._stray > MAX_HEAD_BYTES:
            self._refuse(*HEAD_TOO_LONG)
            return
        headers, parser = self._headers, self._parser
        self._left, problem = body_length(headers)
        if problem:
            self._refuse(HTTPStatus.BAD_REQUEST, problem)
            return
        method = parser.get_method().decode("latin-1")
        target = self._target if method != "CONNECT" else b"/"  # It names no path, but a host.
        try:
            path = (httptools.parse_url(target).path or b"/").decode("latin-1")
        except httptools.HttpParserInvalidURLError:
            problem = f"{NO_HTTP}: the target is no URL: {target[:100].decode('latin-1')}"
            self._refuse(HTTPStatus.BAD_REQUEST, problem)
            return
        is_kept = parser.should_keep_alive() and not parser.should_upgrade()
        if b"connection" in headers:  # With it even HTTP/1.0 would be kept, where its answer said so.
            is_kept = is_kept and parser.get_http_version() == "1.1"
        self._method, self._path, self._is_last = method, unquote(path) if "%" in path else path, not is_kept
        if self._left and self._left > self._longest_body:
            self._refuse_body()
        elif headers.get(b"expect", b"").lower() == b"100-continue":
            self._events.append(ExpectContinue())

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._stray = 0
        if self._left:
            self._left -= len(body)
        if self.is_dropping:
            return
        self.held += len(body)
        if self.held > self._longest_body:
            self._refuse_body()
        elif not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = BytesIO(self._body)
                self._body.seek(0, SEEK_END)
            self._body.write(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        self.is_amid = False
        self._left = 0
        if self.is_dropping:
            self.is_dropping = False
        elif not self._is_over:
            body = self._body if isinstance(self._body, bytes) else self._body.getvalue()  # The same bytes, no copy.
            self._body, self.held = b"", 0
            self._events.append(Request(self._method, self._path, body, self._is_last))

    def _refuse_body(self) -> None:
        """Has it answered at once; the rest is read and dropped, so that the connection can be kept."""
        self._events.append(self.drop()._replace(is_too_long=True))


_HEADERS: Final = frozenset((b"connection", b"content-length", b"expect", b"transfer-encoding"))
"""Those that are read, in lower case."""
