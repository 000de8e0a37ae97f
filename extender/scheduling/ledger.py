"""The ledger: which pod is on which node, or is about to be."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from extender.scheduling.rejected_pods import RejectedPods
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.pods.pod_table import ResidentPod

PLAN_S: Final = 30.0
"""Seconds for which a pod is expected on the one node that filter has answered. kube-scheduler does not say when it
gives up, so a plan ends as the pod's cycle does (`CYCLE_TIMEOUT_S`)."""

GROUP_PLAN_S: Final = 10.0
"""Seconds for a pod of a group. kube-scheduler tries a group that does not fit again and again, in the end after 14 s
or more (`calculateBackoffDuration`): other pods get the room in between."""

UNCONFIRMED_S: Final = 90.0
"""Seconds that the watch has, while it is current, to show a pod of which it is not known whether it is bound. A watch
that has fallen silent is noticed earlier (`WATCH_TIMEOUT_S` and `WATCH_GRACE_S`)."""

MAX_TENTATIVE_BYTES: Final = 64 * MEBIBYTE
"""What plans may take; beyond it those go that would expire first."""

POD_OVERHEAD_BYTES: Final = 1024
"""What a pod takes beside its object."""

PODS_AT_ONCE: Final = 256
"""Pods of a list that are taken while others wait."""

MAX_NODES: Final = 32_768
"""Nodes of which it is known when a pod came last. The others count as if one had come when the last was forgotten."""


class State(Enum):
    """Why a pod counts on a node."""

    TENTATIVE = "tentative"
    """filter has answered the node alone. It ends by itself."""
    BINDING = "binding"
    """A bind is under way, also while kube-scheduler asks about the pod again."""
    UNCONFIRMED = "unconfirmed"
    """The pod may be bound: the API server's answer was lost. It ends by itself if the watch does not show it."""
    CONFIRMED = "confirmed"
    """The pod was bound here."""
    OBSERVED = "observed"
    """The watch shows the pod on the node."""


class Step(Enum):
    """What becomes of a pod."""

    RETRY = "retry"
    """filter is asked about it."""
    PLAN = "plan"
    """filter answers one node."""
    BIND = "bind"
    """A bind begins."""
    ANNOTATE = "annotate"
    """The bind is to give it annotations."""
    CONFIRM = "confirm"
    """It is bound."""
    RELEASE = "release"
    """It was not bound."""
    DOUBT = "doubt"
    """It was bound, or not."""
    EXPIRE = "expire"
    """Its time is over."""
    OBSERVE = "observe"
    """The watch shows it on a node."""
    MISS = "miss"
    """A list does not have it on a node: that may be older than the bind."""
    DELETE = "delete"
    """The watch shows that it has ended."""


_TENTATIVE, _BINDING, _UNCONFIRMED, _CONFIRMED, _OBSERVED = State

TRANSITIONS: Final[Mapping[Step, Mapping[State | None, State | None]]] = {
    Step.RETRY: {_TENTATIVE: None},
    Step.PLAN: {None: _TENTATIVE, _TENTATIVE: _TENTATIVE},
    Step.BIND: {_TENTATIVE: _BINDING, _BINDING: _BINDING},
    Step.ANNOTATE: {_BINDING: _BINDING, _UNCONFIRMED: _UNCONFIRMED},
    Step.CONFIRM: {_BINDING: _CONFIRMED, _UNCONFIRMED: _CONFIRMED},
    Step.RELEASE: {_BINDING: None},
    Step.DOUBT: {_BINDING: _UNCONFIRMED, _UNCONFIRMED: _UNCONFIRMED},
    Step.EXPIRE: {_TENTATIVE: None, _BINDING: None, _UNCONFIRMED: None},
    Step.OBSERVE: dict.fromkeys([None, *State], _OBSERVED),
    Step.MISS: {_CONFIRMED: _UNCONFIRMED, _OBSERVED: None},
    Step.DELETE: dict.fromkeys(State),
}
"""What follows a state, None being that of a pod that is on no node. Where a state is left out, nothing changes."""

_SEEN: Final = frozenset({Step.OBSERVE, Step.DELETE})
"""Steps that kube-scheduler sees as well, if the pod was bound."""


class Entry(NamedTuple):
    """A pod on a node."""

    state: State
    node: str
    object: bytes
    """Protobuf v1.Pod."""
    expires: float = math.inf
    """When an entry ends whose pod may not come, on the clock of `time.monotonic`."""
    annotations: Mapping[str, str] | None = None
    """Those that a bind gives the pod; the object has them."""

    @property
    def is_tentative(self) -> bool:
        """Whether the pod may not come."""
        return self.state not in {State.CONFIRMED, State.OBSERVED}

    @property
    def size(self) -> int:
        """Bytes that it takes of those that all plans may take."""
        return len(self.object) + POD_OVERHEAD_BYTES if self.state is State.TENTATIVE else 0


class PodSink(Protocol):
    """Where guests are told of pods, by their UIDs."""

    def put(self, pods: Iterable[tuple[str, ResidentPod]], /) -> None:
        """Adds or replaces pods."""

    def remove(self, uid: str, /) -> None:
        """Forgets a pod, known or not."""

    def replace(self, pods: Mapping[str, ResidentPod], /) -> None:
        """Makes these all that is known."""


class Ledger:
    """Knows each pod that is on a node or about to be, by its UID, and tells guests by way of a `PodTable`.

    Pods without a node that the watch shows are told to guests that want to know them. Nothing outlives the process:
    the watch brings what is bound, and kube-scheduler asks again about the others. May be used from any thread.
    """

    def __init__(
        self,
        pods: PodSink,
        outdated: Callable[[], float],
        wake: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        on_end: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`outdated` is for how many seconds the watch may have been behind; `wake` has rejected pods tried again.

        `clock` in seconds. `on_end` is told the UID of each pod that the watch shows to have ended.
        """
        self._pods = pods
        self._outdated = outdated
        self._clock = clock
        self._on_end = on_end
        self._entries: dict[str, Entry] = {}
        self._waiting: dict[str, bytes] = {}
        """Pods that the watch has last shown without a node."""
        self._expiries: list[tuple[float, str]] = []
        """A heap, in which an entry that has another expiry by now is still found."""
        self._bytes = 0
        """What the tentative entries take."""
        self._position = 0
        self._taken: OrderedDict[str, int] = OrderedDict()
        """By node, the position of the last change that may have taken room there; the oldest first."""
        self._forgotten = 0
        """The latest position that is not there any more."""
        self._rejected = RejectedPods(wake, clock)
        self._lock = threading.RLock()
        self._behind_at = -math.inf
        """When the watch was last behind."""
        self.is_followed = False
        """Whether the pods are watched, or about to be. Where they are not, nothing is worth a note."""

    # -- what schedulers do ------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Grows with each change. Who judges afterwards knows of all changes until then."""
        with self._lock:  # Else a change might count that guests are not told of yet.
            return self._position

    def retry(self, uid: str) -> str:
        """Ends a pod's plan, since filter is asked about the pod again. Returns the node that it was for, or nothing.

        Whoever does not plan the pod there again calls `vacate`.
        """
        with self._lock:
            entry = self._entries.get(uid)
            if entry is None or entry.state is not State.TENTATIVE:
                return ""
            self._step(Step.RETRY, uid)
            return entry.node

    def vacate(self, *, is_seen: bool = False) -> None:
        """Takes note that a pod has left room, which kube-scheduler sees by itself or not."""
        with self._lock:
            self._rejected.vacate(self._position, is_seen=is_seen)

    def reject(self, since: int) -> bool:
        """Takes note that no node takes a pod.

        Returns False if room came free after the position `since`: the pod has to be judged again.
        """
        with self._lock:
            return self._rejected.reject(since)

    def plan(self, uid: str, node: str, pod: bytes, since: int, seconds: float = PLAN_S) -> bool:
        """Expects a pod, a protobuf v1.Pod, on a node for so many seconds.

        Returns False, and expects nothing, if a pod may have taken room on the node after the position `since`: it has
        to be judged again then.
        """
        with self._lock:
            if self._taken.get(node, self._forgotten) > since:
                return False
            self._step(Step.PLAN, uid, Entry(State.TENTATIVE, node, pod, self._clock() + seconds))
            self.expire()
            return True

    def claim(self, uid: str, node: str, seconds: float) -> bool:
        """Takes note that a bind begins, of so many seconds at most. Returns whether the pod was expected there."""
        with self._lock:
            self.expire()
            entry = self._entry(uid, node)
            if entry is None:
                return False
            self._step(Step.BIND, uid, entry._replace(expires=self._clock() + seconds))
            return True

    def annotate(
        self, uid: str, node: str, annotations: Mapping[str, str], pod: bytes, since: int
    ) -> Mapping[str, str] | None:
        """Takes note of the annotations that a bind is to give a pod; `pod` is the protobuf v1.Pod that has them.

        Returns those that count: if the pod has some by another bind, which may have been heard, they are the first.
        Returns None, and notes nothing, if a pod may have taken room on the node after the position `since`: what the
        annotations tell may be wrong then.
        """
        with self._lock:
            entry = self._entry(uid, node)
            if entry and entry.annotations:
                return entry.annotations
            if annotations and self._taken.get(node, self._forgotten) > since:
                return None
            if annotations and entry:  # Else it has ended, or is elsewhere, and the API server will refuse it.
                self._step(Step.ANNOTATE, uid, entry._replace(object=pod, annotations=annotations))
            return annotations

    def confirm(self, uid: str, node: str) -> None:
        """Takes note that a pod was bound, unless the watch has shown by now that it has ended."""
        with self._lock:
            if entry := self._entries.get(uid):
                self._step(Step.CONFIRM, uid, entry._replace(node=node, expires=math.inf))

    def release(self, uid: str, node: str) -> None:
        """Takes note that a pod was not bound to a node."""
        with self._lock:
            if self._entry(uid, node):
                self._step(Step.RELEASE, uid)

    def doubt(self, uid: str, node: str) -> None:
        """Takes note that a pod may be bound to a node. Until that is known it goes nowhere else."""
        with self._lock:
            if entry := self._entry(uid, node):
                self._step(Step.DOUBT, uid, entry._replace(expires=self._clock() + UNCONFIRMED_S))

    def node_of(self, uid: str) -> str:
        """The node that a pod is on, or expected on; empty if there is none."""
        entry = self._entries.get(uid)
        return entry.node if entry else ""

    def committed(self, uid: str) -> str | None:
        """The node that a pod is being bound to, or may be bound to; None if it may go anywhere."""
        entry = self._entries.get(uid)
        return entry.node if entry and entry.state in {State.BINDING, State.UNCONFIRMED} else None

    def expire(self) -> None:
        """Ends what is expected and whose time is over, and as many more plans as are too much."""
        with self._lock:
            now, kept = self._clock(), []
            if self._outdated():
                self._behind_at = now
            while self._expiries and (self._expiries[0][0] <= now or self._bytes > MAX_TENTATIVE_BYTES):
                expires, uid = heappop(self._expiries)
                entry = self._entries.get(uid)
                if entry is None or entry.expires != expires:
                    continue
                shown_by = self._behind_at + UNCONFIRMED_S
                if expires > now and entry.state is not State.TENTATIVE:
                    kept.append((expires, uid))
                elif entry.state is State.UNCONFIRMED and shown_by > now:  # The watch may still show it.
                    self._step(Step.DOUBT, uid, entry._replace(expires=shown_by))
                else:
                    self._step(Step.EXPIRE, uid)
            for each in kept:
                heappush(self._expiries, each)

    # -- what the watch shows ----------------------------------------------------------------------

    def observe(self, uid: str, node: str, pod: bytes) -> None:
        """Takes a pod as the watch shows it, with an empty `node` if it has none.

        A pod that was bound here is on its node all the same: the watch may be behind.
        """
        with self._lock:
            self._observe(uid, node, pod)
            self._tell([uid])

    def delete(self, uid: str) -> None:
        """Forgets a pod that has ended."""
        with self._lock:
            self._waiting.pop(uid, None)
            self._change(Step.DELETE, uid)
            self._tell([uid])
        self._on_end(uid)

    def replace(self, pods: Mapping[str, tuple[str, bytes]]) -> None:
        """Takes a list of all pods that have not ended: the node and the object of each.

        It takes them as if the watch showed some at a time, so that nobody has to wait until it has taken all.
        """
        with self._lock:
            expires = self._clock() + UNCONFIRMED_S
            missed = [uid for uid in self._entries if not pods.get(uid, ("",))[0]]
            missed += [uid for uid in self._waiting if uid not in pods and uid not in self._entries]
        for uids in _batches(missed):
            with self._lock:
                for uid in uids:
                    if uid not in pods and self._waiting.pop(uid, None) is not None:
                        self._on_end(uid)
                    if entry := self._entries.get(uid):
                        self._change(Step.MISS, uid, entry._replace(expires=expires))
                self._tell(uids)
        for uids in _batches(list(pods)):
            with self._lock:
                for uid in uids:
                    self._observe(uid, *pods[uid])
                self._tell(uids)

    def unfollow(self) -> None:
        """Forgets all pods: nobody watches them from now on. A bind that is under way ends without the ledger."""
        with self._lock:
            self.is_followed = False
            self._entries.clear()
            self._waiting.clear()
            self._expiries.clear()
            self._bytes = 0
            self._pods.replace({})

    # -- for people --------------------------------------------------------------------------------

    def count(self, state: str) -> int:
        """How many pods are in a state."""
        return self._counts()[State(state)]

    def summary(self) -> str:
        """How many pods are in which state, in words."""
        counts = self._counts()
        return ", ".join(f"{counts[state]} {state.value}" for state in State)

    def entries(self) -> Mapping[str, Entry]:
        """All pods that are on nodes, or about to be."""
        with self._lock:
            self.expire()
            return dict(self._entries)

    def _counts(self) -> Counter[State]:
        return Counter(entry.state for entry in self.entries().values())

    # -- inside ------------------------------------------------------------------------------------

    def _entry(self, uid: str, node: str) -> Entry | None:
        """What is known of a pod, if that is about this node."""
        entry = self._entries.get(uid)
        return entry if entry and entry.node == node else None

    def _step(self, step: Step, uid: str, changed: Entry | None = None) -> None:
        """Makes a transition, and tells guests of it; `changed` is the entry of the state that follows, if one does."""
        with self._lock:
            self._change(step, uid, changed)
            self._tell([uid])

    def _observe(self, uid: str, node: str, pod: bytes) -> None:
        if node:
            self._waiting.pop(uid, None)
            self._change(Step.OBSERVE, uid, Entry(State.OBSERVED, node, pod))
        else:
            self._waiting[uid] = pod

    def _change(self, step: Step, uid: str, changed: Entry | None = None) -> None:
        """Makes a transition, of which guests are still to be told before anybody else has the lock."""
        with self._lock:
            before = self._entries.get(uid)
            state = before.state if before else None
            if state not in TRANSITIONS[step]:
                return
            following = TRANSITIONS[step][state]
            after = changed._replace(state=following) if changed and following else None
            if after == before:
                return
            if after:
                self._entries[uid] = after
            else:
                self._entries.pop(uid, None)
            self._bytes += (after.size if after else 0) - (before.size if before else 0)
            if after and after.is_tentative:
                heappush(self._expiries, (after.expires, uid))
            self._note_room(before, after)
            if before and step is not Step.RETRY and (after is None or after.node != before.node):
                self.vacate(is_seen=step in _SEEN and not before.is_tentative)

    def _note_room(self, before: Entry | None, after: Entry | None) -> None:
        """Notes at a node that a pod may have taken room there: it came, or is another one than it was."""
        self._position += 1
        if after is None or (before and (before.node, before.object) == (after.node, after.object)):
            return
        self._taken.pop(after.node, None)
        self._taken[after.node] = self._position
        if len(self._taken) > MAX_NODES:
            _, self._forgotten = self._taken.popitem(last=False)

    def _tell(self, uids: Sequence[str]) -> None:
        """Brings what guests are told of pods up to date."""
        told: list[tuple[str, ResidentPod]] = []
        for uid in uids:
            entry, waiting = self._entries.get(uid), self._waiting.get(uid)
            if entry:
                told.append((uid, ResidentPod(entry.node, entry.object, entry.is_tentative)))
            elif waiting is not None:
                told.append((uid, ResidentPod("", waiting)))
            else:
                self._pods.remove(uid)
        self._pods.put(told)


def _batches(uids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (uids[begin : begin + PODS_AT_ONCE] for begin in range(0, len(uids), PODS_AT_ONCE))
