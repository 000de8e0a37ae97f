"""A kube-scheduler with its queue: it knows of the cluster what its watch has shown, and of its own pods a bit more."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from wasm_runtime.guests.guest import Pod

if TYPE_CHECKING:
    from tests.sdk_guest.gang_cluster import Cluster, Gang

FIRST_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 10.0
"""kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds."""


class KubeScheduler:
    """Tries the pods that are its own. What other kube-schedulers do it learns from its watch alone."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.events: deque[str] = deque()
        """UIDs of pods that have changed, of which it does not know yet."""
        self._own: dict[str, Gang] = {}
        """Its pods that it does not know to be bound or gone."""
        self.assumed: dict[str, str] = {}
        """Where it takes pods to be: on nodes that the watch has shown, and on those to which it is binding its own."""
        self.queue: dict[str, float] = {}
        """Pods that it will try by itself, and when at the earliest."""
        self._attempts: Counter[str] = Counter()

    def observe(self) -> None:
        """Its watch shows the next change."""
        if not self.events:
            return
        uid = self.events.popleft()
        gang, node = self._cluster.pods.get(uid, (None, ""))
        if gang and not node:
            if self._cluster.scheduler_of(uid) is self and uid not in self._own:
                self._own[uid] = gang
                self.queue[uid] = self._cluster.clock.now
            return
        self._own.pop(uid, None)
        self.queue.pop(uid, None)
        if node:
            self.assumed[uid] = node
        else:
            self.assumed.pop(uid, None)
        self.requeue()

    def observe_all(self) -> None:
        """Its watch shows all that has changed."""
        while self.events:
            self.observe()

    def schedule(self) -> None:
        """Tries one of the pods whose turn it may be."""
        cluster = self._cluster
        ready = [uid for uid, at in self.queue.items() if at <= cluster.clock.now]
        if not ready:
            return
        uid = cluster.dice.choice(ready)
        del self.queue[uid]
        self._attempts[uid] += 1
        pod = Pod(uid, f"default/{uid}", self._own[uid].object(uid))
        fitting = cluster.with_room(self.assumed.values())
        kept = cluster.kept.pop(uid, None)
        node = cluster.extender.filter(pod, fitting) if fitting else ""
        if kept and kept.node in fitting and kept.until > cluster.clock.now:
            assert node == kept.node, f"{uid} comes to {node or 'no node'}, and {kept.node} was kept for it"
        if node:
            self.assumed[uid] = node
            self.answer(uid, cluster.extender.bind(pod, node))

    def answer(self, uid: str, is_bound: bool | None) -> None:
        """Takes the answer of a bind; None is none yet. A pod that was not bound is tried again when it has rested."""
        if is_bound is False and uid in self._own:
            del self.assumed[uid]
            self.requeue()

    def requeue(self) -> None:
        """Something has changed, so that rejected pods are tried again."""
        for uid in self._own:
            if uid not in self.assumed and uid not in self.queue:
                self.queue[uid] = self._cluster.clock.now + self._backoff(uid)

    def _backoff(self, uid: str) -> float:
        """Seconds that a pod rests after so many attempts."""
        return min(FIRST_BACKOFF_S * 2.0 ** min(self._attempts[uid] - 1, 10), MAX_BACKOFF_S)
