"""HTTP/1.1 as the webhook speaks it, with an application that answers as the test wants."""

from __future__ import annotations

import logging
import select
import tracemalloc
from collections.abc import Iterator

import pytest

from extender.http import clients
from extender.http.request_parser import MAX_HEAD_BYTES
from extender.webhook.protocol import Answer, Caller
from tests.extender.raw import Connection, chunked, request
from tests.extender.served import LIMIT, Echo, Served, head, is_gone
from tests.patience import delay


@pytest.fixture(scope="module")
def running() -> Iterator[Served]:
    served = Served()
    yield served
    served.stop()


@pytest.fixture
def served(running: Served) -> Iterator[Served]:
    """With an application of the test's own; goes on after the test."""
    running.application = Echo()
    yield running
    running.application.may_answer.set()


@pytest.fixture
def client(served: Served) -> Iterator[Connection]:
    with Connection(served.address) as client:
        yield client


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a", b"/a"),
        ("/a?b=/c", b"/a"),
        ("/a%20b", b"/a b"),
        ("http://host:80/a?b", b"/a"),
        ("http://host", b"/"),
        ("http://host?a", b"/"),
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
        ("1.0", "Connection: keep-alive", False),
        ("1.1", "Connection: keep-alive", True),
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
    ("version", "header"), [("1.1", "Connection: close"), ("1.0", "Host: x"), ("1.0", "Connection: keep-alive")]
)
def test_a_body_too_long_ends_the_connection_where_the_client_wants(
    client: Connection, version: str, header: str
) -> None:
    sent = head("POST", "/a", header, f"Content-Length: {LIMIT + 1}", version=version) + b"x" * (LIMIT + 1)
    client.send(sent + request("/b", b""))
    answer = client.read()
    assert (answer.status, answer.headers["connection"], answer.body) == (413, "close", b"too long")
    assert client.is_closed


@pytest.mark.parametrize("rest", [b"no chunk", b"1\r\nx\r\n0\r\nX: " + b"x" * 1_000_000], ids=["no chunk", "trailer"])
def test_a_body_is_refused_once_whatever_comes_after(client: Connection, rest: bytes) -> None:
    client.send(chunked("/a", [b"x" * (LIMIT + 1)]).removesuffix(b"0\r\n\r\n"))
    assert client.read()[::2] == (413, b"too long")
    client.send(rest)
    assert is_gone(client)


def test_a_body_in_tiny_pieces_takes_little_more_than_its_size(served: Served) -> None:
    size = 200_000
    served.application.max_request_bytes = size
    sent = chunked("/a", [b"xy"] * (size // 2))
    with Connection(served.address) as client:
        tracemalloc.start()
        try:
            client.send(sent)
            assert client.read().body == b"POST /a %d" % size
            assert tracemalloc.get_traced_memory()[1] < 1_500_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "sent",
    [
        head("POST", "/" + "a" * MAX_HEAD_BYTES, "Content-Length: 0"),
        head("POST", "/a", f"X: {'x' * MAX_HEAD_BYTES}", "Content-Length: 0"),
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
    ("begin", "more"),
    [
        (b"", b"\r\n"),
        (b"POST /", b"a"),
        (b"POST /a HTTP/1.1\r\n", b"x"),
        (b"POST /a HTTP/1.1\r\nX: ", b"x"),
        (b"POST /a HTTP/1.1\r\n", b"X: x\r\n"),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", b"x"),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ", b"x"),
    ],
    ids=["empty lines", "target", "name", "value", "headers", "chunk", "trailer"],
)
def test_a_head_that_never_ends_is_refused_and_holds_nobody_up(served: Served, begin: bytes, more: bytes) -> None:
    with Connection(served.address) as client, Connection(served.address) as other:
        client.send(begin)
        with pytest.raises(ConnectionError):
            for _ in range(40):
                client.send(more * (1_000_000 // len(more)))
                assert other.ask("/other", b"").body == b"POST /other 0"
        assert is_gone(client)
    assert set(served.application.asked) == {"/other"}


def test_why_a_head_that_never_ends_is_refused(served: Served, client: Connection) -> None:
    client.send(b"POST /a HTTP/1.1\r\nX: ")
    with Connection(served.address) as other:
        assert other.ask("/other", b"").body == b"POST /other 0"
    client.send(b"x" * (MAX_HEAD_BYTES + 1))
    answer = client.read()
    assert (answer.status, answer.headers["connection"], answer.body) == (
        431,
        "close",
        b'{"error":"the target and the headers are longer than 65536 bytes"}',
    )


def test_a_head_and_a_body_may_come_byte_by_byte(client: Connection) -> None:
    for _ in range(2):
        for byte in head("POST", "/a", "X: y", "Content-Length: 4") + b"1234":
            client.send(bytes([byte]))
        assert client.read().body == b"POST /a 4"


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
        (
            b"GET http://host:99999/a HTTP/1.1\r\n\r\n",
            "this is no HTTP/1.1: the target is no URL: http://host:99999/a",
        ),
        (
            b"POST /a HTTP/1.1\r\nContent-Length: %s\r\n\r\n" % (b"0" * 5_000),
            "this is no HTTP/1.1: Content-Length has 5000 digits",
        ),
    ],
    ids=["TLS", "length", "two lengths", "length and chunks", "port", "zeros"],
)
def test_what_is_no_http_is_refused(client: Connection, sent: bytes, problem: str) -> None:
    client.send(sent)
    answer = client.read()
    assert (answer.status, answer.body.decode()) == (400, f'{{"error":"{problem}"}}')
    assert client.is_closed


def test_an_upgrade_is_answered_as_any_request_and_ends_the_connection(client: Connection) -> None:
    client.send(head("GET", "/a", "Connection: Upgrade", "Upgrade: websocket") + b"\x81\x05hello")
    answer = client.read()
    assert (answer.headers["connection"], answer.body) == ("close", b"GET /a 0")
    assert client.is_closed


def test_so_is_a_tunnel(client: Connection) -> None:
    client.send(head("CONNECT", "host:443") + b"\x16\x03\x01")
    answer = client.read()
    assert (answer.headers["connection"], answer.body) == ("close", b"CONNECT / 0")
    assert client.is_closed


def test_a_fault_of_our_own_is_logged_and_not_shown(client: Connection, caplog: pytest.LogCaptureFixture) -> None:
    client.send(request("/fault", b"") + request("/next", b""))
    answer = client.read()
    assert (answer.status, answer.body) == (500, b'{"error":"internal error, see the log of the extender"}')
    assert client.is_closed
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.message == "a request failed for a fault of our own"
    assert record.exc_info and record.exc_info[0] is ZeroDivisionError


def test_requests_wait_for_the_answer_of_the_one_before(served: Served, client: Connection) -> None:
    client.send(request("/later", b"") + request("/next", b"12") + request("/last", b"123"))
    with Connection(served.address) as other:
        assert other.ask("/other", b"").body == b"POST /other 0"
    assert "/next" not in served.application.asked
    served.application.may_answer.set()
    assert [client.read().body for _ in range(3)] == [b"POST /later 0", b"POST /next 2", b"POST /last 3"]


@pytest.mark.parametrize(
    ("after", "status"),
    [
        (b"NONSENSE\x01\r\n\r\n", 400),
        (head("GET", "http://host:99999/"), 400),
        (request("/long", b"x" * (LIMIT + 1)), 413),
        (head("POST", "/a", f"X: {'x' * MAX_HEAD_BYTES}"), 431),
    ],
)
def test_a_refusal_waits_for_the_answer_of_the_one_before(
    served: Served, client: Connection, after: bytes, status: int
) -> None:
    client.send(request("/later", b"") + after)
    served.wait_until(lambda: "/later" in served.application.asked)
    with Connection(served.address) as other:
        assert other.ask("/other", b"").body == b"POST /other 0"
    served.application.may_answer.set()
    assert client.read().body == b"POST /later 0"
    assert client.read().status == status
    if status == 413:
        assert client.ask("/b", b"").body == b"POST /b 0"
    else:
        assert client.is_closed


def test_what_is_cut_at_any_byte_is_read_as_it_is_meant(client: Connection) -> None:
    """The end of a head is where requests are told apart."""
    sent = (
        b"\r\n"
        + request("/a", b"1\r\n\r\n")
        + head("GET", "/b")
        + chunked("/c", [b"12", b"\r\n\r\n"])
        + head("GET", "/d")
    )
    for cut in range(1, len(sent)):
        client.send(sent[:cut])
        delay(0)
        client.send(sent[cut:])
        assert [client.read().body for _ in range(4)] == [b"POST /a 5", b"GET /b 0", b"POST /c 6", b"GET /d 0"]


def test_who_asks_without_a_pause_has_one_request_answered_in_a_turn(served: Served, client: Connection) -> None:
    """Else others wait until all are answered that came at once."""
    many = 5_000
    with Connection(served.address) as other:
        client.send(head("GET", "/a") * many)
        assert client.read().body == b"GET /a 0"
        other.send(request("/other", b""))
        assert other.read().body == b"POST /other 0"
        assert served.application.asked.index("/other") < many // 2
    assert {client.read().body for _ in range(many - 1)} == {b"GET /a 0"}


def test_nothing_is_queued_of_what_comes_at_once_but_its_bytes(served: Served, client: Connection) -> None:
    client.send(request("/later", b"") + head("GET", "/a") * 1_000)
    served.wait_until(lambda: "/later" in served.application.asked)
    (connection,) = served.connections
    assert len(connection._reader._events) == 0
    assert not connection._reader.is_amid
    served.application.may_answer.set()
    assert client.read().body == b"POST /later 0"
    assert {client.read().body for _ in range(1_000)} == {b"GET /a 0"}


def test_leave_to_go_on_waits_for_the_answer_of_the_one_before(served: Served, client: Connection) -> None:
    client.send(request("/later", b"") + head("POST", "/a", "Content-Length: 4", "Expect: 100-continue"))
    served.wait_until(lambda: "/later" in served.application.asked)
    served.application.may_answer.set()
    assert client.read().body == b"POST /later 0"
    assert client._file.readline() + client._file.readline() == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"1234")
    assert client.read().body == b"POST /a 4"


@pytest.mark.parametrize("path", ["/later", "/now"])
def test_nothing_is_done_after_the_last_answer(served: Served, client: Connection, path: str) -> None:
    last = head("GET", path, "Connection: Upgrade", "Upgrade: websocket")
    client.send(request("/later", b"") + last + request("/bind", b""))
    served.wait_until(lambda: "/later" in served.application.asked)
    served.application.may_answer.set()
    assert [client.read().body for _ in range(2)] == [b"POST /later 0", b"GET %s 0" % path.encode()]
    assert client.is_closed
    assert served.application.asked == ["/later", path]


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


@pytest.fixture
def ending() -> Iterator[Served]:
    served = Served()
    yield served
    served.stop()


def test_the_end_waits_for_the_answer_that_is_under_way(ending: Served) -> None:
    with Connection(ending.address) as client, Connection(ending.address) as idle:
        assert idle.ask("/a", b"").body == b"POST /a 0"
        client.send(request("/later", b""))
        ending.wait_until(lambda: "/later" in ending.application.asked)
        ending.server.should_exit = True
        assert idle.is_closed
        ending.application.may_answer.set()
        answer = client.read()
        assert (answer.headers["connection"], answer.body) == ("close", b"POST /later 0")
        assert client.is_closed


@pytest.mark.parametrize("at", [9, -7, -3])
def test_the_end_waits_for_a_request_that_has_begun_to_come(ending: Served, at: int) -> None:
    with Connection(ending.address) as client, Connection(ending.address) as idle:
        assert idle.ask("/a", b"").body == b"POST /a 0"
        sent = request("/bind", b"12345")
        client.send(sent[:at])
        ending.wait_until(lambda: any(each._reader.is_owed for each in ending.connections))
        ending.server.should_exit = True
        assert idle.is_closed
        client.send(sent[at:])
        answer = client.read()
        assert (answer.headers["connection"], answer.body) == ("close", b"POST /bind 5")
        assert client.is_closed


def test_the_end_does_not_wait_for_a_body_that_is_refused(ending: Served) -> None:
    with Connection(ending.address) as client:
        client.send(head("POST", "/a", f"Content-Length: {LIMIT + 1}"))
        assert client.read()[::2] == (413, b"too long")
        client.send(b"x")
        ending.server.should_exit = True
        assert is_gone(client)


def test_nothing_is_done_after_an_answer_that_is_given_up(ending: Served) -> None:
    with Connection(ending.address) as client:
        ending.server.config.timeout_graceful_shutdown = 1
        client.send(request("/later", b"") + request("/bind", b""))
        ending.wait_until(lambda: "/later" in ending.application.asked)
        ending.server.should_exit = True
        assert is_gone(client)
    ending.stop()
    assert ending.application.asked == ["/later"]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Leaves clients soon."""
    monkeypatch.setattr(clients, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(clients, "SILENCE_TIMEOUT_S", 0.3)
    served = Served(idle=0.3, arrival=20)
    yield served
    served.stop()


@pytest.mark.parametrize("is_known", [False, True])
def test_a_client_that_says_nothing_for_long_is_left(hasty: Served, *, is_known: bool) -> None:
    with Connection(hasty.address) as client:
        if is_known:
            assert client.ask("/a", b"").body == b"POST /a 0"
        assert client.is_closed


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("begin", [b"POST /a HT", head("POST", "/a", "Content-Length: 10") + b"12345"])
def test_one_that_says_no_more_of_a_request_is_left(hasty: Served, begin: bytes, *, is_known: bool) -> None:
    with Connection(hasty.address) as client:
        if is_known:
            assert client.ask("/known", b"").body == b"POST /known 0"
        client.send(begin)
        assert client.read()[::2] == (408, b'{"error":"no more of the request has come within 0.3 seconds"}')
        assert client.is_closed
    assert "/a" not in hasty.application.asked


@pytest.mark.parametrize("header", ["Connection: keep-alive", "Connection: close"])
def test_one_that_takes_no_answers_is_left(hasty: Served, header: str) -> None:
    with Connection(hasty.address) as client:
        client.send(head("POST", "/large", header))
        hasty.wait_until(lambda: "/large" in hasty.application.asked)
        hasty.wait_until(lambda: not hasty.server.server_state.connections)
        assert is_gone(client)


def test_one_that_waits_for_its_answer_is_not(hasty: Served) -> None:
    with Connection(hasty.address) as client:
        client.send(request("/later", b""))
        delay(1)
        hasty.application.may_answer.set()
        assert client.read().body == b"POST /later 0"


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Waits for no request for long."""
    monkeypatch.setattr(clients, "POLL_INTERVAL_S", 0.05)
    served = Served(arrival=0.5)
    yield served
    served.stop()


@pytest.mark.parametrize("begin", [b"POST /a HTTP/1.1\r\nX: ", head("POST", "/a", "Content-Length: 1000")])
def test_one_whose_request_does_not_come_to_its_end_is_left(strict: Served, begin: bytes) -> None:
    with Connection(strict.address) as client:
        assert client.ask("/a", b"").body == b"POST /a 0"
        client.send(begin)
        trickle(client)
        answer = client.read()
        assert (answer.status, answer.headers["connection"], answer.body) == (
            408,
            "close",
            b'{"error":"the request has not come to its end within 0.5 seconds"}',
        )
        assert is_gone(client)
    assert strict.application.asked == ["/a"]


def test_so_is_one_that_goes_on_with_a_refused_body(strict: Served) -> None:
    with Connection(strict.address) as client:
        client.send(head("POST", "/a", "Content-Length: 1000000"))
        assert client.read()[::2] == (413, b"too long")
        trickle(client)
        assert is_gone(client)


def trickle(client: Connection) -> None:
    """Sends byte after byte until the other side has said something."""
    while not select.select([client._socket], [], [], 0.05)[0]:
        client.send(b"x")


# -- clients that go before they are answered ------------------------------------------------------


def test_an_application_that_waits_is_told_when_the_client_goes(served: Served) -> None:
    with Connection(served.address) as client, Connection(served.address) as other:
        for each in (client, other):
            each.send(request("/waits", b"123"))
        served.wait_until(lambda: len(served.application.asked) == 2)
        assert served.application.gone == []
        client._socket.close()
        client._file.close()
        served.wait_until(lambda: served.application.gone == [b"POST /waits 3"])
        served.application.may_answer.set()
        assert other.read().body == b"POST /waits 3"
        assert other.ask("/a", b"1").body == b"POST /a 1"
    served.wait_until(lambda: not served.connections)
    assert served.application.gone == [b"POST /waits 3"]


class Slow(Echo):
    """Wants to know whether the client goes only after a while."""

    async def _wait(self, answer: Answer, caller: Caller) -> Answer:
        await self._later(answer)
        caller.when_gone(lambda: self.gone.append(answer.body))
        return answer


def test_an_application_is_told_of_a_client_that_has_gone_before(served: Served) -> None:
    served.application = Slow()
    with Connection(served.address) as client:
        client.send(request("/waits", b"123"))
        served.wait_until(lambda: served.application.asked == ["/waits"])
        (connection,) = served.connections
        connection._loop.call_soon_threadsafe(connection.leave)
        served.wait_until(lambda: not served.connections)
        served.application.may_answer.set()
        served.wait_until(lambda: served.application.gone == [b"POST /waits 3"])


def test_what_a_client_asks_while_it_waits_is_answered_afterwards(served: Served, client: Connection) -> None:
    client.send(request("/waits", b"123"))
    served.wait_until(lambda: served.application.asked == ["/waits"])
    client.send(request("/a", b"1") + request("/b", b"22"))
    served.application.may_answer.set()
    assert [client.read().body for _ in range(3)] == [b"POST /waits 3", b"POST /a 1", b"POST /b 2"]
    assert (served.application.asked, served.application.gone) == (["/waits", "/a", "/b"], [])


def test_a_client_that_waits_can_make_the_server_hold_little(served: Served, client: Connection) -> None:
    """Requests that come while one is answered are left in the socket, but for one piece."""
    client.send(request("/waits", b"123"))
    served.wait_until(lambda: served.application.asked == ["/waits"])
    (connection,) = served.connections
    more = request("/a", b"x" * 900)
    client._socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        while True:
            client.send(more)
    assert connection._reader._received.size <= 256 * 1024
