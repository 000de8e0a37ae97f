"""The nodes that one instance sees."""

from __future__ import annotations

from collections.abc import Sequence

from wasm_runtime.nodes.images import ImageStates
from wasm_runtime.nodes.node_feed import NodeFeed
from wasm_runtime.nodes.node_table import ABSENT, NEVER, Changes, Nodes, NodeTable
from wasm_runtime.pods.pod_feeds import PodFeeds


class NodeSnapshot:
    """The node table as it was when a call began: nothing changes while a guest looks.

    `names`, `objects` and `states` are by the node table's indices. States are there with `images` only. Behind them
    are names and objects of what is there for one call only. `feed` takes note of each change, `pods` follows the pods
    of the same table.
    """

    def __init__(self, *, images: bool, feed: NodeFeed | None, pods: PodFeeds | None) -> None:
        self._with_images = images
        self._feed = feed
        self._pods = pods
        self._source: NodeTable | None = None
        self._lent: dict[bytes, int] = {}
        self._forget()

    def _forget(self) -> None:
        self._images = ImageStates()
        self._epoch = NEVER
        self._position = 0
        self._index: dict[bytes, int] = {}
        self.names: list[bytes] = []
        self.objects: list[bytes] = []
        self.states: dict[int, bytes] = {}
        self._live = 0

    def find(self, name: bytes) -> int | None:
        """The index of a name."""
        at = self._lent.get(name)
        return self._index.get(name) if at is None else at

    @property
    def has_objects(self) -> bool:
        """Whether any node has an object."""
        return bool(self._live or self._lent)

    def sync_nodes(self, nodes: Nodes) -> Sequence[int]:
        """Takes over what changed since the last call. Returns the indices of `nodes`."""
        node_table = nodes.node_table
        if node_table is not self._source:
            self._forget()
            self._source = node_table
            if self._feed:
                self._feed.forget_table()
        while True:
            if self._pods is not None:
                self._pods.follow(node_table.pods)
            indices = nodes.located(self._epoch)
            changes = node_table.changes(self._epoch, self._position)
            if changes is None and indices is not None:
                return indices
            if changes is not None:
                self._apply(changes)

    def lend(self, nodes: Nodes, indices: Sequence[int]) -> Sequence[int]:
        """Shows the guest what `nodes` carry, until `take_back`. Returns the indices of all of them."""
        names, first = [name.encode() for name in nodes.carried], len(self.names)
        places = range(first, first + len(names))
        self.names += names
        self.objects += nodes.carried.values()
        self._lent = dict(zip(names, places, strict=True))
        lent = dict(zip(nodes.carried, places, strict=True))
        return [lent.get(name, at) for name, at in zip(nodes.names, indices, strict=True)]

    def take_back(self) -> None:
        """Forgets what was there for one call only."""
        if self._lent:
            del self.names[-len(self._lent) :], self.objects[-len(self._lent) :]
            self._lent = {}

    def _apply(self, changes: Changes) -> None:
        if changes.epoch != self._epoch:
            self._forget()
        # Should a name have no UTF-8, then everything is taken over anew.
        self._epoch = NEVER
        added = changes.entries - len(self.names)
        self.names += [b""] * added
        self.objects += [ABSENT] * added
        for at, name, node in changes.nodes:
            self.names[at], self.objects[at] = name.encode(), node
            if name or node:
                self._index[self.names[at]] = at
        if self._with_images:
            self.states.update(self._images.update((at, node) for at, _, node in changes.nodes))
        self._live = changes.live
        if self._feed:
            self._feed.add(changes)
        self._epoch, self._position = changes.epoch, changes.position
