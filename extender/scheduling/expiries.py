"""Which entries of the ledger end by themselves, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

from extender.scheduling.ledger_entry import PLANS, Entry
from wasm_runtime.engine import MEBIBYTE

MAX_PLANS_BYTES: Final = 64 * MEBIBYTE
"""What plans may take; beyond it those end that would expire first."""


class Expiries:
    """Which entries are to end next. Whoever calls anything has the ledger's lock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        """Times and UIDs. An entry that has another expiry by now is still found at the earlier one."""
        self._bytes = 0
        """What all plans take."""

    def note(self, uid: str, before: Entry | None, after: Entry | None) -> None:
        """Takes note that the entry of a pod has changed; None is a pod without an entry."""
        self._bytes += (after.size if after else 0) - (before.size if before else 0)
        if after and after.is_tentative:
            heappush(self._heap, (after.expires, uid))

    def clear(self) -> None:
        """Takes note that no pod has an entry any more."""
        self._heap.clear()
        self._bytes = 0

    def due(self, now: float, entries: Mapping[str, Entry]) -> Iterator[tuple[str, Entry]]:
        """The UIDs and entries whose time is over, then plans for as long as all plans together take too much.

        The one that would expire first comes first. Each has to end or get a later expiry, of which `note` is told,
        before the next is asked for.
        """
        kept = []
        while self._heap and (self._heap[0][0] <= now or self._bytes > MAX_PLANS_BYTES):
            expires, uid = heappop(self._heap)
            entry = entries.get(uid)
            if entry is None or entry.expires != expires:
                continue
            if expires <= now or entry.state in PLANS:
                yield uid, entry
            else:
                kept.append((expires, uid))
        for each in kept:
            heappush(self._heap, each)
