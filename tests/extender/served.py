"""A server with the verbs' protocol, whose application answers as the test wants."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable

import uvicorn
from uvicorn.server import ServerState

from extender.http.certificates import ServerCertificates
from extender.http.clients import Clients, RequestBudget
from extender.http.handshakes import Handshakes
from extender.serve.servers import uvicorn_config
from extender.webhook import protocol
from extender.webhook.overload import Overload
from extender.webhook.protocol import Answer, Caller
from extender.webhook.router import Denial
from tests.extender.raw import Connection
from tests.patience import wait_until

LIMIT = 1_000


class Echo:
    """Answers with what it was asked; at /later and /waits not before it may, and at /fault not at all.

    While /waits is not answered it is noted when the client goes.
    """

    max_request_bytes = LIMIT

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked: list[str] = []
        self.gone: list[bytes] = []

    def answer(self, method: str, path: str, body: bytes, caller: Caller) -> Answer | Awaitable[Answer]:
        self.asked.append(path)
        answer = Answer(200, b"%s %s %d" % (method.encode(), path.encode(), len(body)))
        if path == "/large":
            return Answer(200, b"x" * 20_000_000)
        if path == "/fault":
            raise ZeroDivisionError
        if path == "/waits":
            return self._wait(answer, caller)
        return self._later(answer) if path == "/later" else answer

    async def _wait(self, answer: Answer, caller: Caller) -> Answer:
        caller.when_gone(lambda: self.gone.append(answer.body))
        return await self._later(answer)

    async def _later(self, answer: Answer) -> Answer:
        await asyncio.get_running_loop().run_in_executor(None, self.may_answer.wait, 30)
        return answer

    def too_long(self) -> Answer:
        return Answer(413, b"too long")


class Served:
    def __init__(
        self,
        max_connections: int = 100,
        idle: float = 300,
        arrival: float = 60,
        budget_bytes: int = 10_000_000,
        *,
        certificates: ServerCertificates | None = None,
        max_handshakes: int = 100,
    ) -> None:
        """With `certificates` the server speaks TLS; `ends` then counts how handshakes ended."""
        self.application = Echo()
        self.clients, self.budget = Clients(max_connections, idle, arrival), RequestBudget(budget_bytes)
        self.overload = Overload()
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = listener.getsockname()
        self.ends: list[str] = []
        tls = certificates and Handshakes(certificates, self._make, max_handshakes, self.ends.append)
        self.server = uvicorn.Server(uvicorn_config(None, tls or self._connect))
        self._thread = threading.Thread(target=self.server.run, args=([listener],))
        self._thread.start()

    def _connect(self, server_state: ServerState, **_: object) -> protocol.Connection:
        return protocol.Connection(self.application, self.clients, self.budget, self.overload.hear, server_state)

    def _make(self, denial: str | None, server_state: ServerState, **_: object) -> protocol.Connection:
        application = Denial(denial) if denial else self.application
        return protocol.Connection(application, self.clients, self.budget, self.overload.hear, server_state)

    @property
    def connections(self) -> list[protocol.Connection]:
        """The connections that are open."""
        return [each for each in list(self.server.server_state.connections) if isinstance(each, protocol.Connection)]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, lambda: f"{len(self.connections)} connections; asked so far: {self.application.asked}")

    def stop(self) -> None:
        self.application.may_answer.set()
        self.server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server does not end"


def head(method: str, target: str, *headers: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/{version}", *headers, "", ""]).encode()


def is_gone(client: Connection) -> bool:
    """Whether the other side has closed the connection, be it in the midst of what it was sent; waits for it."""
    with contextlib.suppress(ConnectionError):
        while client._file.read(1_000_000):
            pass
    return True
