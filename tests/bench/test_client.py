"""The measuring client reads whole answers, however they come, and takes nothing else for one."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from bench.client import Connection, post
from tests.patience import Beside

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 12\r\n\r\n"


@contextmanager
def serving(*pieces: bytes, read: int) -> Iterator[tuple[Connection, Sequence[bytes]]]:
    """A connection to a server that reads as many bytes, answers in pieces and hangs up; what it has read."""
    received: list[bytes] = []

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            received.append(peer.recv(read, socket.MSG_WAITALL))
            for piece in pieces:
                peer.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        beside = Beside(serve)
        try:
            with Connection(listener.getsockname()[1]) as connection:
                yield connection, received
        finally:
            beside.end()


@pytest.mark.parametrize(
    "pieces",
    [(OK + b"twelve bytes",), (OK, b"twelve", b" bytes"), (OK[:30], OK[30:] + b"twelve bytes")],
    ids=["at once", "in parts", "with half a head"],
)
def test_an_answer_is_read_to_its_end(pieces: Sequence[bytes]) -> None:
    request = post("/filter", b"{}")
    with serving(*pieces, read=sum(map(len, request))) as (connection, _):
        answer = connection.ask(request)
    assert answer.body == b"twelve bytes"
    assert answer.elapsed > 0


def test_the_parts_of_a_request_are_sent_in_order() -> None:
    """Also where they are more than a socket takes at once."""
    large = b"x" * 20_000_000
    request = post("/filter", b"[", large, b"]")
    length = sum(map(len, request))
    with serving(OK + b"twelve bytes", read=length) as (connection, received):
        connection.ask(request)
    lines = [
        "POST /filter HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Content-Length: 20000002",
        "",
        "",
    ]
    assert received == ["\r\n".join(lines).encode() + b"[" + large + b"]"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno",
            "expected status 200 and a Content-Length, got 'HTTP/1.1 500 Oh\\r\\nContent-Length: 2\\r\\n\\r\\nno'",
        ),
        (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
            "expected status 200 and a Content-Length, got 'HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n'",
        ),
        (OK + b"twelve", f"the connection was closed after {len(OK) + 6} bytes of an answer"),
        (b"", "the connection was closed after 0 bytes of an answer"),
    ],
    ids=["status", "no length", "cut off", "nothing"],
)
def test_what_is_no_whole_answer_is_an_error(answer: bytes, message: str) -> None:
    request = post("/filter")
    with serving(answer, read=sum(map(len, request))) as (connection, _), pytest.raises(ConnectionError) as caught:
        connection.ask(request)
    assert str(caught.value) == message
