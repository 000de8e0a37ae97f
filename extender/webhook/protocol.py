"""HTTP/1.1 with one client: whole requests in, whole answers with a Content-Length out, one after the other.

uvicorn runs it as it runs its own protocols. It is a protocol of our own since an ASGI application has a task and
six messages for each request: as much as all the rest of a small one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol, cast

from uvicorn.server import ServerState

from extender.http.clients import SMALL_BODY_BYTES, Clients, RequestBudget
from extender.http.request_parser import OUR_FAULT, ExpectContinue, Reader, Refusal, Request
from extender.webhook import encoding

logger = logging.getLogger(__name__)


class Answer(NamedTuple):
    """Status, JSON body and further headers of an answer."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Caller(Protocol):
    """Who has asked. It may go before it is answered."""

    def when_gone(self, tell: Callable[[], object]) -> None:
        """Has `tell` called on the loop if the client goes before it is answered, or has gone already."""


class Stays:
    """A caller that never goes."""

    def when_gone(self, _: Callable[[], object]) -> None:
        """Calls nothing."""


STAYS: Final = Stays()


class Application(Protocol):
    """What answers requests."""

    max_request_bytes: int
    """The longest body that it takes."""

    def answer(self, method: str, path: str, body: bytes, caller: Caller, /) -> Answer | Awaitable[Answer]:
        """The answer, or an awaitable of it. Raises nothing."""

    def too_long(self) -> Answer:
        """What a request is answered whose body is longer."""


class Connection(asyncio.Protocol):
    """One connection, of which one request is answered in a turn of the loop: more would keep the others waiting.

    What comes before its turn waits for it. Nothing is done whose answer cannot be sent any more.
    """

    def __init__(
        self,
        application: Application,
        clients: Clients,
        budget: RequestBudget,
        hear: Callable[[], object],
        server_state: ServerState,
        **_: object,
    ) -> None:
        """`clients` are all those of the port, `budget` bounds what they hold, `server_state` is uvicorn's.

        `hear` is called whenever something has come, before it is looked at.
        """
        self._application = application
        self._clients = clients
        self._budget = budget
        self._hear = hear
        self._state = server_state
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(application.max_request_bytes)
        self._turn: asyncio.Handle | None = None
        self._answering: asyncio.Task[None] | None = None
        self._tell_gone: Callable[[], object] | None = None
        self._is_paused = self._is_clogged = self._is_ending = False
        self.heard = self._loop.time()
        self.began: float | None = None
        self.good_answers = self.held = 0

    # -- what asyncio and uvicorn call -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there. One too many is told so, and left."""
        self._transport = cast(asyncio.Transport, transport)
        if self._clients.join(self):
            self._state.connections.add(self)  # type: ignore[arg-type]
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections; ask again later")

    def connection_lost(self, _: Exception | None) -> None:
        """The client is gone. What is being done for it is done nevertheless, unless that waits only for its sake."""
        self._state.connections.discard(self)
        self._clients.part(self)
        self._reader.close()
        self._is_clogged = False
        if self._turn:
            self._turn.cancel()
            self._turn = None
        self._release()
        if self._tell_gone:
            self._tell_gone()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, of the rest of one, or of several."""
        self._hear()
        self.heard = self._loop.time()
        self._reader.add(data)
        if self._answering:
            self._pause()  # It asks for more. Whether it goes is seen no more until it is answered.
        elif self._turn is None:
            self._go_on()

    def pause_writing(self) -> None:
        """The client does not take its answers: it may not ask any more for now."""
        self._is_clogged = True
        self._pause()
        self._budget.hold(self, self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The client takes its answers again."""
        self._is_clogged = False
        self._release()
        self._listen()

    def shutdown(self) -> None:
        """Closes the connection, after the answer that is under way, or that of a request that has begun to come."""
        self._is_ending = True
        if not (self._answering or self._turn or self._reader.is_owed):
            self._transport.close()

    # -- what the application calls ----------------------------------------------------------------

    def when_gone(self, tell: Callable[[], object]) -> None:
        """Listens while it answers, so that it sees the client go. Of further requests it takes one piece meanwhile."""
        self._tell_gone = tell
        if self._transport.is_closing():
            self._loop.call_soon(tell)
        elif not self._reader.has_more:
            self._is_paused = False
            self._transport.resume_reading()

    # -- what those who look after all clients call ------------------------------------------------

    @property
    def is_awaited(self) -> bool:
        """Whether it is the client's turn: to send something, or to take an answer."""
        return not (self._answering or self._turn)

    def give_up(self, problem: str) -> None:
        """Ends the connection since a request does not come to its end."""
        if self._reader.is_owed:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, problem)
        else:
            self._transport.abort()

    def leave(self) -> None:
        """Ends the connection."""
        self._transport.abort()

    def drop(self) -> None:
        """Refuses the request whose body is coming."""
        problem = f"bodies of other requests take {self._budget.max_bytes} bytes already; ask again later"
        self._budget.hold(self, 0)
        self._write(self._reader.drop(), Answer(HTTPStatus.SERVICE_UNAVAILABLE, encoding.encode_problem(problem)))

    # -- answering ---------------------------------------------------------------------------------

    @property
    def _is_free(self) -> bool:
        return not (self._answering or self._is_clogged or self._transport.is_closing())

    def _go_on(self) -> None:
        """Takes what has come, one request at most: before the next others have their turn."""
        self._turn = None
        if not self._is_free:
            return
        reader = self._reader
        event = reader.read()
        if not reader.is_amid:
            self.began = None
        elif self.began is None:
            self.began = self.heard
        if isinstance(event, Request):
            if event.is_too_long:
                self._write(event, self._application.too_long())
            else:
                self._answer(event)
        elif isinstance(event, ExpectContinue):
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif isinstance(event, Refusal):
            if reader.is_dropping:  # It has been refused before.
                self._transport.close()
            else:
                self._refuse(event.status, event.problem)
        elif reader.held > SMALL_BODY_BYTES:
            self._budget.hold(self, reader.held)
        self._listen()

    def _listen(self) -> None:
        """Waits for a turn, if something is there to be read, else for more; does nothing while something is done."""
        has_more = self._reader.has_more
        if not (has_more or self._is_paused) or self._turn or not self._is_free:
            return
        if has_more:
            self._pause()
            self._turn = self._loop.call_soon(self._go_on)
        else:
            self._is_paused = False
            self._transport.resume_reading()

    def _pause(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def _release(self) -> None:
        """Gives up all memory but that of a request which is being answered, or of an answer that is being sent."""
        if not (self._answering or self._is_clogged):
            self._budget.hold(self, 0)

    def _answer(self, request: Request) -> None:
        self._state.total_requests += 1
        try:
            answer = self._application.answer(request.method, request.path, request.body, self)
        except Exception as error:
            logger.error("a request failed for a fault of our own", exc_info=error)
            self._refuse(*OUR_FAULT)
            return
        if isinstance(answer, Answer):
            self._write(request, answer)
            return
        if len(request.body) > SMALL_BODY_BYTES:
            self._budget.hold(self, len(request.body))
        self._pause()
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
            self._answering = self._tell_gone = None
            self._release()
            self._listen()

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answers what is no request, and closes the connection."""
        nothing = Request("", "", b"", is_last=True)
        self._write(nothing, Answer(status, encoding.encode_problem(problem)))

    def _write(self, request: Request, answer: Answer) -> None:
        is_last = self._is_ending or request.is_last
        headers = (*answer.headers, ("connection", "close")) if is_last else answer.headers
        head = _head(answer.status, len(answer.body), headers)
        self._transport.write(head if request.method == "HEAD" else head + answer.body)
        if self.held:
            self._release()
        if answer.status == 200:
            self.good_answers += 1
        if is_last:
            self._transport.close()


def _head(status: int, length: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    further = "".join([f"{name}: {value}\r\n" for name, value in headers]) if headers else ""
    return (
        f"HTTP/1.1 {_STATUS[status]}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{further}\r\n"
    ).encode()


_STATUS: Final = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
