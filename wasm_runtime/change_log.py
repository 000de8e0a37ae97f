"""Which entries of a table changed, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile


class ChangeLog:
    """The last change of each entry of a table, by the entry's number. Changes are counted from 1 on.

    Its size is that of the table, however many changes there are. Whoever uses it has the table's lock, except to
    read `position`.
    """

    def __init__(self) -> None:
        self.position = 0
        """The number of the latest change."""
        self._last: dict[int, int] = {}
        """The position of each entry's last change, the latest last."""

    def note(self, at: int) -> int:
        """Counts a change of an entry. Returns its position."""
        self.position += 1
        self._last.pop(at, None)
        self._last[at] = self.position
        return self.position

    def note_all(self) -> None:
        """Counts a change of the table as a whole."""
        self.position += 1

    @contextmanager
    def changing(self, lock: AbstractContextManager[object], on_change: Callable[[], object]) -> Iterator[None]:
        """Holds the table's lock for some changes. Without the lock calls `on_change` afterwards, if there were any."""
        with lock:
            before = self.position
            yield
            changed = self.position != before
        if changed:
            on_change()

    def since(self, position: int) -> list[int]:
        """The entries that changed after a position, by their numbers."""
        latest = takewhile(lambda change: change[1] > position, reversed(self._last.items()))
        return sorted(at for at, _ in latest)
