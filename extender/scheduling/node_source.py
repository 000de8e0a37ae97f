"""Where the nodes of a request come from: the request itself, or the cache of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import compress
from operator import ne
from typing import Final, Protocol

from msgspec import Raw

from extender.scheduling.late_nodes import LateNodes
from extender.scheduling.requests import Candidates, Preemption, RequestError, encode_candidate
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.nodes.node_table import ABSENT, Nodes, NodeTable

MAX_KEPT_NODES: Final = 20_000
"""Nodes from requests that are kept converted, four times what Kubernetes is made for; beyond it all begins anew."""

MAX_KEPT_BYTES: Final = 256 * MEBIBYTE
"""What they may take as protobuf."""


class NotSyncedError(Exception):
    """The cache of the cluster must not be used to answer requests. `str()` says why."""


class Cache(Protocol):
    """A cache of what the cluster has."""

    @property
    def unusable(self) -> str | None:
        """Why it must not be used to answer requests; None if it may."""

    @property
    def problem(self) -> str | None:
        """What keeps it from being current; None while it is."""


class NodeSource:
    """Finds the nodes of a request. For the serving thread only, except for `current`.

    With a cache, node objects are the cluster's, and requests only name them. Objects from requests would differ within
    a cycle: filter gets the nodes that passed the scheduler's own filters, and preempt is asked about the others. Whole
    nodes that the cluster does not have are seen for that request only: such a request asks what would be.

    Without a cache, the nodes are those of the requests seen so far. Each is as it came last, whatever it says of its
    UID and resourceVersion.
    """

    def __init__(
        self,
        cache: Cache | None,
        nodes: NodeTable,
        anew: Callable[[], NodeTable] = NodeTable,
        *,
        needs_sync: bool = True,
    ) -> None:
        """The cache feeds `nodes`. Without a cache, those of requests go there until they are too many for one table.

        `anew` makes the next table then. Without `needs_sync`, requests are answered from what is known even while the
        cache says that it is unusable.
        """
        self._cache = cache
        self._needs_sync = needs_sync
        self._current = nodes
        self._anew = anew
        self.late = LateNodes(nodes)
        """Those that requests have named and the cache has yet to bring."""
        self._hashes: dict[str, int] = {}
        """By name, that of the JSON of each node of a request that was converted."""
        self._sizes: dict[str, int] = {}
        """Bytes of each of them."""
        self._bytes = 0

    @property
    def current(self) -> NodeTable:
        """The nodes that guests see. May be read from any thread."""
        return self._current

    def find(self, asked: Candidates | Preemption, wants_objects: bool) -> Nodes:
        """The nodes of a request, with their objects where those are wanted and to be had.

        They carry those that came whole and that the cluster does not have.
        Raises NotSyncedError; or RequestError for a node that cannot be converted, or a name that no node can have.
        """
        if wants_objects:
            if self._cache is None:
                self.take(asked)
            elif self._needs_sync and (problem := self._cache.unusable):
                raise NotSyncedError(problem)
        names, node_table = asked.names, self._current
        if (
            isinstance(asked, Candidates)
            and asked.items is not None
            and (carried := self._not_in_cluster(asked, asked.items, wants_objects))
        ):
            return Nodes(node_table, names, carried=carried)
        located = node_table.find(names)
        unknown = node_table.unknown(names) if located is None and self._is_current else ()
        try:
            nodes = Nodes(node_table, names, located)
        except ValueError as error:
            raise RequestError(str(error)) from None
        if unknown:
            self.late.expect(unknown)
        return nodes

    @property
    def _is_current(self) -> bool:
        """Whether there is a cache, and what it does not have is not in the cluster or has just come there."""
        return self._cache is not None and not self._cache.problem

    def _not_in_cluster(self, candidates: Candidates, items: list[Raw], wants_objects: bool) -> Mapping[str, bytes]:
        """Those of whole nodes that the cluster does not have, with their objects where those are wanted."""
        if not (self._is_current and (missing := set(self._current.without_object(candidates.names)))):
            return {}
        whole = zip(candidates.names, items, strict=True)
        return {
            name: encode_candidate(name, json) if wants_objects else ABSENT for name, json in whole if name in missing
        }

    def take(self, asked: Candidates | Preemption) -> NodeTable:
        """The nodes as they are once those that came with a request are among them. Raises RequestError."""
        if self._cache is None and isinstance(asked, Candidates) and asked.items is not None:
            self._convert(asked, asked.items)
        return self._current

    def apart(self) -> NodeSource:
        """A source for another thread: of the same cluster, else of the requests that it is given itself."""
        return NodeSource(self._cache, self._current if self._cache else NodeTable())

    def _convert(self, candidates: Candidates, items: list[Raw]) -> None:
        """Converts the nodes that did not come like this last.

        Where they become too many or too large, those of this request go to a new node table: threads may still judge
        by the old one.
        """
        nodes = list(zip(candidates.names, candidates.hashes, items, strict=True))
        new = list(compress(nodes, map(ne, candidates.hashes, map(self._hashes.get, candidates.names))))
        if not new:
            return
        added = {name for name, _, _ in new} - self._hashes.keys()
        converted = [(name, encode_candidate(name, json)) for name, _, json in new]
        grows = sum([len(node) - self._sizes.get(name, 0) for name, node in converted])
        if (added and len(self._hashes) + len(added) > MAX_KEPT_NODES) or self._bytes + grows > MAX_KEPT_BYTES:
            self._current, self._hashes, self._sizes, new = self._anew(), {}, {}, nodes
            converted = [(name, encode_candidate(name, json)) for name, _, json in nodes]
        self._current.put(converted)
        self._hashes.update((name, each) for name, each, _ in new)
        self._sizes.update((name, len(node)) for name, node in converted)
        self._bytes = sum(self._sizes.values())
