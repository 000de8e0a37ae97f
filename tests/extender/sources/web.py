"""A web server that says what a test wants, byte for byte."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.patience import join

TLS_HANDSHAKE = b"\x16"

Script = Callable[["Conversation"], None]
"""Answers a request."""


class Request(NamedTuple):
    """A request of a client."""

    method: str
    target: str
    headers: Mapping[str, str]
    """The values of the headers, by names in lower case."""
    body: bytes = b""


class Conversation:
    """One connection, of which one request was read."""

    def __init__(self, web: Web, connection: socket.socket, request: Request) -> None:
        self.request = request
        self._web = web
        self._connection = connection

    def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._connection.sendall(data)
        self._web.sent += len(data)

    def goes_on(self) -> bool:
        """Whether the server still serves, after a moment."""
        return not self._web.stopped.wait(0.01)

    def stall(self) -> None:
        """Sends no more until the client goes away."""
        self._connection.recv(1)


class Web:
    """Serves what `pages` has for the target of a request, one request a connection, else 404."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Script] = {}
        self.requests: list[Request] = []
        self.sent = 0
        """Bytes that the server has handed to the system."""
        self.stopped = threading.Event()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def url(self, target: str, host: str = "127.0.0.1") -> str:
        """The URL of a page."""
        return f"{'https' if self._tls else 'http'}://{host}:{self._listener.getsockname()[1]}{target}"

    def close(self) -> None:
        """Ends all threads."""
        self.stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            join(thread)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=[connection])
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(20)
        with suppress(OSError), connection, self._secure(connection) as secured, secured.makefile("rb") as lines:
            if secured is connection and connection.recv(1, socket.MSG_PEEK) == TLS_HANDSHAKE:
                secured.sendall(head(400))
                return
            first = lines.readline().decode().split()
            if not first:
                return
            pairs = (line.decode().strip().split(": ", 1) for line in iter(lines.readline, b"\r\n"))
            headers = {name.lower(): value for name, value in pairs}
            body = lines.read(int(headers.get("content-length", 0)))
            request = Request(first[0], first[1], headers, body)
            self.requests.append(request)
            self.pages.get(request.target, answer(404))(Conversation(self, secured, request))

    def _secure(self, connection: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(connection, server_side=True) if self._tls else connection


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Web]:
    """A server for the length of a context."""
    web = Web(tls)
    try:
        yield web
    finally:
        web.close()


def answer(status: int, body: bytes = b"", **headers: str) -> Script:
    """A usual answer; `_` in names of headers stands for `-`."""
    return lambda conversation: conversation.send(head(status, Content_Length=str(len(body)), **headers) + body)


def head(status: int, **headers: str) -> bytes:
    """The beginning of an answer."""
    lines = [f"HTTP/1.1 {status} Whatever", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def tagged(tag: str, body: bytes) -> Script:
    """An answer with an ETag, which is honoured."""

    def script(conversation: Conversation) -> None:
        same = conversation.request.headers.get("if-none-match") == tag
        answer(304 if same else 200, b"" if same else body, ETag=tag)(conversation)

    return script
