"""All that one guest knows of pods and of their groups, as of one moment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from wasm_runtime.abi import POD_STREAMS
from wasm_runtime.pods.group_feed import GroupFeed
from wasm_runtime.pods.pod_feed import MemberFeed, PodFeed
from wasm_runtime.pods.pod_table import PodTable
from wasm_runtime.pods.record_feed import AnnounceRecords, RecordFeed


class PodFeeds:
    """A feed for each stream that a guest wants, all as of the same change of the table."""

    def __init__(self, streams: Collection[str]) -> None:
        self._groups = GroupFeed() if GroupFeed.export in streams else None
        self._pods: list[PodFeed | MemberFeed] = [PodFeed(export) for export in POD_STREAMS if export in streams]
        if MemberFeed.export in streams:
            self._pods.append(MemberFeed())
        self._feeds: Sequence[RecordFeed[Any]] = [*([self._groups] if self._groups else []), *self._pods]
        self._table: PodTable | None = None
        self._position = self._groups_position = 0

    @classmethod
    def of(cls, exports: Collection[str]) -> PodFeeds | None:
        """The feeds of a guest with some exports; None if it wants to know no pods."""
        feeds = cls(exports)
        return feeds if feeds._feeds else None

    def follow(self, table: PodTable) -> None:
        """Notes what has changed in a table since it was last followed.

        It is called before the nodes are looked at, and again as long as they have changed. So each index of a node
        that the guest is told of has, in the node table, the name that was meant. Pods and groups are kept in step in
        the same way.
        """
        if table is not self._table:
            self._table, self._position, self._groups_position = table, 0, 0
            for feed in self._feeds:
                feed.forget_table()
        self._follow_pods(table)
        while self._groups and self._follow_groups(table, self._groups):
            self._follow_pods(table)

    def announce(self, call: AnnounceRecords, deadline: float) -> bool:
        """Announces a batch of groups or, once all are told, of each other stream.

        Returns whether nothing is left. Raises GuestError, always a fatal one.
        """
        if self._groups and not self._groups.announce(call, deadline, self._groups.max_per_batch):
            return False
        for feed in self._pods:
            feed.announce(call, deadline, feed.max_per_batch)
        return self.is_synced

    def announce_all(self, call: AnnounceRecords, deadline: float, timeout: float) -> None:
        """Announces everything, as `Feed.announce_all` does."""
        for feed in self._feeds:
            feed.announce_all(call, deadline, timeout)

    @property
    def is_synced(self) -> bool:
        """Whether the guest knows the pods and groups as they are."""
        return all(feed.is_synced for feed in self._feeds)

    def _follow_pods(self, table: PodTable) -> None:
        if changes := table.changes(self._position):
            for feed in self._pods:
                feed.add(changes, self._position)
            self._position = changes.position

    def _follow_groups(self, table: PodTable, feed: GroupFeed) -> bool:
        """Returns whether anything has changed."""
        changes = table.groups.changes(self._groups_position)
        if changes is None:
            return False
        feed.add(changes)
        self._groups_position = changes.position
        return True
