"""One address with several extenders behind it, each of which gets a request in turn: harder than a Service."""

from __future__ import annotations

import asyncio
import itertools
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from socket import create_server, socket

from bench.controlplane.ports import LOOPBACK
from tests.e2e.faulty_binds import pass_on
from tests.extender.cluster.scripted import read_request
from tests.patience import Beside


@contextmanager
def round_robin(upstreams: Sequence[str]) -> Iterator[str]:
    """The URL of the address. `upstreams` are as in `host:port`."""
    with closing(create_server((LOOPBACK, 0))) as listener:
        over: Future[None] = Future()
        beside = Beside(lambda: asyncio.run(_serve(listener, upstreams, over)))
        try:
            yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        finally:
            over.set_result(None)
            beside.end()


async def _serve(listener: socket, upstreams: Sequence[str], over: Future[None]) -> None:
    turns = itertools.cycle(upstreams)
    tasks: set[asyncio.Task[None] | None] = set()  # The loop knows them weakly.

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await read_request(reader)
            await pass_on(request, next(turns), writer)
        tasks.discard(asyncio.current_task())

    server = await asyncio.start_server(answer, sock=listener)
    await asyncio.wrap_future(over)
    server.close()
