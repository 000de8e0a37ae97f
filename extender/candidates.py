"""Where the nodes of a request come from: the request itself, or the cache of the cluster."""

from __future__ import annotations

from typing import Final, Protocol

from extender.wire import Candidates, NodeItem, RequestError
from wasm_runtime.snapshot import Nodes, Snapshot

MOST_KEPT: Final = 50_000
"""Nodes from requests that are kept converted; beyond it they are forgotten and converted anew."""


class NotSyncedError(Exception):
    """The nodes of the cluster are not known yet. `str()` says why."""


class Cache(Protocol):
    """A cache of the cluster's nodes that feeds a snapshot."""

    @property
    def synced(self) -> bool:
        """Whether all nodes have been read."""

    @property
    def problem(self) -> str | None:
        """Why it is not current, if it is not."""


class NodeSource:
    """Finds the nodes of a request. For the serving thread only."""

    def __init__(self, cache: Cache | None, cluster: Snapshot) -> None:
        self._cache = cache
        self._cluster = cluster
        self._requests = Snapshot()
        self._versions: dict[str, str] = {}

    def find(self, candidates: Candidates, wants_objects: bool) -> Nodes:
        """The nodes of a request, with their objects where those are wanted and to be had.

        Raises NotSyncedError, or RequestError for a node that cannot be converted.
        """
        if candidates.items is not None:
            if wants_objects:
                self._convert(candidates.items)
            return _locate(self._requests, candidates.names)
        return self.named(candidates.names, wants_objects)

    def named(self, names: list[str], wants_objects: bool) -> Nodes:
        """Nodes by name. Raises NotSyncedError or RequestError."""
        if self._cache is None:
            return _locate(self._requests, names)
        if wants_objects and not self._cache.synced:
            raise NotSyncedError(f"the nodes of the cluster are not known yet: {self._cache.problem or 'listing them'}")
        return _locate(self._cluster, names)

    def _convert(self, items: list[NodeItem]) -> None:
        """Converts the nodes of which this version has not been seen."""
        versions = self._versions
        new = [item for item in items if not item.version or versions.get(item.name) != item.version]
        if len(versions) + len(new) > MOST_KEPT:
            versions.clear()
            self._requests.replace({})
            new = items
        self._requests.put([(item.name, item.to_protobuf()) for item in new])
        versions.update((item.name, item.version) for item in new)


def _locate(snapshot: Snapshot, names: list[str]) -> Nodes:
    try:
        return Nodes(snapshot, names)
    except ValueError as error:
        raise RequestError(str(error)) from None
