"""A client that costs little beside the servers that it measures: prepared bytes out, bytes in, one connection."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple

from bench.controlplane.ports import LOOPBACK

LARGEST_ANSWER: Final = 64 * 1024 * 1024
TIMEOUT: Final = 60.0
HEAD_END: Final = b"\r\n\r\n"
GOOD_HEAD: Final = re.compile(rb"HTTP/1\.1 200 .*?\r\ncontent-length: *(\d+)\r\n", re.DOTALL | re.IGNORECASE)

Request = Sequence[bytes]
"""The bytes of a request in parts, so that large ones can be shared."""


class Answer(NamedTuple):
    """The answer to a request."""

    elapsed: float
    """Milliseconds from the first byte sent to the last one read."""
    body: bytes


class Connection:
    """A keep-alive connection to a server on loopback; a context manager that closes it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._socket = socket.create_connection((LOOPBACK, port), TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(LARGEST_ANSWER)
        self._view = memoryview(self._buffer)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, request: Request) -> Answer:
        """Sends a request and reads the whole answer, which must be status 200 with a Content-Length."""
        begun = time.perf_counter()
        self._send(request)
        body, end = self._read()
        elapsed = time.perf_counter() - begun
        return Answer(elapsed * 1e3, self._view[body:end].tobytes())

    def _send(self, request: Request) -> None:
        sent = self._socket.sendmsg(request)
        if sent < sum(map(len, request)):
            self._socket.sendall(b"".join(request)[sent:])

    def _read(self) -> tuple[int, int]:
        """Where the body begins and ends in the buffer."""
        got = 0
        while (head := self._buffer.find(HEAD_END, 0, got)) < 0:
            got += self._receive(got)
        body = head + len(HEAD_END)
        found = GOOD_HEAD.match(self._buffer, 0, body)
        if not found:
            raise ConnectionError(f"expected status 200 and a Content-Length, got {self._buffer[:got].decode()!r}")
        end = body + int(found[1])
        while got < end:
            got += self._receive(got)
        return body, end

    def _receive(self, at: int) -> int:
        count = self._socket.recv_into(self._view[at:])
        if not count:
            raise ConnectionError(f"the connection was closed after {at} bytes of an answer")
        return count


def post(path: str, *body: bytes) -> Request:
    """A POST of JSON."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {LOOPBACK}",
        "Content-Type: application/json",
        f"Content-Length: {sum(map(len, body))}",
    ]
    return "\r\n".join(lines).encode() + HEAD_END, *body
