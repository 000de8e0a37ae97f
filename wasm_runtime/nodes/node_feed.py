"""What a guest has been told of the nodes, and what it has yet to be told."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from wasm_runtime.errors import Fault, GuestError
from wasm_runtime.nodes.node_table import ABSENT, Changes

EVERY: Final = 1 << 62
"""No bound for a number of nodes."""

AT_A_TIME: Final = 16
"""Nodes that a guest is told of in one go: some milliseconds even where each is decoded in full."""

Tell = Callable[[str, list[int], float], object]
"""Calls an export of the guest for each node, by index, until a deadline."""


class News(NamedTuple):
    """What a guest is to be told next, by index: first of the nodes that are gone, then of those that changed."""

    removed: list[int]
    changed: list[int]


class Residents:
    """The nodes that one guest keeps, each by the node table's index.

    A node that has again the object that the guest knows is no news; one whose index is another name's now is
    first gone.
    """

    def __init__(self) -> None:
        self._told: dict[int, tuple[str, bytes]] = {}
        self._gone: dict[int, None] = {}
        self._changed: dict[int, tuple[str, bytes]] = {}

    def note(self, changes: Changes) -> None:
        """Takes in changes of the node table."""
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
        """Makes all that the guest knows gone: another node table takes the place of this one."""
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

    def tell(self, call: Tell, deadline: float, most: int) -> bool:
        """Tells the guest the next news, of at most `most` nodes. Returns whether that is all.

        Raises GuestError, always a fatal one: nobody knows then what the guest has been told.
        """
        news = self.take(most)
        try:
            if news.removed:
                call("noderemoved", news.removed, deadline)
            if news.changed:
                call("nodechanged", news.changed, deadline)
        except GuestError as error:
            error.fatal = True
            raise
        return self.is_level

    def tell_all(self, call: Tell, deadline: float, timeout: float) -> None:
        """Tells the guest all news, a few nodes at a time, for each of which it has a timeout in seconds.

        Raises GuestError: a fatal one if that fails, one that is not when the deadline has come in between.
        """
        while not self.is_level:
            self.tell(call, time.monotonic() + timeout, AT_A_TIME)
            if time.monotonic() >= deadline:
                raise GuestError(Fault.BUSY, "nodechanged", f"its time was over while it learned of nodes: {self}")

    def __str__(self) -> str:
        known = len(self._told.keys() | self._changed.keys())
        left = len(self._gone.keys() | self._changed.keys())
        return f"{known - left:,} of {known:,} are told"

    @property
    def is_level(self) -> bool:
        """Whether the guest knows all."""
        return not (self._gone or self._changed)
