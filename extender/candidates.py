"""Where the nodes of a request come from: the request itself, or the cache of the cluster."""

from __future__ import annotations

from itertools import compress
from operator import ne
from typing import Final, Protocol

from msgspec import Raw

from extender.wire import Candidates, RequestError, encode_candidate
from wasm_runtime.snapshot import Nodes, Snapshot

MOST_KEPT: Final = 50_000
"""Nodes from requests that are kept converted; beyond it they are forgotten and converted anew."""


class NotSyncedError(Exception):
    """The cache of the cluster is not to be answered from. `str()` says why."""


class Cache(Protocol):
    """A cache of the cluster's nodes that feeds a snapshot."""

    @property
    def unusable(self) -> str | None:
        """Why nothing may be answered from it; None while something may."""


class NodeSource:
    """Finds the nodes of a request. For the serving thread only, but for `current`."""

    def __init__(
        self, cache: Cache | None, cluster: Snapshot, requests: Snapshot | None = None, *, needs_sync: bool = True
    ) -> None:
        """`requests` takes the nodes that come with requests.

        Without `needs_sync`, requests are answered from names alone while the cache is not to be answered from.
        """
        self._cache = cache
        self._needs_sync = needs_sync
        self._cluster = cluster
        self._requests = Snapshot() if requests is None else requests
        self._current = self._requests if cache is None else cluster
        self._versions: dict[str, str | None] = {}
        """By name, that of each node of a request that was converted; None where it has none to tell changes by."""

    @property
    def current(self) -> Snapshot:
        """The nodes that guests saw last, from the cluster or from requests. May be read from any thread."""
        return self._current

    def find(self, candidates: Candidates, wants_objects: bool) -> Nodes:
        """The nodes of a filter or prioritize request, with their objects where those are wanted and to be had.

        Raises NotSyncedError, or RequestError for a node that cannot be converted.
        """
        if wants_objects:
            if candidates.items is None:
                self._current = self._requests if self._cache is None else self._cluster
            else:
                self._convert(candidates, candidates.items)
                self._current = self._requests
        return self.named(candidates.names, wants_objects)

    def named(self, names: list[str], wants_objects: bool) -> Nodes:
        """Nodes by name, from where filter and prioritize last had theirs. Raises NotSyncedError or RequestError."""
        if wants_objects and self._needs_sync and self._cache is not None and self._current is self._cluster:
            problem = self._cache.unusable
            if problem:
                raise NotSyncedError(problem)
        try:
            return Nodes(self._current, names)
        except ValueError as error:
            raise RequestError(str(error)) from None

    def _convert(self, candidates: Candidates, items: list[Raw]) -> None:
        """Converts the nodes of which this version has not been seen."""
        nodes = list(zip(candidates.names, candidates.versions, items, strict=True))
        new = list(compress(nodes, map(ne, candidates.versions, map(self._versions.get, candidates.names))))
        if len(self._versions) + len(new) > MOST_KEPT:
            self._versions.clear()
            self._requests.replace({})
            new = nodes
        self._requests.put([(name, encode_candidate(name, json)) for name, _, json in new])
        self._versions.update((name, version or None) for name, version, _ in new)
