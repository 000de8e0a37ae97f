"""A proxy of the API server that fails some binds: refuses them, carries them out without an answer, or loses them."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from socket import create_server, socket
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import yaml

from bench.controlplane import ControlPlane
from bench.controlplane.ports import LOOPBACK
from tests.extender.cluster.scripted import Received, read_request
from tests.patience import Beside

CHUNK: Final = 1 << 16


class Fault(NamedTuple):
    """What goes wrong with a bind."""

    is_carried_out: bool
    answer: bytes
    """The answer of the API server; empty if the connection is cut."""
    most: int = 12
    """Most requests in a row that fail so: more than the extender sends for one bind."""


def refusal(code: int, reason: str, message: str, *headers: str) -> bytes:
    """An API server's answer that is no success."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    body = json.dumps({**status, "reason": reason, "message": message})
    head = [f"HTTP/1.1 {code} {reason}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "Connection: close", *headers, "", body]).encode()


FAULTS: Final = {
    "too many requests": Fault(False, refusal(429, "TooManyRequests", "try again later", "Retry-After: 1")),
    "conflict": Fault(False, refusal(409, "Conflict", "the object has been modified"), 2),
    "internal error": Fault(False, refusal(500, "InternalError", "etcdserver: leader changed")),
    "late etcd": Fault(True, refusal(500, "InternalError", "etcdserver: request timed out")),
    "unavailable": Fault(False, refusal(503, "ServiceUnavailable", "the server is starting")),
    "lost request": Fault(False, b""),
    "lost answer": Fault(True, b""),
}


async def pass_on(
    request: Received, upstream: str, writer: StreamWriter | None, tls: ssl.SSLContext | None = None
) -> None:
    """Has a server, `host:port`, answer a request. Without a `writer` nobody learns what."""
    host, _, port = upstream.partition(":")
    answer, connection = await asyncio.open_connection(host, int(port), ssl=tls)
    try:
        headers = [f"{name}: {value}" for name, value in request.headers.items() if name != "connection"]
        head = [f"{request.method} {request.target} HTTP/1.1", *headers, "Connection: close", "", ""]
        connection.write("\r\n".join(head).encode() + request.body)
        while data := await answer.read(CHUNK):
            if writer:
                writer.write(data)
                await writer.drain()
    finally:
        connection.transport.abort()


class FaultyBinds:
    """Passes all requests on but the binds of some pods, the same ones with the same seed."""

    def __init__(self, control_plane: ControlPlane, seed: int, share: float) -> None:
        """`share` of all pods meet faults."""
        self._upstream = urlsplit(control_plane.server)
        self._tls = ssl.create_default_context(cafile=str(control_plane.certificate_authority))
        self._seed = seed
        self._share = share
        self._left: dict[str, tuple[str, int]] = {}
        """The fault of a pod and how often it is still to occur, by the path of the pod's binds."""
        self._tasks: set[asyncio.Task[None] | None] = set()
        """The tasks of the connections, to which the loop has weak references alone."""
        self.met: Counter[str] = Counter()
        """How often each fault has occurred."""

    def fault_of(self, path: str) -> str | None:
        """The fault of the first bind at a path; None if that does not fail."""
        name, requests = self._drawn(path)
        return name if requests else None

    @contextmanager
    def serving(self, identity: Path, folder: Path) -> Iterator[Path]:
        """A kubeconfig in a folder, for the account of another one, that leads through here."""
        with closing(create_server((LOOPBACK, 0))) as listener:
            kubeconfig = yaml.safe_load(identity.read_text())
            for entry in kubeconfig["clusters"]:
                entry["cluster"] = {"server": f"http://{LOOPBACK}:{listener.getsockname()[1]}"}
            file = folder / "faulty.kubeconfig"
            file.write_text(yaml.safe_dump(kubeconfig))
            over: Future[None] = Future()
            beside = Beside(lambda: asyncio.run(self._run(listener, over)))
            try:
                yield file
            finally:
                over.set_result(None)
                beside.end()

    async def _run(self, listener: socket, over: Future[None]) -> None:
        """Serves until `over`."""
        server = await asyncio.start_server(self._serve, sock=listener)
        await asyncio.wrap_future(over)
        server.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One request, and the end of the connection."""
        self._tasks.add(asyncio.current_task())
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await read_request(reader)
            fault = self._next(request)
            if fault is None or fault.is_carried_out:
                await pass_on(request, self._upstream.netloc, None if fault else writer, self._tls)
            if fault:
                writer.write(fault.answer)
        self._tasks.discard(asyncio.current_task())

    def _next(self, request: Received) -> Fault | None:
        """The fault of a request; None if it is passed on."""
        path = urlsplit(request.target).path
        if request.method != "POST" or not path.endswith("/binding"):
            return None
        name, left = self._left.get(path) or self._drawn(path)
        self._left[path] = name, left - 1
        if left <= 0:
            return None
        self.met[name] += 1
        return FAULTS[name]

    def _drawn(self, path: str) -> tuple[str, int]:
        """The fault of the pod at a path, and how many of its requests fail, by the seed and the path alone."""
        drawn = random.Random(f"{self._seed} {path}")
        is_hit = drawn.random() < self._share
        name = drawn.choice(sorted(FAULTS))
        return name, drawn.choice([1, FAULTS[name].most]) if is_hit else 0
