"""The pods that guests are told of: one copy for the process, shared by all instances."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

from wasm_runtime.abi import NO_GROUP, NO_NODE, PodState
from wasm_runtime.change_log import ChangeLog
from wasm_runtime.pods.group_table import GroupKey, GroupTable


class ResidentPod(NamedTuple):
    """A pod on a node, or one that has none yet."""

    node: str
    """The node's name; "" where there is none."""
    object: bytes
    """Protobuf v1.Pod, never empty."""
    is_tentative: bool = False
    """Whether the pod is only expected on the node, and may not come. Without meaning where there is no node."""
    group: GroupKey | None = None
    """The group that it is of, if anybody wants to know that."""
    is_binding: bool = False
    """Whether a bind is under way, or has had no answer, of a tentative pod."""


class PlacedPod(NamedTuple):
    """A pod as the table keeps it."""

    pod: ResidentPod
    node: int
    """The index of its node in the node table, which no other name gets meanwhile; `NO_NODE` where there is none."""
    since: int
    """The position of the change by which its object came."""
    group: int = NO_GROUP
    """The number of its group in the group table, which no other gets meanwhile; `NO_GROUP` where it is of none."""

    @property
    def state(self) -> PodState:
        """What guests are told of it."""
        return PodState.TENTATIVE if self.pod.is_tentative and self.pod.node else PodState.THERE

    @property
    def member_state(self) -> PodState:
        """What guests are told of it as a member of its group."""
        is_binding = self.state is PodState.TENTATIVE and self.pod.is_binding
        return PodState.BINDING if is_binding else self.state


class PodChanges(NamedTuple):
    """What changed in a pod table."""

    position: int
    entries: int
    """Every number is below it."""
    pods: list[tuple[int, PlacedPod | None]]
    """Each number that changed, and the pod that has it now, if one does."""
    is_complete: bool = False
    """Whether the table has got all pods that there are, even if there are none."""


class PodTable:
    """Pods by UID, each with a number that is its own until it is gone.

    Each change is numbered, so that an instance takes only what changed since it last looked. A number that is free is
    given to the next new pod, so that all numbers are below the most pods that there were at once. The table holds the
    names of the nodes that pods are on, and their groups. All methods may be called from any thread.
    """

    def __init__(
        self,
        hold: Callable[[str], int],
        release: Callable[[str], object],
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        """`hold` and `release` are those of the node table; `on_change` is called after changes, by who made them."""
        self._hold = hold
        self._release = release
        self._on_change = on_change
        self.groups = GroupTable(on_change)
        """Those that pods are of, and those that are described."""
        self._lock = threading.Lock()
        """Taken before the lock of the nodes or of the groups, never after it."""
        self._numbers: dict[str, int] = {}
        self._placed: list[PlacedPod | None] = []
        self._free: list[int] = []
        self._is_complete = False
        self._log = ChangeLog()

    def __len__(self) -> int:
        """The number of pods."""
        return len(self._numbers)

    def get(self, uid: str) -> ResidentPod | None:
        """The pod of a UID."""
        with self._lock:
            number = self._numbers.get(uid)
            placed = None if number is None else self._placed[number]
            return placed and placed.pod

    def pods(self) -> dict[str, ResidentPod]:
        """All pods by UID."""
        with self._lock:
            return {uid: placed.pod for uid, number in self._numbers.items() if (placed := self._placed[number])}

    def copy_into(self, other: PodTable) -> None:
        """Puts all pods and groups into another table."""
        self.groups.copy_into(other.groups)
        other.put(self.pods().items())
        if self._is_complete:
            other.complete()

    def put(self, pods: Iterable[tuple[str, ResidentPod]]) -> None:
        """Adds or replaces pods, each with its UID."""
        with self._changing():
            for uid, pod in pods:
                self._write(uid, pod)

    def remove(self, uid: str) -> None:
        """Forgets a pod. A UID that is not known is not an error."""
        with self._changing():
            if uid in self._numbers:
                self._drop(uid)

    def replace(self, pods: Mapping[str, ResidentPod]) -> None:
        """Makes `pods` all that is known, as a fresh list from the API server does."""
        with self._changing():
            for uid in self._numbers.keys() - pods.keys():
                self._drop(uid)
            for uid, pod in pods.items():
                self._write(uid, pod)

    def complete(self) -> None:
        """Takes note that all pods that there are have been put: guests learn that they are told of pods."""
        with self._changing():
            if not self._is_complete:
                self._is_complete = True
                self._log.note_all()

    def changes(self, position: int) -> PodChanges | None:
        """What changed after a position; None if nothing did. Position 0 comes before all changes."""
        if position == self._log.position:
            return None  # Without the lock: each change moves it, and most calls come between two changes.
        with self._lock:
            pods = [(number, self._placed[number]) for number in self._log.since(position)]
            return PodChanges(self._log.position, len(self._placed), pods, self._is_complete)

    def _changing(self) -> AbstractContextManager[None]:
        return self._log.changing(self._lock, self._on_change)

    def _write(self, uid: str, pod: ResidentPod) -> None:
        number = self._numbers.get(uid)
        before = None if number is None else self._placed[number]
        if before and before.pod == pod:
            return
        node = self._hold(pod.node) if pod.node else NO_NODE
        group = self.groups.hold(pod.group) if pod.group else NO_GROUP
        if before:
            self._let_go(before.pod)
        if number is None:
            number = self._numbers[uid] = self._free.pop() if self._free else self._new_entry()
        position = self._log.note(number)
        since = before.since if before and before.pod.object == pod.object else position
        self._placed[number] = PlacedPod(pod, node, since, group)

    def _new_entry(self) -> int:
        self._placed.append(None)
        return len(self._placed) - 1

    def _drop(self, uid: str) -> None:
        number = self._numbers.pop(uid)
        placed, self._placed[number] = self._placed[number], None
        if placed:
            self._let_go(placed.pod)
        self._log.note(number)
        self._free.append(number)

    def _let_go(self, pod: ResidentPod) -> None:
        """Releases the pod's node and group."""
        if pod.node:
            self._release(pod.node)
        if pod.group:
            self.groups.release(pod.group)
