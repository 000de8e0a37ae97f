"""What a guest has been told of the nodes, and what it has yet to be told."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from wasm_runtime.snapshot import ABSENT, Changes

EVERY: Final = 1 << 62
"""No bound for a number of nodes."""


class News(NamedTuple):
    """What a guest is to be told next, by index: first of the nodes that are gone, then of those that changed."""

    removed: list[int]
    changed: list[int]


class Residents:
    """The nodes that one guest keeps, each by the snapshot's index.

    A node that has again the object that the guest knows is no news; one whose index is another name's now is
    first gone.
    """

    def __init__(self) -> None:
        self._told: dict[int, tuple[str, bytes]] = {}
        self._gone: dict[int, None] = {}
        self._changed: dict[int, tuple[str, bytes]] = {}

    def note(self, changes: Changes) -> None:
        """Takes in changes of the snapshot."""
        for at, name, node in changes.nodes:
            self._gone.pop(at, None)
            self._changed.pop(at, None)
            told, now = self._told.get(at, (name, ABSENT)), (name, node)
            if told == now:
                continue
            if not node or name != told[0]:
                self._gone[at] = None
            if node:
                self._changed[at] = now

    def forget_source(self) -> None:
        """Makes all that the guest knows gone: another snapshot takes the place of this one."""
        self._gone = dict.fromkeys(self._told)
        self._changed.clear()

    def take(self, most: int = EVERY) -> News:
        """The next news, of at most `most` nodes. Those that are gone come before all others."""
        removed = list(islice(self._gone, most))
        changed = list(islice(self._changed, max(0, most - len(removed))))
        for at in removed:
            del self._gone[at], self._told[at]
        for at in changed:
            self._told[at] = self._changed.pop(at)
        return News(removed, changed)

    def tell(self, call: Callable[[str, list[int]], object], most: int = EVERY) -> bool:
        """Calls an export for each of the next news: `call` takes its name and indices. Returns whether that is all."""
        if not self.is_level:
            news = self.take(most)
            if news.removed:
                call("noderemoved", news.removed)
            if news.changed:
                call("nodechanged", news.changed)
        return self.is_level

    @property
    def is_level(self) -> bool:
        """Whether the guest knows all."""
        return not (self._gone or self._changed)
