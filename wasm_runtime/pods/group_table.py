"""The groups of pods that guests are told of: one copy for the process, shared by all instances."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from wasm_runtime.abi import GroupSource
from wasm_runtime.change_log import ChangeLog


class GroupKey(NamedTuple):
    """What tells a group from others."""

    source: GroupSource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Group(NamedTuple):
    """What is known of a group beside its name."""

    minimum: int = 0
    """How many of its pods have to have a node before any may run; 0 where nobody says so."""
    timeout: int = 0
    """Seconds for which its pods may wait for each other; 0 where nobody says so."""
    priority: int = 0
    created: int = 0
    """When it was created, in seconds of Unix time; 0 where nobody says so."""


NAMED: Final = Group()
"""A group of which the name alone is known."""


class NumberedGroup(NamedTuple):
    """A group as the table keeps it."""

    key: GroupKey
    group: Group


class GroupChanges(NamedTuple):
    """What changed in a group table."""

    position: int
    entries: int
    """Every number is below it."""
    groups: list[tuple[int, NumberedGroup | None]]
    """Each number that changed, and the group that has it now, if one does."""


class GroupTable:
    """Groups by their keys. A group keeps its number as long as it is described or held.

    Each change is numbered, as in a pod table. A free number is given to the next new group. All methods may be called
    from any thread.
    """

    def __init__(self, on_change: Callable[[], object] = lambda: None) -> None:
        """`on_change` is called after a group was described, or is not any more, by who did that."""
        self._on_change = on_change
        self._lock = threading.Lock()
        """Whoever has a pod table's lock may take this one, never the other way round."""
        self._numbers: dict[GroupKey, int] = {}
        self._groups: list[NumberedGroup | None] = []
        self._described: set[GroupKey] = set()
        self._held: dict[GroupKey, int] = {}
        """How often each group is held; groups that are not held are left out."""
        self._free: list[int] = []
        self._log = ChangeLog()

    def __len__(self) -> int:
        """The number of groups."""
        return len(self._numbers)

    def copy_into(self, other: GroupTable) -> None:
        """Describes all groups that are described here in another table."""
        with self._lock:
            described = [each for each in self._groups if each and each.key in self._described]
        for key, group in described:
            other.put(key, group)

    def put(self, key: GroupKey, group: Group) -> None:
        """Describes a group."""
        with self._changing():
            self._described.add(key)
            self._write(NumberedGroup(key, group))

    def remove(self, key: GroupKey) -> None:
        """Forgets what is known of a group; it is there by its name alone while it is held."""
        with self._changing():
            if key not in self._described:
                return
            self._described.remove(key)
            if key in self._held:
                self._write(NumberedGroup(key, NAMED))
            else:
                self._drop(key)

    def hold(self, key: GroupKey) -> int:
        """The number of a group, which no other gets until this one is released as often as it was held."""
        with self._lock:
            if key not in self._numbers:
                self._write(NumberedGroup(key, NAMED))
            self._held[key] = self._held.get(key, 0) + 1
            return self._numbers[key]

    def release(self, key: GroupKey) -> None:
        """Ends what `hold` began. Raises KeyError for a group that is not held."""
        with self._lock:
            self._held[key] -= 1
            if self._held[key]:
                return
            del self._held[key]
            if key not in self._described:
                self._drop(key)

    def changes(self, position: int) -> GroupChanges | None:
        """What changed after a position; None if nothing did. Position 0 comes before all changes."""
        if position == self._log.position:
            return None  # Without the lock: each change moves it, and most calls come between two changes.
        with self._lock:
            groups = [(number, self._groups[number]) for number in self._log.since(position)]
            return GroupChanges(self._log.position, len(self._groups), groups)

    def _changing(self) -> AbstractContextManager[None]:
        return self._log.changing(self._lock, self._on_change)

    def _write(self, entry: NumberedGroup) -> None:
        number = self._numbers.get(entry.key)
        if number is None:
            number = self._numbers[entry.key] = self._free.pop() if self._free else self._new_entry()
        elif self._groups[number] == entry:
            return
        self._groups[number] = entry
        self._log.note(number)

    def _new_entry(self) -> int:
        self._groups.append(None)
        return len(self._groups) - 1

    def _drop(self, key: GroupKey) -> None:
        number = self._numbers.pop(key)
        self._groups[number] = None
        self._log.note(number)
        self._free.append(number)
