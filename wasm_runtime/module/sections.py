"""What a module says of itself beside its code: custom sections, and the limits of its memory.

Source: https://webassembly.github.io/spec/core/binary/modules.html
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from wasm_runtime.module.binary import PREAMBLE, BinaryReader

PAGE: Final = 64 * 1024
"""Bytes of a page of memory."""

MAX_PRODUCERS_BYTES: Final = 16 * 1024
"""Bytes of a producers section that is read. Compilers write some 200."""

_CUSTOM, _IMPORTS, _MEMORIES, _EXPORTS = 0, 2, 5, 7
_HAS_MAXIMUM, _HAS_PAGE_SIZE = 1, 8


class Limits(NamedTuple):
    """How large a memory may be, in pages."""

    minimum: int
    maximum: int | None


def custom_sections(wasm: bytes) -> Mapping[str, bytes]:
    """The contents of the custom sections of a valid module, which may hold anything. Of two of one name the first."""
    found: dict[str, bytes] = {}
    reader = BinaryReader(wasm, PREAMBLE)
    for section, length in reader.sections():
        if section == _CUSTOM:
            end = reader.at + length
            found.setdefault(reader.text(), wasm[reader.at : end])
    return found


def producers(section: bytes) -> Mapping[str, Mapping[str, str]]:
    """The versions of what has made a module, by field and name. Nothing of a section that is malformed or too large.

    Source: https://github.com/WebAssembly/tool-conventions/blob/main/ProducersSection.md
    """
    reader = BinaryReader(section, 0)
    try:
        fields = reader.vector(partial(_field, reader)) if len(section) <= MAX_PRODUCERS_BYTES else []
    except (IndexError, UnicodeDecodeError):
        return {}
    return {name: dict(versions) for name, versions in fields} if reader.at <= len(section) else {}


def memory(wasm: bytes, name: str) -> Limits | None:
    """The limits of the memory that a valid module exports by a name; None if it has none of its own there."""
    imported = 0
    own: list[Limits] = []
    reader = BinaryReader(wasm, PREAMBLE)
    for section, _ in reader.sections():
        if section == _IMPORTS:
            imported = sum(kind == "memory" for _, kind, _ in reader.vector(reader.imported))
        elif section == _MEMORIES:
            own = reader.vector(partial(_limits, reader))
        elif section == _EXPORTS:
            for exported, kind, index in reader.vector(reader.exported):
                if (exported, kind) == (name, "memory") and index >= imported:
                    return own[index - imported]
    return None


def _field(reader: BinaryReader) -> tuple[str, list[tuple[str, str]]]:
    return reader.text(), reader.vector(lambda: (reader.text(), reader.text()))


def _limits(reader: BinaryReader) -> Limits:
    flags, minimum = reader.byte(), reader.number()
    maximum = reader.number() if flags & _HAS_MAXIMUM else None
    if flags & _HAS_PAGE_SIZE:
        reader.number()
    return Limits(minimum, maximum)
