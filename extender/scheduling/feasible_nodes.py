"""The nodes that filter has found feasible for each pod: bind takes no others."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final, NamedTuple

from extender.cluster import PodKey
from extender.scheduling.cycle_pins import Key
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import Nodes, NodeSet

MAX_AGE_S: Final = 1800.0
"""Seconds after which an answer counts no more. Before kube-scheduler binds, it may wait 15 minutes on Permit of
its plugins (`maxTimeout` in `pkg/scheduler/framework/runtime/framework.go`) and 10 for volumes (VolumeBinding)."""

MAX_BYTES: Final = 64 * MEBIBYTE
"""What all answers may take; beyond it the pods go whose last answer is the oldest."""

SWEEP_INTERVAL_S: Final = 1.0
"""Seconds after which it is looked again for what is over: some thousand pods at most, so that no verb waits for it."""

MAX_PER_POD: Final = 64
"""Answers that are kept of a pod, the last ones."""

INDEX_BYTES: Final = 8
ANSWER_BYTES: Final = 1024
"""What a node of an answer takes, and what the answer and its key take beside them."""


class NotFilteredError(Exception):
    """A pod was to be bound that filter has not let on that node. `str()` says what to do."""


class _Answer(NamedTuple):
    pod: str
    is_served: bool
    nodes: NodeSet
    expires: float
    size: int


class FeasibleNodes:
    """Remembers what filter has answered, so that only such a pod is bound, and only to such a node.

    Several answers count for a pod: kube-scheduler asks about a gang in each place where it may go and then chooses one
    (`podGroupSchedulingPlacementAlgorithm` in `pkg/scheduler/schedule_one_podgroup.go`), and others ask what would be.
    They count for the `route` alone by which filter was asked. May be used from any thread.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, tuple[_Answer, ...]] = OrderedDict()
        """Of each pod the latest last; the pod with the oldest latest one first."""
        self._bytes = 0
        self._swept_at = -SWEEP_INTERVAL_S
        self._lock = threading.Lock()

    def add(self, pod: Pod, route: str, nodes: Nodes, *, is_served: bool = True) -> None:
        """Takes what filter answers for a pod; `is_served` is whether there is a profile for its scheduler."""
        if not nodes.names:
            return
        now = time.monotonic()
        key, size = (pod.uid, route), ANSWER_BYTES + INDEX_BYTES * len(nodes.names)
        with self._lock:
            earlier = self._answers.pop(key, ())
            if len(earlier) >= MAX_PER_POD:
                self._bytes -= earlier[0].size
                earlier = earlier[1:]
            self._answers[key] = (*earlier, _Answer(pod.name, is_served, nodes.without_names(), now + MAX_AGE_S, size))
            self._bytes += size
            if self._bytes > MAX_BYTES or now - self._swept_at >= SWEEP_INTERVAL_S:
                self._sweep(now)

    def require(self, pod: PodKey, route: str, node: str) -> None:
        """Raises NotFilteredError if a pod must not be bound to a node."""
        now = time.monotonic()
        with self._lock:
            answers = [each for each in self._answers.get((pod.uid, route), ()) if each.expires > now]
        if not answers:
            raise NotFilteredError(
                f"bind refused: no filter of pod {pod} was answered here in the last {MAX_AGE_S / 60:g} minutes;"
                " kube-scheduler tries the pod again, and filters first if its extender has filterVerb beside bindVerb"
            )
        own = [each for each in answers if each.pod == str(pod)]
        if not own:
            raise NotFilteredError(
                f"bind refused: the pod of UID {pod.uid} that filter was asked about is {answers[-1].pod}, not {pod};"
                " kube-scheduler asks about both alike"
            )
        if not own[-1].is_served:
            raise NotFilteredError(
                f"bind refused: no profile is for the schedulerName of pod {pod}; add one of that name, or one named"
                " default, which is for all others"
            )
        if not any(node in each.nodes for each in own):
            raise NotFilteredError(
                f"bind refused: node {node} is none of those that filter has answered for pod {pod};"
                " kube-scheduler tries the pod again, and binds it to one of those"
            )

    def forget(self, uid: str, route: str) -> None:
        """Drops a pod that is bound."""
        with self._lock:
            self._drop((uid, route))

    def _sweep(self, now: float) -> None:
        """Drops the pods whose answers are over, and as many more as are too much."""
        self._swept_at = now
        while self._answers:
            key, answers = next(iter(self._answers.items()))
            if answers[-1].expires > now and self._bytes <= MAX_BYTES:
                break
            self._drop(key)

    def _drop(self, key: Key) -> None:
        self._bytes -= sum(answer.size for answer in self._answers.pop(key, ()))
