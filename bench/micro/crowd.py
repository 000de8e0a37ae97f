"""Clients of an extender with TLS, many in a process: those who ask filter at a steady rate, and who do no good."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import uvloop

from bench.controlplane.ports import LOOPBACK
from bench.micro.webhook import bodies
from tests.certificates import Issued

NODES: Final = 100
TIMEOUT_S: Final = 5.0
"""Seconds after which kube-scheduler gives up."""
PAUSE_S: Final = 0.2
"""Seconds before a bad client comes again."""
START_S: Final = 60.0
"""Seconds that a process may take to begin."""

NO_CONNECTION: Final = "no connection"
"""How the problem of a client begins that was not let in: a busy machine may not end its handshake in time. With TLS
1.3 a client learns of that when it waits for its first answer."""

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


class Place(NamedTuple):
    """A port with TLS, with the CA and the certificate of its clients."""

    port: int
    ca: Path
    shown: Issued

    def tls(self) -> ssl.SSLContext:
        """The SSL context of a client."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.shown.cert, self.shown.key)
        return context


class Load(NamedTuple):
    """How the requests of some clients were answered."""

    asked: int
    answered_ms: list[float]
    refused_ms: list[float]
    """Milliseconds until each complete answer that refuses a request."""
    problems: Counter[str]
    """The reasons of refusals, and what happened to requests without a complete answer in time."""
    seconds: float

    @property
    def lost(self) -> int:
        """Requests without a complete answer in time."""
        return self.asked - len(self.answered_ms) - len(self.refused_ms)


def load(place: Place, clients: int, rate: float, seconds: float, patience_s: float = TIMEOUT_S) -> Load:
    """Clients that ask, each over a connection that it keeps: `rate` requests a second all together."""
    asking = _Asking(place, patience_s)
    uvloop.run(asking.run(clients, clients / rate, seconds))
    return asking.load


class _Asking:
    def __init__(self, place: Place, patience_s: float) -> None:
        self._place, self._tls, self._patience_s = place, place.tls(), patience_s
        self._bodies = bodies(NODES)
        self._asked = 0
        self._told = Load(0, [], [], Counter(), 0.0)

    @property
    def load(self) -> Load:
        return self._told._replace(asked=self._asked)

    async def run(self, clients: int, period_s: float, seconds: float) -> None:
        begin, until = time.monotonic(), time.monotonic() + seconds
        first = [begin + period_s * at / clients for at in range(clients)]
        await asyncio.gather(*(self._keep_asking(each, period_s, until) for each in first))
        self._told = self._told._replace(seconds=time.monotonic() - begin)

    async def _keep_asking(self, due: float, period_s: float, until: float) -> None:
        streams: tuple[Reader, Writer] | None = None
        while due < until:
            await asyncio.sleep(due - time.monotonic())
            due = max(due + period_s, time.monotonic())
            is_kept = streams is not None
            try:
                streams = streams or await connect(self._place, self._tls, self._patience_s)
                await asyncio.wait_for(self._ask(*streams), self._patience_s)
                self._asked += 1
            except (OSError, EOFError, asyncio.TimeoutError) as error:
                is_lost = is_kept or (streams is not None and isinstance(error, asyncio.TimeoutError))
                self._asked += is_lost
                self._told.problems[f"{'no answer' if is_lost else NO_CONNECTION}: {error!r}"] += 1
                if streams:
                    streams[1].transport.abort()
                streams = None
        if streams:
            streams[1].transport.abort()

    async def _ask(self, reader: Reader, writer: Writer) -> None:
        begun = time.monotonic()
        body = next(self._bodies)
        writer.write(head("/filter", len(body)) + body)
        status, answer = await read_answer(reader)
        problem = json.loads(answer)["Error"] if status == 200 else f"{status}: {json.loads(answer)['error']}"
        took_ms = (time.monotonic() - begun) * 1e3
        (self._told.refused_ms if problem else self._told.answered_ms).append(took_ms)
        if problem:
            self._told.problems[problem] += 1


async def connect(place: Place, tls: ssl.SSLContext | None, patience_s: float = TIMEOUT_S) -> tuple[Reader, Writer]:
    """A connection. Raises OSError, and TimeoutError of asyncio."""
    coming = asyncio.open_connection(LOOPBACK, place.port, ssl=tls, server_hostname=LOOPBACK if tls else None)
    return await asyncio.wait_for(coming, patience_s)


def head(path: str, length: int) -> bytes:
    """The head of a request with a body of `length` bytes."""
    return b"POST %s HTTP/1.1\r\nHost: extender\r\nContent-Length: %d\r\n\r\n" % (path.encode(), length)


async def read_answer(reader: Reader) -> tuple[int, bytes]:
    """Status and body of an answer. Raises EOFError for an incomplete one."""
    top = await reader.readuntil(b"\r\n\r\n")
    length = int(top.partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
    return int(top.split(None, 2)[1]), await reader.readexactly(length)


async def be_half(reader: Reader, writer: Writer) -> None:
    """Sends half a request."""
    writer.write(head("/filter", 200_000) + b'{"Pod":' + b" " * 100_000)
    await reader.read()


async def drip(reader: Reader, writer: Writer) -> None:
    """Sends one byte a second."""
    for byte in head("/filter", 900):
        writer.write(bytes([byte]))
        await asyncio.sleep(1)
        if reader.at_eof():
            return


async def take_nothing(_: Reader, writer: Writer) -> None:
    """Asks on and on, and reads no answer."""
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    while True:
        writer.write((head("/" + "x" * 10_000, 0)) * 10)
        await writer.drain()


async def reset(_: Reader, writer: Writer) -> None:
    """Asks, and cuts the connection."""
    body = next(bodies(NODES))
    writer.write(head("/filter", len(body)) + body)
    await asyncio.sleep(0.1)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def stall(reader: Reader, writer: Writer) -> None:
    """Begins a handshake, and does not go on."""
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    await reader.read()


async def babble(reader: Reader, writer: Writer) -> None:
    """Sends what is no TLS."""
    writer.write(bytes(10_000))
    await reader.read()


BAD: Final[dict[Callable[[Reader, Writer], Awaitable[None]], bool]] = {
    be_half: True,
    drip: True,
    take_nothing: True,
    reset: True,
    stall: False,
    babble: False,
}
"""What bad clients do, and whether they do it after the TLS handshake."""


def be_bad(place: Place, clients: int) -> None:
    """Runs so many bad clients, of all kinds in turn, until the process is ended. One that is cut off comes again."""
    uvloop.run(_be_bad(place, clients))


async def _be_bad(place: Place, clients: int) -> None:
    tls = place.tls()

    async def go_on(act: Callable[[Reader, Writer], Awaitable[None]]) -> None:
        while True:
            writer = None
            with suppress(OSError, EOFError, asyncio.TimeoutError):
                reader, writer = await connect(place, tls if BAD[act] else None)
                await act(reader, writer)
            if writer:
                writer.transport.abort()
            await asyncio.sleep(PAUSE_S)

    acts = list(BAD)
    await asyncio.gather(*(go_on(acts[at % len(acts)]) for at in range(clients)))


@contextmanager
def child(within_s: float, work: Callable[..., object], *arguments: object) -> Iterator[Connection]:
    """A process of its own, which ends with the context: it calls `work` with a pipe and the arguments.

    The context begins when the process has sent a first message, for which it has `within_s` seconds. It gives the
    pipe's other end.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    try:
        assert ours.poll(within_s), f"the process is not ready within {within_s:g} s"
        ours.recv()
        yield ours
    finally:
        process.kill()
        process.join(within_s)


@contextmanager
def beside(work: Callable[..., Any], *arguments: object) -> Iterator[Callable[[], Any]]:
    """Work in a process of its own, which ends with the context; what it returns can be waited for."""
    with child(START_S, _send, work, arguments) as pipe:
        yield pipe.recv


def _send(pipe: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    pipe.send("begins")
    pipe.send(work(*arguments))
