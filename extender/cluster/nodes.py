"""The cluster's nodes, kept current in a snapshot that guests see."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from extender.cluster.api import ApiServer
from extender.cluster.reflector import GRACE, LIFETIME, Reflector, Resource
from wasm_runtime.snapshot import Snapshot

NODES: Final = Resource("nodes", "/api/v1/nodes", attrgetter("name"))


class NodeCache(Reflector):
    """Writes each change of a node as bare v1.Node protobuf into a `Snapshot`.

    What was read stays in the snapshot while the API server is away: a guest rather sees the nodes of a
    minute ago than none. The properties may be read from any thread.
    """

    def __init__(self, api: ApiServer, snapshot: Snapshot, *, lifetime: int = LIFETIME, grace: float = GRACE) -> None:
        """`lifetime` and `grace` as for a Reflector."""
        super().__init__(api, NODES, snapshot, lifetime=lifetime, grace=grace)
