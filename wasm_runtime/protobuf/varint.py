"""Base-128 varints, and the tags and lengths of the wire format that are made of them.

https://protobuf.dev/programming-guides/encoding/
"""

from functools import cache
from typing import Final

VARINT: Final = 0
"""Wire type of integers and booleans."""

BYTES: Final = 2
"""Wire type of strings, messages and map entries: a length, then as many bytes."""

SHORT: Final = 0x80
"""Numbers from 0 up to this one, exclusive, are varints of one byte."""

_UINT64: Final = (1 << 64) - 1


def varint(number: int) -> bytes:
    """Encode an integer of 64 bits in 1 to 10 bytes; a negative one takes 10."""
    number &= _UINT64
    groups = []
    while number >= SHORT:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def tag(field: int, wire_type: int) -> bytes:
    """Encode what precedes each value of the field number *field*."""
    return varint(field << 3 | wire_type)


@cache
def heads(field_tag: bytes) -> tuple[bytes, ...]:
    """List *field_tag* followed by each varint of one byte.

    Most lengths and numbers are that small, and an index is much faster than a call of `varint`.
    """
    return tuple(field_tag + bytes((number,)) for number in range(SHORT))
