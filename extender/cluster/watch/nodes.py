"""The cluster's nodes, kept current in a node table that guests see."""

from __future__ import annotations

import math
from typing import Final

from extender.cluster.client.api import ApiServer
from extender.cluster.watch.reflector import WATCH_GRACE_S, WATCH_TIMEOUT_S, Count, Reflector, Resource
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.protobuf.read import Identity

NODES: Final = Resource("nodes", "/api/v1/nodes")


class NodeCache(Reflector[bytes]):
    """Writes each change of a node as bare v1.Node protobuf into a `NodeTable`.

    What was read stays in the node table while the API server is away: a guest rather sees the nodes of a
    minute ago than none. The properties may be read from any thread.
    """

    def __init__(
        self,
        api: ApiServer,
        node_table: NodeTable,
        count: Count,
        *,
        stale_after: float = math.inf,
        lifetime: int = WATCH_TIMEOUT_S,
        grace: float = WATCH_GRACE_S,
    ) -> None:
        """All but `node_table` as for a Reflector."""
        super().__init__(
            api, NODES, node_table, _by_name, count, stale_after=stale_after, lifetime=lifetime, grace=grace
        )


def _by_name(node: Identity, content: bytes) -> tuple[str, bytes]:
    return node.name, content
