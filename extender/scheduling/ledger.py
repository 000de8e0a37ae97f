"""The ledger: which pod is on which node, or is about to be."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from extender.scheduling.expiries import Expiries
from extender.scheduling.ledger_entry import PLANS, SEEN, TRANSITIONS, Entry, State, Step
from extender.scheduling.rejected_pods import RejectedPods
from extender.scheduling.room_taken import RoomTaken
from wasm_runtime.pods.pod_table import ResidentPod

PLAN_S: Final = 30.0
"""Seconds for which a pod is expected on the one node that filter has answered. kube-scheduler does not say when it
gives up, so a plan ends as the pod's cycle does (`CYCLE_TIMEOUT_S`)."""

GROUP_PLAN_S: Final = 10.0
"""Seconds for a pod of a group. kube-scheduler tries a group that does not fit again and again, in the end after 14 s
or more (`calculateBackoffDuration`): other pods get the room in between."""

RETAINED_S: Final = 30.0
"""Seconds for which a pod of a group keeps its room after the API server has refused its bind. kube-scheduler tries the
pod again within 10 s, if it keeps its defaults (`podMaxBackoffSeconds`), and may try others before."""

UNCONFIRMED_S: Final = 90.0
"""Seconds that the watch has, while it is current, to show a pod of which it is not known whether it is bound. A watch
that has fallen silent is noticed earlier (`WATCH_TIMEOUT_S` and `WATCH_GRACE_S`)."""

PODS_AT_ONCE: Final = 256
"""Pods of a list that are taken while others wait."""


class PodSink(Protocol):
    """Where guests are told of pods, by their UIDs."""

    def put(self, pods: Iterable[tuple[str, ResidentPod]], /) -> None:
        """Adds or replaces pods."""

    def remove(self, uid: str, /) -> None:
        """Forgets a pod, known or not."""

    def replace(self, pods: Mapping[str, ResidentPod], /) -> None:
        """Makes these all that is known."""

    def complete(self) -> None:
        """Takes note that all pods that there are have been put."""


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
        is_member: Callable[[bytes], bool] = lambda _: False,
        completes: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        """`outdated` is for how many seconds the watch may have been behind; `wake` has rejected pods tried again.

        `clock` in seconds. `on_end` is told the UID of each pod that the watch shows to have ended. `is_member` is
        whether a protobuf v1.Pod is of a group, where anybody wants to know that; `completes` is whether others of its
        group may go on now that it comes.
        """
        self._pods = pods
        self._outdated = outdated
        self._clock = clock
        self._on_end = on_end
        self._is_member = is_member
        self._completes = completes
        self._entries: dict[str, Entry] = {}
        self._waiting: dict[str, bytes] = {}
        """Pods that the watch has last shown without a node."""
        self._expiries = Expiries()
        self._room_taken = RoomTaken()
        self._rejected = RejectedPods(wake, clock)
        self._lock = threading.RLock()
        self._behind_at = -math.inf
        """When the watch was last behind."""
        self.is_followed = False
        """Whether the pods are watched, or are about to be. While they are not, nobody tells the ledger anything."""

    # -- what schedulers do ------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """A number that grows with each change. Guests that judge after it was read know of all changes up to it."""
        with self._lock:  # Else a change might count that guests are not told of yet.
            return self._room_taken.position

    def retry(self, uid: str) -> str:
        """Ends a pod's plan, since filter is asked about the pod again. Returns the node that it was for, or nothing.

        A caller that does not plan the pod there again calls `vacate`, since the room is free.
        """
        with self._lock:
            entry = self._entries.get(uid)
            if entry is None or entry.state not in PLANS:
                return ""
            self._step(Step.RETRY, uid)
            return entry.node

    def vacate(self, *, is_seen: bool = False) -> None:
        """Takes note that a pod has left room, which kube-scheduler sees by itself or not."""
        with self._lock:
            self._rejected.vacate(self._room_taken.position, is_seen=is_seen)

    def regroup(self) -> None:
        """Takes note that a group has another pod or description: its rejected pods are worth another attempt."""
        with self._lock:
            self._room_taken.note()
            self.vacate()

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
            if self._room_taken.on(node, since):
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

        Returns the annotations that count. If an earlier bind may have given the pod some, these are the ones that
        count. Returns None, and notes nothing, if a pod may have taken room on the node after the position `since`:
        what the annotations tell may be wrong then.
        """
        with self._lock:
            entry = self._entry(uid, node)
            if entry and entry.annotations:
                return entry.annotations
            if annotations and self._room_taken.on(node, since):
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

    def retain(self, uid: str, node: str) -> None:
        """Takes note that a pod was not bound to a node. One of a group keeps its room there for its next attempt.

        So does one that an earlier bind may have bound there, of which nobody knows yet.
        """
        with self._lock:
            entry = self._entry(uid, node)
            if entry and self._is_member(entry.object):
                known_at = entry.expires if entry.state is State.UNCONFIRMED else -math.inf
                expires = max(self._clock() + RETAINED_S, known_at)
                self._step(Step.RETAIN, uid, entry._replace(expires=expires))
            elif entry:
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

    def retained(self, uid: str) -> Entry | None:
        """A pod whose room is kept after its bind was refused; None if there is none."""
        entry = self._entries.get(uid)
        return entry if entry and entry.state is State.RETAINED else None

    def expire(self) -> None:
        """Ends the entries whose time is over. Then ends plans, if all plans together take too much memory."""
        with self._lock:
            now = self._clock()
            if self._outdated():
                self._behind_at = now
            shown_by = self._behind_at + UNCONFIRMED_S
            for uid, entry in self._expiries.due(now, self._entries):
                if entry.state is State.UNCONFIRMED and shown_by > now:  # The watch may still show it.
                    self._step(Step.DOUBT, uid, entry._replace(expires=shown_by))
                else:
                    self._step(Step.EXPIRE, uid)

    # -- what the watch shows ----------------------------------------------------------------------

    def observe(self, uid: str, node: str, pod: bytes) -> None:
        """Takes a pod as the watch shows it, with an empty `node` if it has none.

        A pod that was bound here stays on its node even if the watch shows none: the watch may be behind.
        """
        with self._lock:
            self._observe(uid, node, pod)
            self._tell([uid])

    def delete(self, uid: str) -> None:
        """Forgets a pod that has ended."""
        with self._lock:
            self._end_waiting(uid)
            self._change(Step.DELETE, uid)
            self._tell([uid])
        self._on_end(uid)

    def replace(self, pods: Mapping[str, tuple[str, bytes]]) -> None:
        """Takes a list of all pods that have not ended, by their UIDs: the node and the object of each.

        It takes some pods at a time and gives the lock away in between, so nobody has to wait until it has taken all.
        """
        with self._lock:
            expires = self._clock() + UNCONFIRMED_S
            missed = [uid for uid in self._entries if not pods.get(uid, ("",))[0]]
            missed += [uid for uid in self._waiting if uid not in pods and uid not in self._entries]
        for uids in _batches(missed):
            with self._lock:
                for uid in uids:
                    if uid not in pods and self._end_waiting(uid):
                        self._on_end(uid)
                    if entry := self._entries.get(uid):
                        self._change(Step.MISS, uid, entry._replace(expires=expires))
                self._tell(uids)
        for uids in _batches(list(pods)):
            with self._lock:
                for uid in uids:
                    self._observe(uid, *pods[uid])
                self._tell(uids)
        self._pods.complete()

    def unfollow(self) -> None:
        """Forgets all pods: nobody watches them from now on. A bind that is under way ends without the ledger."""
        with self._lock:
            self.is_followed = False
            self._entries.clear()
            self._waiting.clear()
            self._expiries.clear()
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
            if uid not in self._waiting and self._completes(pod):
                self.regroup()
            self._waiting[uid] = pod

    def _end_waiting(self, uid: str) -> bool:
        """Forgets a pod that the watch showed without a node. Returns whether there was one.

        The pod's group may need room no more that was kept for it. kube-scheduler does not try rejected pods again when
        such a pod ends.
        """
        pod = self._waiting.pop(uid, None)
        if pod is not None and self._is_member(pod):
            self.regroup()
        return pod is not None

    def _change(self, step: Step, uid: str, changed: Entry | None = None) -> None:
        """Makes a transition. The caller tells guests of it by `_tell` before it releases the lock."""
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
            self._expiries.note(uid, before, after)
            self._room_taken.note(_taken_node(before, after))
            if before and step is not Step.RETRY and (after is None or after.node != before.node):
                self.vacate(is_seen=step in SEEN and not before.is_tentative)

    def _tell(self, uids: Sequence[str]) -> None:
        """Brings what guests are told of pods up to date."""
        told: list[tuple[str, ResidentPod]] = []
        for uid in uids:
            entry, waiting = self._entries.get(uid), self._waiting.get(uid)
            if entry:
                told.append((uid, entry.told))
            elif waiting is not None:
                told.append((uid, ResidentPod("", waiting)))
            else:
                self._pods.remove(uid)
        self._pods.put(told)


def _taken_node(before: Entry | None, after: Entry | None) -> str:
    """The node where a change takes room: the pod has come there, or asks for something else. "" if there is none."""
    return "" if after is None or (before and before.takes_as(after)) else after.node


def _batches(uids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (uids[begin : begin + PODS_AT_ONCE] for begin in range(0, len(uids), PODS_AT_ONCE))
