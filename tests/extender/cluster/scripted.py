"""A server on loopback that answers as told, for what a real API server cannot be made to do on time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit


class Received(NamedTuple):
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def query(self) -> dict[str, str]:
        """The first value of each query parameter."""
        return {key: values[0] for key, values in parse_qs(urlsplit(self.target).query).items()}


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request, or does not. The connection is closed afterwards."""


def answer(code: int, body: bytes) -> Behaviour:
    """Answers with a whole body."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 %d Scripted\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (code, len(body)))
        writer.write(body)

    return behave


def stream(*chunks: bytes, whole: bool = True, linger: float = 0.0, when: asyncio.Event | None = None) -> Behaviour:
    """Answers with a watch: after `when` the chunks one by one, silence, and, if `whole`, the end of the body."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        if when:
            await when.wait()
        for chunk in chunks:
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await writer.drain()
            await asyncio.sleep(0.01)
        await asyncio.sleep(linger)
        if whole:
            writer.write(b"0\r\n\r\n")

    return behave


def drip(head: bytes, piece: bytes) -> Behaviour:
    """Writes bytes as they are, and from then on more of them, little by little."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)

    return behave


async def hang_up(_: Received, __: asyncio.StreamWriter) -> None:
    """Closes the connection without an answer."""


async def say_nothing(_: Received, __: asyncio.StreamWriter) -> None:
    """Keeps the connection open without an answer."""
    await asyncio.sleep(60)


class ScriptedServer:
    """Plays one behaviour a request, in order; the last one again and again."""

    def __init__(self, *script: Behaviour) -> None:
        self._script = list(script)
        self.received: list[Received] = []

    async def __aenter__(self) -> ScriptedServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._tasks: set[asyncio.Task[Any]] = set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """The server's address."""
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            request = await read_request(reader)
            self.received.append(request)
            behave = self._script.pop(0) if len(self._script) > 1 else self._script[0]
            await behave(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # A connection that was opened and not used, or given up, or the end of the test.
        finally:
            self._tasks.discard(task)
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> Received:
    """The next request of a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split()
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, target, headers, body)
