"""What was decided about the last pods: what each plugin said of each node, and what became of the pod."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from extender.scheduling.cycle_pins import Key
from extender.scheduling.findings import Filtered, distinct
from extender.scheduling.prioritize import Totals
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.nodes.node_table import NodeSet

MAX_BYTES: Final = 64 * MEBIBYTE
"""What all decisions may take, by a rule of thumb; beyond it the pods go that were decided about longest ago."""

MAX_ATTEMPTS: Final = 4
"""Attempts that are kept of a pod, the last ones."""

ATTEMPT_BYTES: Final = 2048
NUMBER_BYTES: Final = 8
NAME_BYTES: Final = 128
REASON_BYTES: Final = 64
"""Bytes, by a rule of thumb: of an attempt, of each number of a node or a score, of each name, and of a reason beside
its text."""


class Preempted(NamedTuple):
    """What preempt answered."""

    time: float
    candidates: Sequence[str]
    kept: Sequence[str]


class Waited(NamedTuple):
    """That the pod had to wait on Permit."""

    time: float
    node: str
    plugins: Mapping[str, float]
    """Those that said Wait, and the seconds that the pod might wait for each."""


class Bound(NamedTuple):
    """How bind ended."""

    time: float
    node: str
    seconds: float
    error: str
    """Empty if the pod is bound."""


class Failure(NamedTuple):
    """Why a verb had no answer of the plugins."""

    time: float
    verb: str
    message: str


@dataclass(slots=True)
class Attempt:
    """An attempt to schedule a pod: a call of filter, and what followed until the next one. Times are Unix times.

    What is not known yet is None.
    """

    pod: str
    """`namespace/name`."""
    uid: str
    route: str
    """The name of the profile in the path of the requests, if it had one."""
    profile: str
    time: float
    known: int = 0
    """How many nodes the cluster had, as far as the extender knew."""
    asked: NodeSet | None = None
    """Those that filter was asked about."""
    filtered: tuple[Filtered, ...] = ()
    kept: NodeSet | None = None
    """Those that filter answered."""
    totals: Totals | None = None
    """The scores of the nodes that pass."""
    preempted: Preempted | None = None
    waited: Waited | None = None
    bound: Bound | None = None
    failure: Failure | None = None
    """Of the last verb that had no answer of the plugins."""
    size: int = 0
    """Bytes that it takes, by a rule of thumb."""


class Decisions:
    """The last attempts of the last pods. May be used from any thread.

    What plugins said is kept as it came, and nodes as numbers, so it takes some microseconds to keep an attempt. Only
    the name and UID of a pod are kept. Memory is bounded.
    """

    def __init__(self, pods: int) -> None:
        """`pods` is how many are kept; with 0 none is."""
        self.most = pods
        self._pods: OrderedDict[Key, tuple[Attempt, ...]] = OrderedDict()
        """Of each pod the latest last; the pod that was decided about longest ago first."""
        self._bytes = 0
        self._lock = threading.RLock()

    def begin(self, attempt: Attempt) -> None:
        """Begins an attempt, with what is known of it."""
        if not self.most:
            return
        size = ATTEMPT_BYTES
        if attempt.asked is not None and attempt.kept is not None:
            size += NUMBER_BYTES * (len(attempt.asked) + len(attempt.kept))
        for each in attempt.filtered:
            size += NUMBER_BYTES * len(each.named)
            if each.reasons:
                texts = distinct(each.reasons)  # Of equal ones one is kept.
                size += NUMBER_BYTES * len(each.reasons) + len(each.codes)
                size += REASON_BYTES * len(texts) + len("".join(texts))
        attempt.size = size + _size_of_scores(attempt.totals) if attempt.totals else size
        key = attempt.uid, attempt.route
        with self._lock:
            earlier = self._pods.pop(key, ())
            if len(earlier) >= MAX_ATTEMPTS:
                self._bytes -= earlier[0].size
                earlier = earlier[1:]
            self._pods[key] = (*earlier, attempt)
            self._bytes += attempt.size
            if len(self._pods) > self.most or self._bytes > MAX_BYTES:
                self._drop()

    def amend(self, pod: str, uid: str, route: str, profile: str, **found: Any) -> None:
        """Adds to a pod's last attempt. Begins another one if the last has such a field already, or there is none.

        `found` has the fields of `Attempt` to set, with their values. The other arguments are those of an attempt that
        begins.
        """
        if not self.most:
            return
        with self._lock:
            attempts = self._pods.get((uid, route))
            if not attempts or any(map(partial(getattr, attempts[-1]), found)):
                self.begin(Attempt(pod, uid, route, profile, time.time()))
                attempts = self._pods[uid, route]
            last = attempts[-1]
            for name, value in found.items():
                setattr(last, name, value)
            more = _size_of_scores(found["totals"]) if "totals" in found else 0
            more += NAME_BYTES * len(found["preempted"].candidates) if "preempted" in found else 0
            last.size += more
            self._bytes += more
            if self._bytes > MAX_BYTES:
                self._drop()

    def find(self, namespace: str, name: str) -> list[Attempt]:
        """All attempts of the pods of that name, the latest first."""
        pod = f"{namespace}/{name}"
        return [attempt for attempts in self._all() for attempt in reversed(attempts) if attempt.pod == pod]

    def attempts(self, uid: str, route: str) -> Sequence[Attempt]:
        """The attempts of a pod, the latest last."""
        with self._lock:
            return self._pods.get((uid, route), ())

    def latest(self) -> list[Attempt]:
        """The last attempt of each pod, that of the pod that was tried last first."""
        return [attempts[-1] for attempts in self._all()]

    def _all(self) -> list[tuple[Attempt, ...]]:
        with self._lock:
            return list(reversed(self._pods.values()))

    def _drop(self) -> None:
        """Makes room; what has just come stays."""
        while (len(self._pods) > self.most or self._bytes > MAX_BYTES) and len(self._pods) > 1:
            _, dropped = self._pods.popitem(last=False)
            for each in dropped:
                self._bytes -= each.size


def _size_of_scores(totals: Totals) -> int:
    size = NUMBER_BYTES * len(totals.scores)
    for each in totals.scored:
        size += len(each.scores) + NUMBER_BYTES * len(each.raw)
    return size


NO_DECISIONS: Final = Decisions(0)
"""Keeps nothing."""
