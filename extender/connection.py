"""HTTP/1.1 with one client: whole requests in, whole answers with a Content-Length out, one after the other.

uvicorn runs it as it runs its own protocols. It is a protocol of our own since an ASGI application has a task and
six messages for each request: as much as all the rest of a small one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, cast
from urllib.parse import unquote

import httptools
from uvicorn.server import ServerState

from extender import wire

IDLE: Final = 300.0
"""Seconds without a word after which a connection is closed: longer than Go's client keeps an idle one, so that it
never writes to a connection that we are closing."""

LONGEST_HEAD: Final = 64 * 1024
"""Bytes of a request's target and headers."""


class Answer(NamedTuple):
    """Status, JSON body and further headers of an answer."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Application(Protocol):
    """What answers requests."""

    max_request_bytes: int
    """The longest body that it takes."""

    def answer(self, method: str, path: str, body: bytes) -> Answer | Awaitable[Answer]:
        """The answer, or what becomes it. Raises nothing."""

    def too_long(self) -> Answer:
        """What a request is answered whose body is longer."""


class _Request(NamedTuple):
    method: str
    path: str
    body: bytes
    keeps_alive: bool


class Connection(asyncio.Protocol):
    """One connection. Requests that come before their turn wait for it."""

    def __init__(self, application: Application, server_state: ServerState, **_: object) -> None:
        """`server_state` is uvicorn's."""
        self._application = application
        self._state = server_state
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._waiting: deque[_Request] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._is_clogged = self._is_ending = self._is_amid = False

    # -- what asyncio and uvicorn call -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)  # type: ignore[arg-type]
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(IDLE, self._look_whether_idle)

    def connection_lost(self, _: Exception | None) -> None:
        """The client is gone. What it asked for is done nevertheless: a bind, say."""
        self._state.connections.discard(self)
        self._timer.cancel()
        self._waiting.clear()
        self._is_ending = True

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, of the rest of one, or of several."""
        self._heard = self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_ending = True  # The request has been answered; what follows is of another protocol.
            self._end_when_done()
        except httptools.HttpParserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"this is no HTTP/1.1: {error.__cause__ or error}")

    def pause_writing(self) -> None:
        """The client does not take its answers: it may not ask any more for now."""
        self._is_clogged = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client takes its answers again."""
        self._is_clogged = False
        self._go_on()

    def shutdown(self) -> None:
        """Closes the connection, after the answer that is under way."""
        self._is_ending = True
        self._end_when_done()

    # -- what the parser calls ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._target = b""
        self._body: list[bytes] = []
        self._head_length = self._body_length = 0
        self._expects = self._is_refused = False
        self._is_amid = True

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._target += url
        self._count_head(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._count_head(name + value)
        lower = name.lower()
        if lower == b"content-length":
            self._body_length = int(value)
        elif lower == b"expect":
            self._expects = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        """The body is to come."""
        if self._body_length > self._application.max_request_bytes:
            self._refuse_body()
        elif self._expects:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._body_length = 0

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body_length += len(body)
        if self._is_refused:
            return
        if self._body_length > self._application.max_request_bytes:
            self._refuse_body()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        self._is_amid = False
        if self._is_refused or self._is_ending:
            return
        path = httptools.parse_url(self._target).path.decode("latin-1")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        method = self._parser.get_method().decode("latin-1")
        request = _Request(method, unquote(path), body, self._parser.should_keep_alive())
        if self._answering or self._is_clogged:
            self._waiting.append(request)
        else:
            self._handle(request)

    # -- answering ---------------------------------------------------------------------------------

    def _handle(self, request: _Request) -> None:
        self._state.total_requests += 1
        answer = self._application.answer(request.method, request.path, request.body)
        if isinstance(answer, Answer):
            self._write(request, answer)
            return
        self._transport.pause_reading()
        self._answering = self._loop.create_task(self._write_later(request, answer))
        self._state.tasks.add(self._answering)
        self._answering.add_done_callback(self._state.tasks.discard)

    async def _write_later(self, request: _Request, answer: Awaitable[Answer]) -> None:
        try:
            self._write(request, await answer)
        finally:
            self._answering = None
            self._heard = self._loop.time()
            self._go_on()

    def _go_on(self) -> None:
        """Takes the next request, where there is nothing else to be done."""
        while self._waiting and not (self._answering or self._is_clogged):
            self._handle(self._waiting.popleft())
        if not (self._answering or self._is_clogged or self._transport.is_closing()):
            self._transport.resume_reading()
        self._end_when_done()

    def _write(self, request: _Request, answer: Answer) -> None:
        if self._transport.is_closing():
            return
        is_last = self._is_ending or not request.keeps_alive
        headers = (*answer.headers, ("connection", "close")) if is_last else answer.headers
        head = _head(answer.status, len(answer.body), headers)
        self._transport.write(head if request.method == "HEAD" else head + answer.body)
        if is_last:
            self._transport.close()

    def _end_when_done(self) -> None:
        if self._is_ending and not (self._answering or self._waiting or self._is_amid):
            self._transport.close()

    def _count_head(self, data: bytes) -> None:
        self._head_length += len(data)
        if self._head_length > LONGEST_HEAD and not self._is_refused:
            self._is_refused = True
            problem = f"the target and the headers are longer than {LONGEST_HEAD} bytes"
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, problem)

    def _refuse_body(self) -> None:
        """Answers at once; the rest of the body is read and dropped, so that the connection can be kept."""
        self._is_refused = True
        self._body.clear()
        self._write(_Request("POST", "", b"", keeps_alive=True), self._application.too_long())

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answers what is no request, and closes the connection."""
        self._is_ending = True
        self._waiting.clear()
        self._write(_Request("", "", b"", keeps_alive=False), Answer(status, wire.encode_problem(problem)))

    def _look_whether_idle(self) -> None:
        left = self._heard + IDLE - self._loop.time()
        if left <= 0 and not self._answering:
            self._transport.close()
        else:
            self._timer = self._loop.call_later(max(left, 1.0), self._look_whether_idle)


def _head(status: int, length: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    further = "".join([f"{name}: {value}\r\n" for name, value in headers]) if headers else ""
    return (
        f"HTTP/1.1 {_STATUS[status]}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{further}\r\n"
    ).encode()


_STATUS: Final = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
