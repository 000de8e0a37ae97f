"""Announcing nodes to a guest that keeps them: which it knows, and which are still to be announced."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from wasm_runtime.feed import Feed
from wasm_runtime.nodes.node_table import ABSENT, Changes

ALL_NODES: Final = 1 << 62
"""No limit to a number of nodes."""

MAX_NODES_PER_BATCH: Final = 16
"""Nodes announced in one call of the driver, which takes milliseconds even if the guest decodes each in full."""

AnnounceNodes = Callable[[str, list[int], float], object]
"""Calls an export of the guest once for each node: name of the export, indices, deadline (`time.monotonic`)."""


class PendingNodes(NamedTuple):
    """Indices of the nodes to announce next: first those that are gone, then those that changed."""

    removed: list[int]
    changed: list[int]


class NodeFeed(Feed[AnnounceNodes]):
    """What one guest knows of the nodes, by their indices in the node table.

    A node that has got back the object that the guest knows is not announced. An index that has got another name is
    announced as gone first.
    """

    export = "nodechanged"
    max_per_batch = MAX_NODES_PER_BATCH

    def __init__(self) -> None:
        self._announced: dict[int, tuple[str, bytes]] = {}
        self._gone: dict[int, None] = {}
        self._changed: dict[int, tuple[str, bytes]] = {}

    def add(self, changes: Changes) -> None:
        """Notes which changes of the node table the guest has yet to learn of."""
        for at, name, node in changes.nodes:
            self._gone.pop(at, None)
            self._changed.pop(at, None)
            told, now = self._announced.get(at, (name, ABSENT)), (name, node)
            if told == now:
                continue
            if not node or name != told[0]:
                self._gone[at] = None
            if node:
                self._changed[at] = now

    def forget_table(self) -> None:
        """Marks all that the guest knows as gone, because another node table takes the place of this one."""
        self._gone = dict.fromkeys(self._announced)
        self._changed.clear()

    def take(self, max_nodes: int = ALL_NODES) -> PendingNodes:
        """The next nodes to announce, at most `max_nodes`. They count as announced from now on."""
        removed = list(islice(self._gone, max_nodes))
        changed = list(islice(self._changed, max(0, max_nodes - len(removed))))
        for at in removed:
            del self._gone[at], self._announced[at]
        for at in changed:
            self._announced[at] = self._changed.pop(at)
        return PendingNodes(removed, changed)

    def tell(self, call: AnnounceNodes, deadline: float, most: int) -> None:
        """Tells the guest of the next nodes, at most `most`."""
        pending = self.take(most)
        if pending.removed:
            call("noderemoved", pending.removed, deadline)
        if pending.changed:
            call("nodechanged", pending.changed, deadline)

    def __str__(self) -> str:
        known = len(self._announced.keys() | self._changed.keys())
        left = len(self._gone.keys() | self._changed.keys())
        return f"nodes: {known - left:,} of {known:,} are told"

    @property
    def is_synced(self) -> bool:
        """Whether the guest knows the nodes as they are."""
        return not (self._gone or self._changed)
