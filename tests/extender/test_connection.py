"""HTTP/1.1 as the webhook speaks it, with an application that answers as the test wants."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Iterator
from functools import partial

import pytest
import uvicorn

from extender import connection
from extender.connection import LONGEST_HEAD, Answer
from extender.process import _uvicorn
from tests.extender.raw import Connection, chunked, request

LIMIT = 1_000


class Echo:
    """Answers with what it was asked; at /later not before it may, and at /slow in a while."""

    max_request_bytes = LIMIT

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked: list[str] = []

    def answer(self, method: str, path: str, body: bytes) -> Answer | Awaitable[Answer]:
        self.asked.append(path)
        answer = Answer(200, b"%s %s %d" % (method.encode(), path.encode(), len(body)))
        if path == "/large":
            return Answer(200, b"x" * 20_000_000)
        return self._later(answer) if path == "/later" else answer

    async def _later(self, answer: Answer) -> Answer:
        await asyncio.get_running_loop().run_in_executor(None, self.may_answer.wait, 30)
        return answer

    def too_long(self) -> Answer:
        return Answer(413, b"too long")


class Served:
    def __init__(self) -> None:
        self.application = Echo()
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = listener.getsockname()
        self.server = uvicorn.Server(_uvicorn(None, partial(connection.Connection, self.application)))
        self._thread = threading.Thread(target=self.server.run, args=([listener],))
        self._thread.start()

    def stop(self) -> None:
        self.application.may_answer.set()
        self.server.should_exit = True
        self._thread.join()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.stop()


@pytest.fixture
def client(served: Served) -> Iterator[Connection]:
    with Connection(served.address) as client:
        yield client


def head(method: str, target: str, *headers: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/{version}", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a", b"/a"),
        ("/a?b=/c", b"/a"),
        ("/a%20b", b"/a b"),
        ("http://host:80/a?b", b"/a"),
        ("//a", b"//a"),
        ("/", b"/"),
    ],
)
def test_the_target_names_a_path(client: Connection, target: str, path: bytes) -> None:
    client.send(head("POST", target, "Content-Length: 0"))
    answer = client.read()
    assert (answer.status, answer.headers, answer.body) == (
        200,
        {"content-type": "application/json", "content-length": str(len(answer.body))},
        b"POST %s 0" % path,
    )


def test_an_answer_to_head_has_no_body(client: Connection) -> None:
    client.send(head("HEAD", "/a") + request("/b", b"123"))
    assert client._file.readline() == b"HTTP/1.1 200 OK\r\n"
    assert client._file.readline() == b"content-type: application/json\r\n"
    assert client._file.readline() == b"content-length: 9\r\n"
    assert client._file.readline() == b"\r\n"
    assert client.read().body == b"POST /b 3"


@pytest.mark.parametrize(
    ("version", "header", "is_kept"),
    [
        ("1.1", "Host: x", True),
        ("1.1", "Connection: close", False),
        ("1.0", "Host: x", False),
        ("1.0", "Connection: keep-alive", True),
    ],
)
def test_a_connection_is_kept_as_the_client_wants(
    client: Connection, version: str, header: str, *, is_kept: bool
) -> None:
    client.send(head("POST", "/a", header, "Content-Length: 0", version=version))
    answer = client.read()
    assert answer.headers.get("connection") == (None if is_kept else "close")
    if is_kept:
        assert client.ask("/b", b"").body == b"POST /b 0"
    else:
        assert client.is_closed


def test_a_client_that_asks_whether_it_may_go_on_may(client: Connection) -> None:
    client.send(head("POST", "/a", "Content-Length: 4", "Expect: 100-continue"))
    assert client._file.readline() + client._file.readline() == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"1234")
    assert client.read().body == b"POST /a 4"


def test_one_whose_body_would_be_too_long_may_not(client: Connection) -> None:
    client.send(head("POST", "/a", f"Content-Length: {LIMIT + 1}", "Expect: 100-continue"))
    assert client.read()[::2] == (413, b"too long")


def test_a_body_that_grows_too_long_is_refused_once_and_the_connection_kept(client: Connection) -> None:
    client.send(chunked("/a", [b"x" * 400] * 10))
    assert client.read()[::2] == (413, b"too long")
    assert client.ask("/b", b"x" * LIMIT).body == b"POST /b 1000"


@pytest.mark.parametrize(
    "sent",
    [
        head("POST", "/" + "a" * LONGEST_HEAD, "Content-Length: 0"),
        head("POST", "/a", f"X: {'x' * LONGEST_HEAD}", "Content-Length: 0"),
        head("POST", "/a", *[f"X-{at}: {'x' * 100}" for at in range(700)], "Content-Length: 0"),
    ],
    ids=["target", "one header", "many headers"],
)
def test_a_head_without_end_is_refused(client: Connection, sent: bytes) -> None:
    client.send(sent)
    answer = client.read()
    assert (answer.status, answer.body) == (
        431,
        b'{"error":"the target and the headers are longer than 65536 bytes"}',
    )
    assert client.is_closed


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "this is no HTTP/1.1: Invalid method encountered"),
        (b"POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n", "this is no HTTP/1.1: Invalid character in Content-Length"),
        (
            b"POST /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "this is no HTTP/1.1: Duplicate Content-Length",
        ),
        (
            b"POST /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "this is no HTTP/1.1: Transfer-Encoding can't be present with Content-Length",
        ),
    ],
    ids=["TLS", "length", "two lengths", "length and chunks"],
)
def test_what_is_no_http_is_refused(client: Connection, sent: bytes, problem: str) -> None:
    client.send(sent)
    answer = client.read()
    assert (answer.status, answer.body.decode()) == (400, f'{{"error":"{problem}"}}')
    assert client.is_closed


def test_an_upgrade_is_answered_as_any_request_and_ends_the_connection(client: Connection) -> None:
    client.send(head("GET", "/a", "Connection: Upgrade", "Upgrade: websocket") + b"\x81\x05hello")
    assert client.read().body == b"GET /a 0"
    assert client.is_closed


def test_requests_wait_for_the_answer_of_the_one_before(served: Served, client: Connection) -> None:
    client.send(request("/later", b"") + request("/next", b"12") + request("/last", b"123"))
    with Connection(served.address) as other:
        assert other.ask("/other", b"").body == b"POST /other 0"
    assert "/next" not in served.application.asked
    served.application.may_answer.set()
    assert [client.read().body for _ in range(3)] == [b"POST /later 0", b"POST /next 2", b"POST /last 3"]


def test_a_client_that_takes_no_answers_may_ask_for_no_more(served: Served) -> None:
    with Connection(served.address) as client:
        asked = 0
        client._socket.settimeout(1)
        with pytest.raises(TimeoutError):
            while asked < 50_000:
                client.send(request("/large", b"1" * LIMIT))
                asked += 1
        answered = served.application.asked.count("/large")
        assert 0 < answered < 20
        client._socket.settimeout(20)
        assert [len(client.read().body) for _ in range(3)] == [20_000_000] * 3
    with Connection(served.address) as other:
        assert other.ask("/other", b"").body == b"POST /other 0"


def test_the_end_waits_for_the_answer_that_is_under_way(served: Served, client: Connection) -> None:
    with Connection(served.address) as idle:
        assert idle.ask("/a", b"").body == b"POST /a 0"
        client.send(request("/later", b""))
        while "/later" not in served.application.asked:
            time.sleep(0.001)
        served.server.should_exit = True
        assert idle.is_closed
        served.application.may_answer.set()
        answer = client.read()
        assert (answer.headers["connection"], answer.body) == ("close", b"POST /later 0")
        assert client.is_closed


@pytest.mark.parametrize("sent", [b"", b"POST /a HT", head("POST", "/a", "Content-Length: 10") + b"12345"])
def test_a_client_that_says_nothing_for_long_is_left(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connection, "IDLE", 0.2)
    served = Served()
    try:
        with Connection(served.address) as client:
            client.send(sent)
            assert client.is_closed
        assert served.application.asked == []
    finally:
        served.stop()


def test_one_that_waits_for_its_answer_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE", 0.2)
    served = Served()
    try:
        with Connection(served.address) as client:
            client.send(request("/later", b""))
            time.sleep(1.5)
            served.application.may_answer.set()
            assert client.read().body == b"POST /later 0"
    finally:
        served.stop()
