"""What a guest logged and recorded, as the driver keeps it until the call is over."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from wasm_runtime import abi
from wasm_runtime.abi import Severity
from wasm_runtime.driver import layout
from wasm_runtime.engine import NO_JOURNAL, GuestEvent, GuestJournal, Log
from wasm_runtime.engines.wasmtime.memory import CallMemory

_RECORD: Final = struct.Struct("<IiIII")
"""Head of a record: kind, severity, length of the node's name, of the message and of its pairs."""


def take(memory: CallMemory) -> GuestJournal:
    """Takes what is there since this was last called."""
    header = memory.header
    if not (header.journal_length or header.journal_dropped):
        return NO_JOURNAL
    records = memory.read(header.journal, header.journal_length)
    journal = GuestJournal(list(_records(records)), header.journal_dropped)
    header.journal_length = header.journal_dropped = 0
    return journal


def _records(data: bytes) -> Iterator[Log | GuestEvent]:
    at = 0
    while at < len(data):
        kind, severity, *lengths = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        parts = []
        for length in lengths:
            parts.append(data[at : at + length])
            at += length
        node, message, pairs = parts
        if kind == layout.EVENT:
            yield GuestEvent(message)
        else:
            yield Log(
                Severity(min(max(severity, Severity.INFO), Severity.FATAL)),
                message.decode(errors="replace"),
                tuple(abi.split_names(pairs)),
                node.decode(errors="replace"),
            )
