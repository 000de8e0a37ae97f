"""A stand-in for kube-apiserver: nodes and pods to list and to watch in protobuf, and updates of nodes at a rate.

    with api_server(nodes=5_000, pods=50_000) as cluster:  # or nodes=Path of a protobuf v1.NodeList
        file = cluster.write_kubeconfig(folder)  # for the extender: cluster.mode: kubeconfig
        peer = [binary, "-apiserver", cluster.url]
        cluster.update(rate=100)  # updates of nodes a second, from now on; 0 ends them
    cluster.update_pods(rate=100)  # the same of pods

What it serves is what `bench.peers.objects` makes, or nodes from a file. Whatever their resourceVersions were, it gives
them its own. It runs in a process of its own and speaks no more than its clients need: lists in pages, watches from a
version, and four requests that no real one has: `PUT /updates?rate=N`, `PUT /pod-updates?rate=N`, `GET /updates` and
`PUT /nodes`.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from bench.controlplane.ports import LOOPBACK, free_port
from bench.peers import objects
from bench.peers.kubeconfig import write_kubeconfig
from bench.peers.nodelist import read_nodes
from bench.peers.protobuf import enveloped, event, framed, integer, text
from bench.servers import running
from extender.cluster.client.api import PROTOBUF
from extender.cluster.watch.wire import WATCH_STREAM
from wasm_runtime.protobuf import encode_node, encode_pod
from wasm_runtime.protobuf.read import fields, identity

FIRST_VERSION: Final = 1_000_000
"""The resourceVersion of all objects at the start."""
MOST_KEPT: Final = 20_000
"""Events from which a watch can go on; one from before them is answered with 410 Gone, as in Kubernetes."""
TICK: Final = 0.005
"""Seconds between two looks at how many updates are due."""
POD_NODES: Final = 5_000
"""Pods are spread over this many nodes, be they there or not."""
GPU_POD_EVERY: Final = 10
"""One in so many pods of a node asks for a GPU, if nodes have GPUs."""
RATES: Final = {"/updates": "nodes", "/pod-updates": "pods"}
"""The resource whose rate of updates a request sets, by the request's path."""


class Cluster(NamedTuple):
    """A running stand-in for an API server."""

    port: int

    @property
    def url(self) -> str:
        """The URL of the stand-in."""
        return f"http://{LOOPBACK}:{self.port}"

    def write_kubeconfig(self, folder: Path) -> Path:
        """Writes a kubeconfig for the stand-in into a folder, and returns its path."""
        return write_kubeconfig(folder / "kubeconfig", {"server": self.url})

    def update(self, rate: float) -> None:
        """Updates `rate` nodes a second from now on, one after the other; 0 ends the updates."""
        self._ask("PUT", f"/updates?rate={rate}")

    def update_pods(self, rate: float) -> None:
        """Updates `rate` pods a second from now on, one after the other; 0 ends the updates."""
        self._ask("PUT", f"/pod-updates?rate={rate}")

    def updates(self) -> int:
        """How many updates of nodes there were so far, with those by `put`."""
        return int(self._ask("GET", "/updates"))

    def put(self, nodes: bytes) -> None:
        """Replaces nodes by newer ones of the same names, given as a protobuf v1.NodeList."""
        self._ask("PUT", "/nodes", nodes)

    def _ask(self, method: str, target: str, body: bytes | None = None) -> bytes:
        with closing(http.client.HTTPConnection(LOOPBACK, self.port, timeout=30)) as connection:
            connection.request(method, target, body)
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == HTTPStatus.OK, content
            return content


@contextmanager
def api_server(nodes: int | Path, pods: int = 0, gpus: int = 0) -> Iterator[Cluster]:
    """A stand-in with as many nodes, or with those of a file, and pods on them, in a process of its own.

    With `gpus` each node that is not of a file has so many, and of ten pods one asks for one.
    """
    port = free_port()
    options = {
        "--port": port,
        "--node-list" if isinstance(nodes, Path) else "--nodes": nodes,
        "--pods": pods,
        "--gpus": gpus,
    }
    command = [sys.executable, "-m", "bench.peers.apiserver", *(str(each) for pair in options.items() for each in pair)]
    with running(command, port):
        yield Cluster(port)


class RefusedError(Exception):
    """A request that is answered with a v1.Status."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = json.dumps(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": reason,
                "code": status,
                "message": message,
            }
        ).encode()


class Collection:
    """The objects of one resource, each at a fixed index, and the latest changes."""

    def __init__(self, kind: str, items: list[bytes]) -> None:
        """`items` are bare protobuf."""
        self._kind = kind
        self._items = items
        self._frames: list[bytes] = []
        self._kept_from = self.version = FIRST_VERSION
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def page(self, query: Mapping[str, str]) -> bytes:
        """The answer of a list.

        A later page may have objects that are newer than the version it names. A watch from there tells of them once
        more, so nothing is lost.
        """
        begin, version = map(int, query.get("continue", f"0 {self.version}").split())
        end = begin + (int(query.get("limit", 0)) or len(self))
        metadata = text(2, str(version)) + (text(3, f"{end} {version}") if end < len(self) else b"")
        items = [text(2, item) for item in self._items[begin:end]]
        return enveloped(text(1, metadata) + b"".join(items), f"{self._kind}List")

    def replace(self, at: int, item: bytes) -> None:
        """Puts a newer object, whose resourceVersion is the next version, into a place."""
        self._items[at] = item
        self._frames.append(framed(event("MODIFIED", item)))
        self.version += 1
        if len(self._frames) > 2 * MOST_KEPT:
            self._kept_from += len(self._frames) - MOST_KEPT
            del self._frames[:-MOST_KEPT]
        self._changed.set()
        self._changed = asyncio.Event()

    def forget(self) -> None:
        """Keeps none of the events until now."""
        self._kept_from += len(self._frames)
        self._frames.clear()

    def watch(self, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The frames of what changes after a version, as they come. Raises RefusedError."""
        if "sendInitialEvents" in query:
            message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message)
        version = int(query["resourceVersion"])
        if version < self._kept_from:
            raise RefusedError(HTTPStatus.GONE, "Expired", f"too old resource version: {version} ({self._kept_from})")
        if version > self.version:
            raise RefusedError(HTTPStatus.GONE, "Expired", f"too large resource version: {version} ({self.version})")
        return self._follow(version)

    async def _follow(self, version: int) -> AsyncIterator[bytes]:
        """None of what it yields is empty: an empty chunk would end the answer."""
        while version >= self._kept_from:
            if version == self.version:
                await self._changed.wait()
            frames, version = self._frames[version - self._kept_from :], self.version
            yield b"".join(frames)


def stamped(item: bytes, version: int) -> bytes:
    """A bare object with another resourceVersion, field 6 of ObjectMeta (which has no fields of a fixed size)."""
    stamp = text(6, str(version))

    def metadata(message: bytes) -> bytes:
        parts = [stamp if number == 6 else _field(number, value) for number, _, value in fields(message)]
        return b"".join(parts if stamp in parts else [*parts, stamp])

    return b"".join(
        text(1, metadata(value)) if number == 1 and isinstance(value, bytes) else _field(number, value)
        for number, _, value in fields(item)
    )


def _field(number: int, value: int | bytes) -> bytes:
    return integer(number, value) if isinstance(value, int) else text(number, value)


def made_node(at: int, gpus: int, version: int = FIRST_VERSION, update: int = 0) -> bytes:
    """A node that is made from its number, bare protobuf."""
    node = objects.node(at, version, update)
    return encode_node(objects.with_gpus(node, gpus) if gpus else node)


def made_pod(at: int, gpus: int, update: int = 0) -> bytes:
    """A pod on a node, made from its number, bare protobuf."""
    asks = bool(gpus) and at // POD_NODES % GPU_POD_EVERY == 0
    return encode_pod(objects.running_pod(at, objects.node_name(at % POD_NODES), int(asks), update))


class ApiServer:
    """Serves collections, and updates what is in them."""

    def __init__(self, nodes: list[bytes], pods: int, gpus: int = 0) -> None:
        """`nodes` are bare protobuf."""
        self._gpus = gpus
        self._nodes = Collection("Node", nodes)
        self._pods = Collection("Pod", [made_pod(at, gpus) for at in range(pods)])
        self._places = {identity(node).name: at for at, node in enumerate(nodes)}
        self._collections = {"/api/v1/nodes": self._nodes, "/api/v1/pods": self._pods}
        self._updates = {"nodes": 0, "pods": 0}
        self._rates = {"nodes": 0.0, "pods": 0.0}

    async def serve(self, port: int) -> None:
        """Serves and updates until cancelled."""
        server = await asyncio.start_server(self._serve_connection, LOOPBACK, port)
        async with server:
            await self._update()

    async def _update(self) -> None:
        due, looked = dict.fromkeys(self._rates, 0.0), time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            for kind, rate in self._rates.items():
                due[kind] += rate * (now - looked)
                while due[kind] >= 1:
                    self._update_next(kind)
                    due[kind] -= 1
            looked = now

    def _update_next(self, kind: str) -> None:
        self._updates[kind] += 1
        update = self._updates[kind]
        if kind == "nodes":
            at = update % len(self._nodes)
            self._nodes.replace(at, made_node(at, self._gpus, self._nodes.version + 1, update))
        else:
            at = update % len(self._pods)
            self._pods.replace(at, stamped(made_pod(at, self._gpus, update), self._pods.version + 1))

    def _put(self, nodes: Mapping[str, bytes]) -> None:
        if unknown := nodes.keys() - self._places:
            raise RefusedError(HTTPStatus.NOT_FOUND, "NotFound", f"no node is named {min(unknown)}")
        for name, node in nodes.items():
            self._nodes.replace(self._places[name], stamped(node, self._nodes.version + 1))

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                method, target, _ = head.decode().split(maxsplit=2)
                await self._answer(method, target, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The client has left.
        finally:
            writer.close()

    async def _answer(self, method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        url = urlsplit(target)
        query = dict(parse_qsl(url.query))
        try:
            if method == "PUT" and url.path in RATES:
                self._rates[RATES[url.path]] = float(query["rate"])
                await write_answer(writer, HTTPStatus.OK, b"")
            elif (method, url.path) == ("GET", "/updates"):
                await write_answer(writer, HTTPStatus.OK, b"%d" % (self._nodes.version - FIRST_VERSION))
            elif (method, url.path) == ("PUT", "/nodes"):
                self._put(read_nodes(body))
                await write_answer(writer, HTTPStatus.OK, b"")
            elif url.path not in self._collections:
                raise RefusedError(HTTPStatus.NOT_FOUND, "NotFound", f"{url.path} is not served here")
            elif "watch" in query:
                await _stream(writer, self._collections[url.path].watch(query), float(query["timeoutSeconds"]))
            else:
                await write_answer(writer, HTTPStatus.OK, self._collections[url.path].page(query))
        except RefusedError as refused:
            await write_answer(writer, refused.status, refused.body, "application/json")


def _length(head: bytes) -> int:
    """The length of the body that follows a head."""
    lines = head.lower().split(b"\r\n")
    return next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)


async def write_answer(writer: asyncio.StreamWriter, status: HTTPStatus, body: bytes, kind: str = PROTOBUF) -> None:
    """Writes a whole answer."""
    head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.writelines([head.encode(), body])
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, frames: AsyncIterator[bytes], seconds: float) -> None:
    """Sends frames as chunks until the watch's time is over."""
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {WATCH_STREAM}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())

    async def forward() -> None:
        async for frame in frames:
            writer.writelines([f"{len(frame):x}\r\n".encode(), frame, b"\r\n"])
            await writer.drain()

    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(forward(), seconds)
    writer.write(b"0\r\n\r\n")


def main() -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers.apiserver", description=__doc__)
    for name in ("port", "nodes", "pods", "gpus"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--node-list", type=Path)
    options = parser.parse_args()
    if options.node_list:
        nodes = [stamped(node, FIRST_VERSION) for node in read_nodes(options.node_list.read_bytes()).values()]
    else:
        nodes = [made_node(at, options.gpus) for at in range(options.nodes)]
    asyncio.run(ApiServer(nodes, options.pods, options.gpus).serve(options.port))


if __name__ == "__main__":
    main()
