"""Where pods have taken room, and after which change."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

MAX_NODES: Final = 32_768
"""Nodes of which it is known when a pod came last. The others count as if one had come when the last was forgotten."""


class RoomTaken:
    """Counts changes from 1 on, and knows for each node the last one by which a pod may have taken room there.

    Not for two threads at a time.
    """

    def __init__(self) -> None:
        self.position = 0
        """The number of the latest change."""
        self._nodes: OrderedDict[str, int] = OrderedDict()
        """The position by node, the oldest first."""
        self._forgotten = 0
        """The latest position that is not there any more."""

    def note(self, node: str = "") -> None:
        """Counts a change, by which a pod may have taken room on the node if one is named."""
        self.position += 1
        if node:
            self._nodes.pop(node, None)
            self._nodes[node] = self.position
        if len(self._nodes) > MAX_NODES:
            _, self._forgotten = self._nodes.popitem(last=False)

    def on(self, node: str, since: int) -> bool:
        """Whether a pod may have taken room on a node after the position `since`."""
        return self._nodes.get(node, self._forgotten) > since
