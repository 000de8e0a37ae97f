"""A stand-in for the API server that changes nodes and binds pods, and fails at both when told to."""

from __future__ import annotations

import asyncio
import json
import random
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.controlplane.ports import LOOPBACK, free_port
from bench.peers import apiserver
from bench.peers.apiserver import ApiServer, RefusedError
from bench.peers.kubeconfig import write_kubeconfig
from extender.cluster.client.api import JSON
from tests.extender.objects import node
from tests.patience import Beside
from wasm_runtime.protobuf import encode_node

UPDATES: Final = 40.0
"""Nodes that change a second."""
CUT_EVERY_S: Final = 0.7
"""Seconds between two times at which all connections are cut, at random, while it misbehaves."""
EVENT: Final = json.dumps({"kind": "Event", "apiVersion": "events.k8s.io/v1"}).encode()
SUCCESS: Final = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success"}).encode()


class StandIn(ApiServer):
    """An API server of some nodes and of no pods but those that it has bound. Of one event loop, but for its fields."""

    def __init__(self, names: Sequence[str], seed: int) -> None:
        super().__init__([encode_node(node(name, version=str(apiserver.FIRST_VERSION))) for name in names], 0)
        self._names = names
        self._random = random.Random(seed)
        self._rates["nodes"] = UPDATES
        self._writers: set[StreamWriter] = set()
        self.bound: dict[str, str] = {}
        """The node of each pod that was bound, by UID."""
        self.misbehaves = False
        """Whether connections are cut, events forgotten, and answers lost, late, or errors."""

    async def run(self, port: int) -> None:
        """Serves until it is to end."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self.end: Callable[[], object] = lambda: loop.call_soon_threadsafe(over.set)
        tasks = [loop.create_task(self.serve(port)), loop.create_task(self._cut())]
        await over.wait()
        for task in tasks:
            task.cancel()

    async def _cut(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0, 2 * CUT_EVERY_S))
            if self.misbehaves:
                if self._random.random() < 0.3:
                    self._nodes.forget()
                for writer in self._writers:
                    writer.transport.abort()

    def _update_next(self, kind: str) -> None:
        assert kind == "nodes"
        at = self._random.randrange(len(self._names))
        labels = {"seen": str(self._nodes.version)}
        changed = node(self._names[at], version=str(self._nodes.version + 1), labels=labels)
        self._nodes.replace(at, encode_node(changed))

    async def _serve_connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(asyncio.CancelledError):  # A task of asyncio's streams that is cancelled is told as an error.
                await super()._serve_connection(reader, writer)
        finally:
            self._writers.discard(writer)

    async def _answer(self, method: str, target: str, body: bytes, writer: StreamWriter) -> None:
        path = urlsplit(target).path
        is_lost = False
        if self.misbehaves:
            if (chance := self._random.random()) < 0.1:
                await apiserver.write_answer(writer, HTTPStatus.INTERNAL_SERVER_ERROR, b"{}", JSON)
                return
            if chance < 0.2:
                await asyncio.sleep(self._random.uniform(0, 2))
            is_lost = 0.2 < chance < 0.3
        if method == "POST" and path.endswith("/binding"):
            await self._bind(json.loads(body), is_lost, writer)
        elif method in {"POST", "PATCH"}:
            await apiserver.write_answer(writer, HTTPStatus.CREATED, EVENT, JSON)
        else:
            await super()._answer(method, target, body, writer)

    async def _bind(self, binding: dict[str, dict[str, str]], is_lost: bool, writer: StreamWriter) -> None:
        uid, target = binding["metadata"]["uid"], binding["target"]["name"]
        earlier = self.bound.get(uid)
        self.bound.setdefault(uid, target)
        if is_lost:
            writer.transport.abort()
        elif earlier is None:
            await apiserver.write_answer(writer, HTTPStatus.CREATED, SUCCESS, JSON)
        else:
            message = f'pod {binding["metadata"]["name"]} is already assigned to node "{earlier}"'
            refused = RefusedError(HTTPStatus.CONFLICT, "Conflict", message)
            await apiserver.write_answer(writer, refused.status, refused.body, JSON)


@contextmanager
def api_server(names: Sequence[str], seed: int, folder: Path) -> Iterator[StandIn]:
    """A stand-in in a thread of its own, and a kubeconfig for it in a folder."""
    port = free_port()
    stand_in = StandIn(names, seed)
    beside = Beside(lambda: asyncio.run(stand_in.run(port)))
    write_kubeconfig(folder / "kubeconfig", {"server": f"http://{LOOPBACK}:{port}"})
    try:
        yield stand_in
    finally:
        stand_in.end()
        beside.end()
