"""A module's start section, put off: wasmer runs it before it tells anyone where the guest's memory is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wasm_runtime.module.binary import PREAMBLE, BinaryReader
from wasm_runtime.protobuf.varint import varint

EXPORT: Final = "kwx-start"
"""The export by which the function of the section can be called."""

_EXPORTS, _START = 7, 8
_FUNCTION: Final = b"\0"


def put_off(wasm: bytes) -> bytes:
    """A valid module without its start section, if it has one, and with an export instead."""
    start = next((content for section, content in _sections(wasm) if section == _START), None)
    if start is None:
        return wasm
    export = _sized(EXPORT.encode()) + _FUNCTION + start
    parts = [wasm[:PREAMBLE]]
    for section, content in _sections(wasm):
        if section != _START:
            parts += [bytes([section]), _sized(_appended(content, export) if section == _EXPORTS else content)]
    return b"".join(parts)


def _sections(wasm: bytes) -> Iterator[tuple[int, bytes]]:
    """Each section's number and content."""
    reader = BinaryReader(wasm, PREAMBLE)
    return ((section, wasm[reader.at : reader.at + length]) for section, length in reader.sections())


def _appended(vector: bytes, item: bytes) -> bytes:
    reader = BinaryReader(vector, 0)
    count = reader.number()
    return varint(count + 1) + vector[reader.at :] + item


def _sized(content: bytes) -> bytes:
    return varint(len(content)) + content
