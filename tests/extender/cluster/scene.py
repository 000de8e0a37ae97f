"""A node cache at work against a server with a script."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.peers.kubeconfig import write_kubeconfig
from bench.peers.protobuf import event, framed, node, node_list, text
from extender.cluster import ApiServer, NodeCache
from tests.extender.cluster.scripted import Behaviour, ScriptedServer, answer, stream
from tests.extender.cluster.support import Ends, objects, running
from wasm_runtime.nodes.node_table import NodeTable

QUIET = stream(linger=60)
"""A watch in which nothing happens."""


class Scene:
    """A cache at work against a scripted server."""

    def __init__(self, server: ScriptedServer, cache: NodeCache, node_table: NodeTable, ends: Ends) -> None:
        self.server = server
        self.ends = ends
        self.cache = cache
        self._node_table = node_table

    @property
    def nodes(self) -> dict[str, bytes]:
        """Name and object of each node that guests see."""
        return objects(self._node_table)

    @property
    def watches(self) -> list[str]:
        """The resourceVersion that each watch began from."""
        return [got.query["resourceVersion"] for got in self.server.received if "watch" in got.query]

    @property
    def lists(self) -> int:
        """How many lists were begun."""
        return sum("watch" not in got.query and "continue" not in got.query for got in self.server.received)


@asynccontextmanager
async def play(
    directory: Path, *script: Behaviour, lifetime: int = 60, grace: float = 10.0, stale_after: float = math.inf
) -> AsyncIterator[Scene]:
    """A cache that meets `script`."""
    async with ScriptedServer(*script) as server:
        api = ApiServer.from_kubeconfig(write_kubeconfig(directory / "config", {"server": server.url}))
        node_table, ends = NodeTable(), Ends()
        cache = NodeCache(api, node_table, ends, stale_after=stale_after, lifetime=lifetime, grace=grace)
        async with running(cache):
            yield Scene(server, cache, node_table, ends)
        await api.aclose()


def listed(version: str, *names: str, continuation: str = "") -> Behaviour:
    """Answers a list of nodes."""
    return answer(200, node_list(version, *(node(name, version) for name in names), continuation=continuation))


def told(kind: str, name: str, version: str) -> bytes:
    """A frame with a node."""
    return framed(event(kind, node(name, version)))


def bookmark(version: str) -> bytes:
    """A frame with nothing but a version."""
    return framed(event("BOOKMARK", text(1, text(6, version))))
