"""HTTP/1.1 with one client: whole requests in, whole answers with a Content-Length out, one after the other.

uvicorn runs it as it runs its own protocols. It is a protocol of our own since an ASGI application has a task and
six messages for each request: as much as all the rest of a small one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, cast

from uvicorn.server import ServerState

from extender import wire
from extender.reader import Reader, Request

IDLE: Final = 300.0
"""Seconds without a word after which a client is left, and one that takes no answers: longer than Go's client keeps an
idle connection, so that it never writes to one that we are closing."""

LOOK_EVERY: Final = 10.0
"""Seconds between two looks whether a client is to be left."""


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


class Connection(asyncio.Protocol):
    """One connection. What comes before its turn waits for it; nothing is done whose answer cannot be sent any more.

    A client is left that is silent or takes no answers for IDLE seconds, or does not send a request within
    `reader.LONGEST_ARRIVAL` seconds; it may take LOOK_EVERY seconds more.
    """

    def __init__(self, application: Application, server_state: ServerState, **_: object) -> None:
        """`server_state` is uvicorn's."""
        self._application = application
        self._state = server_state
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(self, application.max_request_bytes, self._loop.time)
        self._waiting: deque[Callable[[], None]] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._is_clogged = self._is_ending = False

    # -- what asyncio and uvicorn call -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)  # type: ignore[arg-type]
        self._timer = self._loop.call_later(LOOK_EVERY, self._look)

    def connection_lost(self, _: Exception | None) -> None:
        """The client is gone. What is being done for it is done nevertheless: a bind, say."""
        self._state.connections.discard(self)
        self._timer.cancel()
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, of the rest of one, or of several."""
        self._reader.feed(data)

    def pause_writing(self) -> None:
        """The client does not take its answers: it may not ask any more for now."""
        self._is_clogged = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client takes its answers again."""
        self._is_clogged = False
        self._go_on()

    def shutdown(self) -> None:
        """Closes the connection, after the answer that is under way, or that of a request that has begun to come."""
        self._is_ending = True
        if not (self._answering or self._waiting or self._reader.is_amid):
            self._transport.close()

    # -- what the reader calls ---------------------------------------------------------------------

    def take(self, request: Request) -> None:
        """Answers a request."""
        self._in_turn(self._answer, request)

    def take_too_long(self, request: Request) -> None:
        """Answers one that is too long."""
        self._in_turn(self._write, request, self._application.too_long())

    def invite(self) -> None:
        """Lets the client send its body."""
        self._in_turn(self._transport.write, b"HTTP/1.1 100 Continue\r\n\r\n")

    def refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answers what is no request, and closes the connection."""
        nothing = Request("", "", b"", is_last=True)
        self._in_turn(self._write, nothing, Answer(status, wire.encode_problem(problem)))

    # -- answering ---------------------------------------------------------------------------------

    def _in_turn(self, step: Callable[..., None], *arguments: Any) -> None:
        """Takes a step at once, or after those that came before it; never after the last answer."""
        if self._answering or self._is_clogged:
            self._waiting.append(partial(step, *arguments))
        elif not self._transport.is_closing():
            step(*arguments)

    def _answer(self, request: Request) -> None:
        self._state.total_requests += 1
        answer = self._application.answer(request.method, request.path, request.body)
        if isinstance(answer, Answer):
            self._write(request, answer)
            return
        self._transport.pause_reading()
        self._answering = self._loop.create_task(self._write_later(request, answer))
        self._state.tasks.add(self._answering)
        self._answering.add_done_callback(self._state.tasks.discard)

    async def _write_later(self, request: Request, coming: Awaitable[Answer]) -> None:
        try:
            answer = await coming
            if not self._transport.is_closing():
                self._write(request, answer)
        except BaseException:
            self._transport.abort()  # It has no answer, and none after it would be taken for its own.
            raise
        finally:
            self._answering = None
            self._go_on()

    def _write(self, request: Request, answer: Answer) -> None:
        is_last = self._is_ending or request.is_last
        headers = (*answer.headers, ("connection", "close")) if is_last else answer.headers
        head = _head(answer.status, len(answer.body), headers)
        self._transport.write(head if request.method == "HEAD" else head + answer.body)
        if is_last:
            self._transport.close()

    def _go_on(self) -> None:
        """Takes the steps that wait, and listens again, where there is nothing else to be done."""
        while self._is_free and self._waiting:
            self._waiting.popleft()()
        if self._is_free:
            self._reader.rest()
            self._transport.resume_reading()

    @property
    def _is_free(self) -> bool:
        return not (self._answering or self._is_clogged or self._transport.is_closing())

    def _look(self) -> None:
        """Leaves a client that has been waited for too long."""
        if not self._answering and self._loop.time() - self._reader.heard > IDLE:
            self._transport.abort()
            return
        if self._is_free:
            self._reader.look_at_clock()
        self._timer = self._loop.call_later(LOOK_EVERY, self._look)


def _head(status: int, length: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    further = "".join([f"{name}: {value}\r\n" for name, value in headers]) if headers else ""
    return (
        f"HTTP/1.1 {_STATUS[status]}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{further}\r\n"
    ).encode()


_STATUS: Final = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
