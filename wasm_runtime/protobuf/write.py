"""Protobuf bytes written without a schema: the counterpart of `wasm_runtime.protobuf.read.fields`."""

from __future__ import annotations

from wasm_runtime.protobuf.varint import BYTES, tag, varint


def field(number: int, wire_type: int, value: int | bytes) -> bytes:
    """A field of a message, of a value as `fields` has it."""
    head = tag(number, wire_type)
    if isinstance(value, int):
        return head + varint(value)
    return head + (varint(len(value)) if wire_type == BYTES else b"") + value
