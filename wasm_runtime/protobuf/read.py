"""Protobuf bytes read without a schema: the fields of a message, the identity of an object.

https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from wasm_runtime.protobuf.errors import DecodeError
from wasm_runtime.protobuf.varint import BYTES, SHORT, VARINT

_FIXED_SIZES: Final = {1: 8, 5: 4}
"""Bytes of a value, per wire type of a fixed size."""

_MAX_VARINT_BYTES: Final = 10
_UINT64: Final = (1 << 64) - 1
_MAX_FIELD_NUMBER: Final = (1 << 29) - 1

_METADATA: Final = 1
_IDENTITY: Final = {1: "name", 3: "namespace", 5: "uid", 6: "resource_version"}
"""Field numbers of ObjectMeta (k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto)."""


class Identity(NamedTuple):
    """What tells an object from others, and a version of it from its other versions."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


def identity(data: bytes) -> Identity:
    """Read the identity from an object, given as a bare message; absent parts are "".

    Every kind of the API that has metadata has it in field 1.

    Raises:
        DecodeError: *data* is no message, or none with an ObjectMeta in field 1.
    """
    found = {}
    for number, wire_type, metadata in fields(data):
        if number == _METADATA:
            for inner, inner_type, value in fields(as_bytes(number, wire_type, metadata)):
                if inner in _IDENTITY:
                    found[_IDENTITY[inner]] = as_text(inner, inner_type, value)
    return Identity(**found)


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Iterate over the fields of a message, in the order of the bytes.

    This is enough to open envelopes: runtime.Unknown {2: raw}, WatchEvent {1: type, 2: object},
    RawExtension {1: raw} and lists {1: metadata, 2: one item, as often as there are items}.

    Yields:
        The field's number, its wire type and its value: an unsigned integer of wire type 0, or
        the bytes of any other (for wire type 2 without their length).

    Raises:
        DecodeError: *data* is no message, or has a group (no API of Kubernetes does).
    """
    at, end = 0, len(data)
    while at < end:
        key, at = (data[at], at + 1) if data[at] < SHORT else _varint(data, at)
        number, wire_type = key >> 3, key & 7
        if not 0 < number <= _MAX_FIELD_NUMBER:
            raise DecodeError(f"field number {number} before byte {at}")
        if wire_type == VARINT:
            value, at = _varint(data, at)
            yield number, wire_type, value
        else:
            size, start = _varint(data, at) if wire_type == BYTES else (_fixed_size(wire_type, at), at)
            at = start + size
            if at > end:
                raise DecodeError(f"{size} bytes are due from byte {start} on, {end - start} are there")
            yield number, wire_type, data[start:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a varint; return it and where it ends."""
    if at < len(data) and data[at] < SHORT:
        return data[at], at + 1
    number = 0
    for index, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < SHORT:
            return number & _UINT64, at + index + 1
    raise DecodeError(f"no end of the varint at byte {at}")


def _fixed_size(wire_type: int, at: int) -> int:
    """Return how many bytes a value has by its wire type."""
    if wire_type not in _FIXED_SIZES:
        raise DecodeError(f"wire type {wire_type} before byte {at}")
    return _FIXED_SIZES[wire_type]


def as_bytes(number: int, wire_type: int, value: int | bytes) -> bytes:
    """Check that the value of a field, as `fields` has it, is bytes. Raises DecodeError."""
    if wire_type != BYTES or isinstance(value, int):
        raise DecodeError(f"field {number} has wire type {wire_type}, not {BYTES}")
    return value


def as_text(number: int, wire_type: int, value: int | bytes) -> str:
    """Check that the value of a field, as `fields` has it, is text, and decode it. Raises DecodeError."""
    try:
        return as_bytes(number, wire_type, value).decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"field {number} is no UTF-8: {error.reason}") from None
