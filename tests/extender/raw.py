"""HTTP/1.1 over a socket, for what a well-behaved client would not send."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple


class Answer(NamedTuple):
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One connection, kept until the end of its context."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(address, timeout=20)
        self._socket = tls.wrap_socket(plain, server_hostname=address[0]) if tls else plain
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._socket.sendall(data)

    def end(self) -> None:
        """Says that nothing more will be sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def read(self) -> Answer:
        """Reads one answer by its Content-Length, which it must have."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, value = line.decode().split(": ", 1)
            headers[name.lower()] = value
        assert "transfer-encoding" not in headers
        return Answer(status, headers, self._file.read(int(headers["content-length"])))

    def ask(self, path: str, body: bytes, method: str = "POST") -> Answer:
        """Sends a whole request and reads its answer."""
        self.send(request(path, body, method))
        return self.read()

    @property
    def is_closed(self) -> bool:
        """Whether the other side has closed the connection; waits for it."""
        return self._file.read(1) == b""


def request(path: str, body: bytes, method: str = "POST") -> bytes:
    """A request with a Content-Length."""
    return b"%s %s HTTP/1.1\r\nHost: extender\r\nContent-Length: %d\r\n\r\n%s" % (
        method.encode(),
        path.encode(),
        len(body),
        body,
    )


def chunked(path: str, chunks: Iterable[bytes]) -> bytes:
    """A request without a Content-Length."""
    head = b"POST %s HTTP/1.1\r\nHost: extender\r\nTransfer-Encoding: chunked\r\n\r\n" % path.encode()
    return b"".join([head, *(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks), b"0\r\n\r\n"])
