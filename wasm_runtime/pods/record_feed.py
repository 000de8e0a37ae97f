"""Tells a guest of entries by records: which entries it knows, and which are still to be announced."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import compress, count, islice
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from wasm_runtime.feed import Feed

MAX_RECORDS_PER_BATCH: Final = 64
"""Records handed to the guest in one call."""

MAX_BATCH_BYTES: Final = 64 * 1024
"""Bytes of records handed over in one call. A record that is longer comes alone."""

# What a guest knows of a number: nothing, something that is replaced since then, or what it is.
NOTHING, OUTDATED, CURRENT = range(3)


class RecordBatch(NamedTuple):
    """Records for one call of the guest."""

    length: int
    """How many records there are."""
    records: bytes


AnnounceRecords = Callable[[str, RecordBatch, float], object]
"""Writes records into the guest's buffer and calls an export: its name, records, deadline (`time.monotonic`)."""

T = TypeVar("T")


class RecordFeed(Feed[AnnounceRecords], Generic[T]):
    """What one guest knows of the entries of a table, by their numbers.

    Of each number it keeps a byte. The table alone has the entries themselves, of which there may be 50,000.
    """

    max_per_batch = MAX_RECORDS_PER_BATCH
    subject: ClassVar[str]
    """What the entries are, for messages."""

    def __init__(self) -> None:
        self._known = bytearray()
        self._left: dict[int, T | None] = {}
        """The entries that are to be announced; None for one that is gone."""
        self._may_be_none = False
        """Whether the guest still has to be told that there are no entries."""
        self._has_told = False

    @abstractmethod
    def _record(self, number: int, entry: T | None) -> bytes:
        """What the guest is told of a number, in a multiple of 8 bytes."""

    def forget_table(self) -> None:
        """Marks all that the guest knows as gone, because another table takes the place of this one."""
        self._left = dict.fromkeys(compress(count(), self._known))

    def take(self, max_records: int = MAX_RECORDS_PER_BATCH) -> RecordBatch:
        """The next records, at most `max_records`. They count as announced from now on."""
        records: list[bytes] = []
        size = 0
        for number, entry in islice(self._left.items(), max_records):
            record = self._record(number, entry)
            size += len(record)
            if records and size > MAX_BATCH_BYTES:
                break
            records.append(record)
        for number in list(islice(self._left, len(records))):
            self._known[number] = NOTHING if self._left.pop(number) is None else CURRENT
        if not self._left:
            self._left = {}  # One that has had many entries keeps their room, and is slow to look through.
        return RecordBatch(len(records), b"".join(records))

    def tell(self, call: AnnounceRecords, deadline: float, most: int) -> None:
        """Hands over the next records, at most `most`, or no record at all to tell that there are no entries."""
        if not self.is_synced:
            self._has_told = True
            call(self.export, self.take(most), deadline)

    def _note(self, number: int, entry: T | None) -> None:
        """Notes what is to be told of a number; None if no entry has it any more."""
        if entry is not None or self._known[number]:
            self._left[number] = entry
        else:
            self._left.pop(number, None)

    def _make_room(self, entries: int) -> None:
        self._known.extend(bytes(max(0, entries - len(self._known))))

    def __str__(self) -> str:
        known = len(self._known) - self._known.count(NOTHING)
        new = sum(not self._known[number] for number in self._left)
        return f"{self.subject}: {known + new - len(self._left):,} of {known + new:,} are told"

    @property
    def is_synced(self) -> bool:
        """Whether the guest knows all as it is."""
        return not self._left and (self._has_told or not self._may_be_none)
