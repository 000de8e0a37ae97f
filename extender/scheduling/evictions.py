"""The victims that preempt has answered, and which of them are still there."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from extender.scheduling.ledger import Ledger

MAX_VICTIMS: Final = 65_536
"""That are remembered, a node without any counted as one; beyond it those go that were answered the longest time
ago."""

NOMINATION_S: Final = 5.0
"""Seconds that kube-scheduler has, once preempt is answered, to see which node it has itself nominated for the pod."""


class RoomAwaitedError(Exception):
    """The watch shows victims on the node that is made free for a pod, and no node has room. `str()` says so."""

    def __init__(self, pod: str, left: Mapping[str, int]) -> None:
        """`left` are the victims that are there yet, on each node that may be the one."""
        (node, count), *others = left.items()
        made_free = f"one of {len(left)} nodes is" if others else f"node {node} is"
        there = "pods that may be evicted on each" if others else f"{count} of the evicted pods there"
        super().__init__(
            f"{made_free} made free for pod {pod}, and the watch shows {there}; kube-scheduler tries the pod again"
        )


class Answer(NamedTuple):
    """What preempt has answered for a pod."""

    victims: Mapping[str, Sequence[str]]
    """By node, their UIDs."""
    at: float
    """On the clock of `time.monotonic`."""

    @property
    def size(self) -> int:
        """How many victims it has, a node without any counted as one."""
        return sum([len(uids) or 1 for uids in self.victims.values()])


class Evictions:
    """Remembers, of each pod, the victims on each node that preempt has answered for it. May be used from any thread.

    When filter rejects the node that was made free for a pod, kube-scheduler evicts as many pods again, on another
    node, unless it sees that victims are there yet. Its watch may have shown the end of all, and ours not.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        """`ledger` knows which victims are there yet; `clock` in seconds."""
        self._ledger = ledger
        self._clock = clock
        self.answers: OrderedDict[str, Answer] = OrderedDict()
        """By the pod's UID, the oldest first. To be read only."""
        self._count = 0
        self._lock = threading.Lock()

    def remember(self, uid: str, victims: Mapping[str, Sequence[str]]) -> None:
        """Takes what preempt answers for a pod: the UIDs of the victims by node. No victims change nothing."""
        if not victims:
            return
        with self._lock:
            self._forget(uid)
            answer = self.answers[uid] = Answer(victims, self._clock())
            self._count += answer.size
            while self._count > MAX_VICTIMS:
                self._forget(next(iter(self.answers)))

    def left(self, uid: str, nominated: str, names: Sequence[str]) -> Mapping[str, int]:
        """How many victims the watch still shows on the node that is made free for a pod, by the node's name.

        That node is the `nominated` one, if preempt has answered it and it is among the `names` that filter is asked
        about. For `NOMINATION_S` after preempt, kube-scheduler may ask without naming a node, as it has yet to see its
        own nomination. Then each node that preempt has answered may be the one, and all of them are returned. Empty if
        there is no such node, or one has no victims any more.
        """
        answer = self.answers.get(uid)
        if answer is None or not self._ledger.is_followed:
            return {}
        nodes: Sequence[str] = []
        if nominated:
            nodes = [nominated] if nominated in answer.victims and nominated in names else []
        elif self._clock() - answer.at < NOMINATION_S:
            nodes = list(answer.victims)
        left = {node: self._count_left(node, answer.victims[node]) for node in nodes}
        return left if all(left.values()) else {}

    def _count_left(self, node: str, victims: Sequence[str]) -> int:
        return sum(self._ledger.node_of(victim) == node for victim in victims)

    def _forget(self, uid: str) -> None:
        answer = self.answers.pop(uid, None)
        self._count -= answer.size if answer else 0
