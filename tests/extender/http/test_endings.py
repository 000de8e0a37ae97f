"""Nothing is left of a connection that has ended, whichever way, without the collector of garbage."""

from __future__ import annotations

import gc
import socket
import struct
import weakref
from collections.abc import Callable, Iterator

import pytest

from extender.http import clients
from extender.webhook import protocol
from tests.extender.raw import Connection, chunked, request
from tests.extender.served import LIMIT, Served, head, is_gone


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Leaves clients soon."""
    monkeypatch.setattr(protocol.logger, "disabled", True)  # Pytest keeps what is logged of an error, with its frames.
    monkeypatch.setattr(clients, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(clients, "SILENCE_TIMEOUT_S", 0.3)
    served = Served(idle=0.3, arrival=20, max_connections=2, budget_bytes=200_000)
    served.application.max_request_bytes = 200_000
    yield served
    served.stop()


def reset(client: Connection) -> None:
    """Ends the connection by an error."""
    client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client._socket.close()


def give_up(sent: bytes, end: Callable[[Connection], None]) -> Callable[[Served, Connection], None]:
    """The client sends something, and goes."""

    def play(served: Served, client: Connection) -> None:
        client.send(sent)
        served.wait_until(lambda: not sent or served.connections[0]._reader.is_amid)
        end(client)

    return play


def ask_and_go(path: str) -> Callable[[Served, Connection], None]:
    """The client goes before its answer."""

    def play(served: Served, client: Connection) -> None:
        client.send(request(path, b"x" * 100_000) + request("/next", b""))
        served.wait_until(lambda: path in served.application.asked)
        reset(client)
        served.application.may_answer.set()

    return play


def be_left(sent: bytes) -> Callable[[Served, Connection], None]:
    """The server ends the connection."""

    def play(_: Served, client: Connection) -> None:
        client.send(sent)
        assert is_gone(client)

    return play


def stop(sent: bytes) -> Callable[[Served, Connection], None]:
    """The server ends."""

    def play(served: Served, client: Connection) -> None:
        client.send(sent)
        served.wait_until(lambda: not sent or served.connections[0]._reader.is_owed)
        served.server.config.timeout_graceful_shutdown = 1
        served.server.should_exit = True
        assert is_gone(client)

    return play


HALF = request("/a", b"x" * 100_000)[:-1]
ENDINGS: dict[str, Callable[[Served, Connection], None]] = {
    "closed idle": give_up(b"", lambda client: client.__exit__(None, None, None)),
    "closed in a head": give_up(b"POST /a HTTP/1.1\r\nX: ", lambda client: client.__exit__(None, None, None)),
    "closed in a body": give_up(HALF, lambda client: client.__exit__(None, None, None)),
    "reset idle": give_up(b"", reset),
    "reset in a head": give_up(b"POST /a HTTP/1.1\r\nX: ", reset),
    "reset in a body": give_up(HALF, reset),
    "reset in chunks": give_up(chunked("/a", [b"x" * 1_000] * 10)[:-9], reset),
    "reset in an answer": ask_and_go("/large"),
    "reset before an answer": ask_and_go("/later"),
    "closed after an answer": be_left(head("GET", "/a", "Connection: close")),
    "closed after a late answer": ask_and_go("/later"),
    "no request": be_left(b"NONSENSE\r\n\r\n"),
    "no URL": be_left(head("GET", "http://host:99999/")),
    "upgraded": be_left(head("GET", "/a", "Connection: Upgrade", "Upgrade: websocket") + b"x"),
    "a head too long": be_left(b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000),
    "a body too long": be_left(head("POST", "/a", "Content-Length: 200001")),
    "a fault of our own": be_left(request("/fault", b"x" * LIMIT)),
    "silent": be_left(b""),
    "silent in a head": be_left(b"POST /a HTTP/1.1\r\nX: "),
    "silent in a body": be_left(HALF),
    "stopped": stop(b""),
    "stopped in a body": stop(HALF),
}


@pytest.mark.parametrize("play", ENDINGS.values(), ids=ENDINGS)
def test_nothing_is_left(hasty: Served, play: Callable[[Served, Connection], None]) -> None:
    gc.collect()
    gc.disable()
    try:
        with Connection(hasty.address) as client:
            hasty.wait_until(lambda: len(hasty.connections) == 1)
            (left,) = (weakref.ref(each) for each in hasty.connections)
            reader = weakref.ref(hasty.connections[0]._reader)
            play(hasty, client)
            hasty.wait_until(lambda: left() is None and reader() is None)
        assert not hasty.budget._senders
    finally:
        gc.enable()


def test_nothing_is_left_of_one_that_is_turned_away(hasty: Served) -> None:
    gc.collect()
    gc.disable()
    made: list[weakref.ref[object]] = []
    connect = hasty.server.config.http_protocol_class

    def observe(**arguments: object) -> object:
        client = connect(**arguments)
        made.append(weakref.ref(client))
        return client

    hasty.server.config.http_protocol_class = observe  # type: ignore[assignment]
    try:
        with Connection(hasty.address), Connection(hasty.address), Connection(hasty.address) as third:
            assert third.read().status == 503
            assert is_gone(third)
            hasty.wait_until(lambda: made[2]() is None)
    finally:
        gc.enable()
