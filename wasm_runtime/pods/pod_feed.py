"""Announcing pods to a guest that keeps them: which it knows, and which are still to be announced."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from itertools import compress, count, islice
from typing import Final, NamedTuple

from wasm_runtime.abi import NO_NODE, POD_STREAMS, PodState
from wasm_runtime.feed import Feed
from wasm_runtime.pods.pod_table import PlacedPod, PodChanges, PodTable

MAX_PODS_PER_BATCH: Final = 64
"""Records handed to the guest in one call."""

MAX_BATCH_BYTES: Final = 64 * 1024
"""Bytes of records handed over in one call. A pod that is longer comes alone."""

_HEAD: Final = struct.Struct("<4I")
"""A record before its object: pod, node, state, length of the object."""

# What a guest knows of a number: nothing, a pod whose object has changed since then, or the pod as it is.
_NOTHING, _OUTDATED, _OBJECT = range(3)


class PodBatch(NamedTuple):
    """Records for one call of the guest."""

    pods: int
    """How many records there are."""
    records: bytes


AnnouncePods = Callable[[str, PodBatch, float], object]
"""Writes records into the guest's buffer and calls an export: its name, records, deadline (`time.monotonic`)."""


class PodFeed(Feed[AnnouncePods]):
    """What one guest knows of the pods of one stream, those on nodes or those without one, by their numbers.

    A byte says what it knows of a number: of 50,000 pods the table alone has the objects.
    """

    max_per_batch = MAX_PODS_PER_BATCH

    def __init__(self, export: str) -> None:
        self.export = export
        self._is_on_nodes = POD_STREAMS[export]
        self._known = bytearray()
        self._left: dict[int, PlacedPod | None] = {}
        """The pods that are to be announced; None for one that is gone from this stream."""

    def add(self, changes: PodChanges, position: int) -> None:
        """Notes which changes after `position` of the pod table the guest has yet to learn of."""
        known, left = self._known, self._left
        known.extend(bytes(max(0, changes.entries - len(known))))
        for number, placed in changes.pods:
            if placed and (placed.node != NO_NODE) is self._is_on_nodes:
                if known[number] and placed.since > position:
                    known[number] = _OUTDATED
                left[number] = placed
            elif known[number]:
                left[number] = None
            else:
                left.pop(number, None)

    def forget_table(self) -> None:
        """Marks all that the guest knows as gone, because another pod table takes the place of this one."""
        self._left = dict.fromkeys(compress(count(), self._known))

    def take(self, max_pods: int = MAX_PODS_PER_BATCH) -> PodBatch:
        """The next records, at most `max_pods`. They count as announced from now on."""
        records: list[bytes] = []
        size = 0
        for number, placed in islice(self._left.items(), max_pods):
            record = self._record(number, placed)
            size += len(record)
            if records and size > MAX_BATCH_BYTES:
                break
            records.append(record)
        for number in list(islice(self._left, len(records))):
            self._known[number] = _OBJECT if self._left.pop(number) else _NOTHING
        if not self._left:
            self._left = {}  # One that has had many entries keeps their room, and is slow to look through.
        return PodBatch(len(records), b"".join(records))

    def tell(self, call: AnnouncePods, deadline: float, most: int) -> None:
        """Hands over the next records, at most `most`, if there are any."""
        batch = self.take(most)
        if batch.pods:
            call(self.export, batch, deadline)

    def _record(self, number: int, placed: PlacedPod | None) -> bytes:
        if placed is None:
            return _HEAD.pack(number, NO_NODE, PodState.GONE, 0)
        pod, node, _ = placed
        state = PodState.TENTATIVE if pod.is_tentative and pod.node else PodState.THERE
        object_ = b"" if self._known[number] == _OBJECT else pod.object
        return b"".join((_HEAD.pack(number, node, state, len(object_)), object_, bytes(-len(object_) % 8)))

    def __str__(self) -> str:
        known = len(self._known) - self._known.count(_NOTHING)
        new = sum(not self._known[number] for number in self._left)
        return f"pods: {known + new - len(self._left):,} of {known + new:,} are told"

    @property
    def is_synced(self) -> bool:
        """Whether the guest knows the pods as they are."""
        return not self._left


class PodFeeds:
    """What one guest knows of pods: a feed for each stream that it wants, all as of the same change of the table."""

    def __init__(self, streams: Collection[str]) -> None:
        self._feeds = [PodFeed(export) for export in streams]
        self._table: PodTable | None = None
        self._position = 0

    @classmethod
    def of(cls, exports: Collection[str]) -> PodFeeds | None:
        """The feeds of a guest with some exports; None if it wants to know no pods."""
        streams = [export for export in POD_STREAMS if export in exports]
        return cls(streams) if streams else None

    def follow(self, table: PodTable) -> None:
        """Notes what has changed in a table since it was last followed.

        To be called before the nodes are looked at, and again as long as they have changed: what the guest is told of a
        number is then about the name that the node table has there.
        """
        if table is not self._table:
            self._table, self._position = table, 0
            for feed in self._feeds:
                feed.forget_table()
        changes = table.changes(self._position)
        if changes is None:
            return
        for feed in self._feeds:
            feed.add(changes, self._position)
        self._position = changes.position

    def announce(self, call: AnnouncePods, deadline: float) -> bool:
        """Announces a batch of each stream. Returns whether nothing is left. Raises GuestError, always a fatal one."""
        for feed in self._feeds:
            feed.announce(call, deadline, feed.max_per_batch)
        return self.is_synced

    def announce_all(self, call: AnnouncePods, deadline: float, timeout: float) -> None:
        """Announces everything, as `Feed.announce_all` does."""
        for feed in self._feeds:
            feed.announce_all(call, deadline, timeout)

    @property
    def is_synced(self) -> bool:
        """Whether the guest knows the pods as they are."""
        return all(feed.is_synced for feed in self._feeds)
