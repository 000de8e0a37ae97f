"""The admin address before anybody is let in: what a client may take, and what it may not."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest
import uvicorn

from extender.admin.protocol import AdminConnection
from extender.admin.status import failure_status
from extender.http import clients
from extender.http.clients import Clients
from extender.serve.servers import uvicorn_config
from tests.extender.raw import Answer, Connection, chunked, request
from tests.extender.served import head, is_gone
from tests.patience import delay, wait_until

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Admin:
    """A port as the admin address has it: /take takes a body, /stream answers in parts, the rest takes no body."""

    def __init__(self, max_connections: int = 100, idle: float = 30, arrival: float = 75) -> None:
        self.asked: list[str] = []
        self.may_go_on = threading.Event()
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = listener.getsockname()
        connect = partial(AdminConnection, Clients(max_connections, idle, arrival), None)
        self.server = uvicorn.Server(uvicorn_config(self._app, connect))
        self._thread = threading.Thread(target=self.server.run, args=([listener],))
        self._thread.start()

    async def _app(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        size = 0
        while scope["path"] == "/take":
            message = await receive()
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                break
        text = b"%s %d" % (scope["path"].encode(), size)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
        if scope["path"] == "/stream":
            await send({"type": "http.response.body", "body": text[:1], "more_body": True})
            while not self.may_go_on.is_set():
                await asyncio.sleep(0.01)
            text = text[1:]
        await send({"type": "http.response.body", "body": text})

    @property
    def connections(self) -> list[AdminConnection]:
        """Those that are there."""
        return [each for each in list(self.server.server_state.connections) if isinstance(each, AdminConnection)]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, lambda: f"{len(self.connections)} connections; asked so far: {self.asked}")

    def stop(self) -> None:
        self.may_go_on.set()
        self.server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server does not end"


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    admin = Admin()
    yield admin
    admin.stop()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Admin]:
    """Leaves clients soon."""
    monkeypatch.setattr(clients, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(clients, "SILENCE_TIMEOUT_S", 0.4)
    monkeypatch.setattr(clients, "CROWDED_TIMEOUT_S", 0.2)
    admin = Admin(max_connections=3, idle=0.4, arrival=1.0)
    yield admin
    admin.stop()


@pytest.fixture
def client(admin: Admin) -> Iterator[Connection]:
    with Connection(admin.address) as client:
        yield client


def refused(client: Connection) -> Answer:
    """The answer to what is no request, after which the connection is closed."""
    answer = client.read()
    assert answer.headers["connection"] == "close"
    assert is_gone(client)
    return answer


def refusal(status: int, message: str) -> bytes:
    return json.dumps(failure_status(status, message)).encode()


@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        (
            head("GET", "/a", *["a: b"] * 101),
            431,
            refusal(431, "there are more than 100 headers"),
        ),
        (
            b"GET /a HTTP/1.1\r\n" + b"a: b\r\n" * 1_000_000,
            431,
            refusal(431, "the target and the headers are longer than 65536 bytes"),
        ),
        (
            head("GET", "/" + "a" * 65_536),
            431,
            refusal(431, "the target and the headers are longer than 65536 bytes"),
        ),
        (
            head("POST", "/a", f"Content-Length: {'0' * 5_000}"),
            400,
            refusal(400, "this is no HTTP/1.1: Content-Length has 5000 digits"),
        ),
    ],
    ids=["headers", "small headers", "target", "zeros"],
)
def test_a_head_is_bounded(admin: Admin, client: Connection, sent: bytes, status: int, body: bytes) -> None:
    admin.asked.clear()
    threading.Thread(target=_send, args=(client, sent), daemon=True).start()
    assert refused(client)[::2] == (status, body)
    assert admin.asked == []


def _send(client: Connection, data: bytes) -> None:
    with contextlib.suppress(OSError):  # The other side may have had enough.
        client.send(data)


def test_a_hundred_headers_are_taken(client: Connection) -> None:
    client.send(head("GET", "/a", *["a: b"] * 100))
    assert client.read().body == b"/a 0"


@pytest.mark.parametrize("size", [0, 10, 5_000_000])
def test_a_body_is_taken_and_the_connection_kept(client: Connection, size: int) -> None:
    for _ in range(2):
        client.send(request("/take", b"x" * size))
        assert client.read().body == b"/take %d" % size
        client.send(chunked("/take", [b"x" * size] if size else []))
        assert client.read().body == b"/take %d" % size


def test_a_body_in_tiny_chunks_holds_nobody_up_and_is_taken(admin: Admin, client: Connection) -> None:
    threading.Thread(target=_send, args=(client, chunked("/take", [b"x"] * 500_000)), daemon=True).start()
    with Connection(admin.address) as other:
        assert other.ask("/a", b"").body == b"/a 0"
    assert client.read().body == b"/take 500000"


def test_a_body_that_nobody_wants_is_dropped_and_the_connection_kept(client: Connection) -> None:
    for body in (b"x" * 1_000_000, b"123"):
        client.send(request("/a", body))
        assert client.read().body == b"/a 0"


def test_who_does_not_wait_for_an_answer_gets_that_one_alone(admin: Admin, client: Connection) -> None:
    admin.asked.clear()
    client.send(head("GET", "/a") * 10_000)
    assert client.read().body == b"/a 0"
    assert is_gone(client)
    assert admin.asked == ["/a"]


@pytest.mark.parametrize("sent", [b"", b"GET /a HT", head("POST", "/take", "Content-Length: 9") + b"1"])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_client_that_is_silent_is_left(hasty: Admin, sent: bytes, *, is_known: bool) -> None:
    with Connection(hasty.address) as client:
        if is_known:
            assert client.ask("/a", b"").body == b"/a 0"
        client.send(sent)
        if sent.startswith(b"GET"):
            assert refused(client)[::2] == (408, refusal(408, "no more of the request has come within 0.4 seconds"))
        assert is_gone(client)


@pytest.mark.parametrize("sent", [b"GET /a HTTP/1.1\r\nX: ", head("POST", "/a", "Content-Length: 9000")])
def test_one_whose_request_does_not_come_to_its_end_is_left(hasty: Admin, sent: bytes) -> None:
    with Connection(hasty.address) as client:
        client.send(sent)
        with pytest.raises(ConnectionError):
            wait_until(lambda: client.send(b"x"), "the client that goes on is left")


def test_a_stream_is_no_silence(hasty: Admin) -> None:
    with Connection(hasty.address) as client:
        client.send(head("GET", "/stream"))
        delay(2)
        hasty.may_go_on.set()
        assert client.read().body == b"/stream 0"


def test_the_newest_connection_is_turned_away_and_others_come_in_soon(hasty: Admin) -> None:
    with Connection(hasty.address) as known, Connection(hasty.address) as one, Connection(hasty.address) as two:
        assert known.ask("/a", b"").body == b"/a 0"
        one.send(b"GET /half HT")
        hasty.wait_until(lambda: len(hasty.connections) == 3)
        with Connection(hasty.address) as newest:
            assert refused(newest)[::2] == (503, refusal(503, "there are too many connections; ask again later"))
        assert is_gone(one)
        assert is_gone(two)
        with Connection(hasty.address) as other:
            assert other.ask("/b", b"").body == b"/b 0"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /a HT",
        head("GET", "/stream"),
        head("POST", "/take", "Content-Length: 99999") + b"x",
        b"NONSENSE\r\n\r\n",
    ],
    ids=["idle", "in a head", "in an answer", "in a body", "no request"],
)
def test_nothing_is_left_of_one_that_has_ended(hasty: Admin, sent: bytes) -> None:
    gc.collect()
    gc.disable()
    try:
        with Connection(hasty.address) as client:
            assert client.ask("/a", b"").body == b"/a 0"
            (left,) = (weakref.ref(each) for each in hasty.connections)
            client.send(sent)
            if b"/take" in sent or b"/stream" in sent:
                hasty.wait_until(lambda: len(hasty.asked) == 2)
        hasty.may_go_on.set()
        hasty.wait_until(lambda: left() is None)
    finally:
        gc.enable()
