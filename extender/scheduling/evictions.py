"""The pods that preempt has given up for others."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from extender.scheduling.ledger import Ledger

MAX_VICTIMS: Final = 65_536
"""That are remembered; beyond it those go that were answered the longest time ago."""


class RoomAwaitedError(Exception):
    """The watch shows victims on the node that is made free for a pod, and no node has room. `str()` says so."""

    def __init__(self, pod: str, node: str, count: int) -> None:
        super().__init__(
            f"node {node} is made free for pod {pod}, and the watch shows {count} of the evicted pods there;"
            " kube-scheduler tries the pod again"
        )


class Evictions:
    """Remembers, of each pod, the victims on each node that preempt has answered for it. May be used from any thread.

    When filter rejects the node that was made free for a pod, kube-scheduler evicts as many pods again, on another
    node, unless it sees that victims are there yet. Its watch may have shown the end of all, and ours not.
    """

    def __init__(self, ledger: Ledger) -> None:
        """`ledger` knows which victims are there yet."""
        self._ledger = ledger
        self._victims: OrderedDict[str, Mapping[str, Sequence[str]]] = OrderedDict()
        """By the pod's UID and the node: the UIDs of the victims. The oldest answer first."""
        self._count = 0
        self._lock = threading.Lock()

    def remember(self, uid: str, victims: Mapping[str, Sequence[str]]) -> None:
        """Takes what is answered for a pod: the UIDs of the victims by node. Nothing is no news."""
        if not victims:
            return
        with self._lock:
            self._forget(uid)
            self._victims[uid] = victims
            self._count += _count(victims)
            while self._count > MAX_VICTIMS:
                self._forget(next(iter(self._victims)))

    def count_left(self, uid: str, node: str) -> int:
        """How many of the victims on a node are there yet, for all that the watch has shown."""
        victims = self._victims.get(uid, {}).get(node, ())
        return sum(self._ledger.node_of(victim) == node for victim in victims) if self._ledger.is_followed else 0

    def _forget(self, uid: str) -> None:
        self._count -= _count(self._victims.pop(uid, {}))


def _count(victims: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, victims.values()))
