"""Where things are in the driver's memories; the driver's text is made from these numbers."""

from __future__ import annotations

import ctypes
import struct
from typing import Final

from wasm_runtime.abi import HostDocument

U32 = ctypes.c_uint32

NONE: Final = 0xFFFF_FFFF
"""No node; or a reason for which there was no room."""
NO_ROOM: Final = 0xFFFF_FFFE
"""Instead of a number of nodes: the guest's buffer is not in its memory."""


class Header(ctypes.LittleEndianStructure):
    """What the host and the driver tell each other, at the start of the call memory.

    Addresses are in the call memory but for `slots`, which is one in the snapshot memory, 0 while there is
    no index. Lengths are in bytes. What is about one call begins with `current`. The entries from `lent` to before
    `lent_end` are there for that call only, beyond the table and in no index.
    """

    _fields_ = (
        ("reserved", U32),
        ("pod", U32),
        ("pod_length", U32),
        ("config", U32),
        ("config_length", U32),
        ("severity", U32),
        ("live", U32),
        ("slots", U32),
        ("slot_mask", U32),
        ("output", U32),
        ("output_limit", U32),
        ("output_length", U32),
        ("journal", U32),
        ("journal_limit", U32),
        ("journal_length", U32),
        ("journal_dropped", U32),
        ("current", U32),
        ("target", U32),
        ("target_length", U32),
        ("reason", U32),
        ("reasons", U32),
        ("reasons_end", U32),
        ("numbered", U32),
        ("numbered_limit", U32),
        ("numbered_count", U32),
        ("data_absent", U32),
        ("failures", U32),
        ("refused", ctypes.c_int32),
        ("lent", U32),
        ("lent_end", U32),
        ("documents", U32),
        ("document_lengths", U32),
        ("more_documents", U32 * (2 * len(HostDocument) - 2)),
    )

    pod: int
    pod_length: int
    target: int
    target_length: int
    config: int
    config_length: int
    severity: int
    current: int
    live: int
    slots: int
    slot_mask: int
    data_absent: int
    failures: int
    refused: int
    lent: int
    lent_end: int
    reason: int
    reasons: int
    reasons_end: int
    numbered: int
    numbered_limit: int
    numbered_count: int
    output: int
    output_limit: int
    output_length: int
    journal: int
    journal_limit: int
    journal_length: int
    journal_dropped: int


DOCUMENTS: Final = Header.documents.offset // 4
"""The place of the first (address, length) pair of documents, counted in u32."""

CALL: Final[int] = vars(Header)["current"].offset
"""Where in the header begins what is about one call."""
CALL_HEAD: Final = struct.Struct(f"<6I{ctypes.sizeof(Header) - CALL - 24}x")
"""That part before a call: `current` to `reasons_end`, and zeros."""

UNREADABLE: Final = 256
NULL: Final = 296
HEAP: Final = 512
"""Where the host puts what the instance needs, then what a cycle needs, then what a call needs."""

REASON_LIMIT: Final = 4_096
"""Bytes kept of a status reason."""
REASON_ROOM: Final = 4 + REASON_LIMIT

LOG: Final = 0
EVENT: Final = 1
"""Kinds of the journal's records."""

TABLE: Final = 16
"""Start of the table of nodes in the snapshot memory."""
ENTRY: Final = 24
"""Bytes of an entry: u32 address and length of the node's name, of its object and of its image states."""
PAGE: Final = 65_536
