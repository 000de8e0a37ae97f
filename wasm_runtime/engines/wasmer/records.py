"""What a guest says beside its answers, within bounds: reasons, log lines, Events and what it prints."""

from __future__ import annotations

from typing import Final

from wasm_runtime.driver.layout import REASON_LIMIT, REASON_ROOM
from wasm_runtime.engine import NO_JOURNAL, GuestEvent, GuestJournal, Log

LEFT_OUT: Final = "(left out: the reasons of this call are longer than their limit)"

RECORD_HEAD_BYTES: Final = 20
"""Bytes that a record takes beside its texts."""


class Reasons:
    """The reasons that a guest gives in one call of the host, which may be for many nodes."""

    def __init__(self) -> None:
        self._room = self._used = self._most = 0
        self._numbered: list[str] = []
        self._given: bytes | None = None
        self._kept: bytes | None = None
        self._is_left_out = False

    def begin(self, room: int) -> None:
        """Forgets all reasons. `room` is how many bytes may be kept, each reason's length of 4 included."""
        self._room, self._used, self._most = room, 0, 0
        self._numbered.clear()
        self._kept = None
        self.expect()

    def number(self, most: int) -> None:
        """Keeps at most so many of the reasons to come as they are given, each with a number."""
        self._most = most

    def expect(self) -> None:
        """Begins a call of the guest: no reason is given yet."""
        self._given = None
        self._is_left_out = False

    def give(self, reason: bytes) -> None:
        """Takes a reason, in the place of one given before."""
        self._is_left_out = self._used + REASON_ROOM > self._room
        self._given = None if self._is_left_out else reason[:REASON_LIMIT]
        if len(self._numbered) < self._most:
            self._numbered.append(self.text())
            if self._given is not None:
                self._use(self._given)

    def text(self) -> str:
        """The reason that was given last."""
        return LEFT_OUT if self._is_left_out else (self._given or b"").decode(errors="replace")

    def keep(self) -> str:
        """The same, and uses room for it; one that repeats the one kept before it uses none."""
        if self._given is not None and self._given != self._kept:
            self._kept = self._given
            self._use(self._given)
        return self.text()

    def of(self, number: int) -> str:
        """The reason that got a number, from 1 on; empty if none did."""
        return self._numbered[number - 1] if 0 < number <= len(self._numbered) else ""

    def _use(self, reason: bytes) -> None:
        self._used = (self._used + len(reason) + 7) & -4


class Records:
    """Log lines and Events until they are read; one for which there is no room is counted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._records: list[Log | GuestEvent] = []
        self._dropped = 0

    def claim(self, length: int) -> bool:
        """Takes room for a record with that many bytes of text. False if there is none: the record is counted."""
        used = self._used + RECORD_HEAD_BYTES + length
        if used > self._limit:
            self._dropped += 1
            return False
        self._used = used
        return True

    def add(self, record: Log | GuestEvent) -> None:
        """Keeps a record that has its room."""
        self._records.append(record)

    def take(self) -> GuestJournal:
        """What was kept since this was last asked."""
        if not (self._records or self._dropped):
            return NO_JOURNAL
        journal = GuestJournal(self._records, self._dropped)
        self._records, self._used, self._dropped = [], 0, 0
        return journal


class PrintedOutput:
    """The beginning of what a guest prints in one call."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._printed = bytearray()

    def clear(self) -> None:
        """Begins a call."""
        self._printed.clear()

    @property
    def room(self) -> int:
        """Bytes that are still kept."""
        return self._limit - len(self._printed)

    def add(self, data: bytes) -> None:
        """Keeps what was printed: not more than there is room for."""
        self._printed += data

    def __str__(self) -> str:
        return self._printed.decode(errors="replace")
