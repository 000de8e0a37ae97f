"""The table of `schema` as convert.zig reads it: records of fixed sizes that point at each other."""

import struct
from typing import Final, get_args

from wasm_runtime.protobuf.schema import INLINE, MESSAGES, Kind, Shape

_FIELD: Final = struct.Struct("<IIBBBB")
"""Address of the name, of the message or 0, length of the name, number, shape, kind."""

_INLINED: Final = struct.Struct("<II")
"""Address of the message, number."""

_MESSAGE: Final = struct.Struct("<IIIBBxx")
"""Addresses of slots, fields and inlined messages, 2's logarithm of the number of slots, number of inlined messages."""

_EMPTY: Final = 0xFF
"""A slot without a field."""

_WORD: Final = 8
"""Bytes that are compared at a time: as many may be read behind a name."""

_SHAPES: Final = get_args(Shape)
_KINDS: Final = get_args(Kind)


def pack(base: int) -> tuple[bytes, dict[str, int]]:
    """The table for the address *base*, a multiple of 4, and the address of each message in it."""
    addresses = {name: base + at * _MESSAGE.size for at, name in enumerate(MESSAGES)}
    records = bytearray()
    rest = bytearray()
    start = base + len(MESSAGES) * _MESSAGE.size

    def put(data: bytes) -> int:
        at = start + len(rest)
        rest.extend(data.ljust(-(-len(data) // 4) * 4, b"\0"))
        return at

    for message, fields in MESSAGES.items():
        names = [name.encode() for name in fields]
        begins = [put(name) for name in names]
        rows = [
            _FIELD.pack(begin, addresses.get(child, 0), len(name), number, _SHAPES.index(shape), _KINDS.index(kind))
            for begin, name, (number, shape, kind, child) in zip(begins, names, fields.values(), strict=True)
        ]
        inlined = [_INLINED.pack(addresses[child], number) for child, number in INLINE.get(message, {}).items()]
        slots = _slots(names)
        places = [put(slots), put(b"".join(rows)), put(b"".join(inlined))]
        records += _MESSAGE.pack(*places, len(slots).bit_length() - 1, len(inlined))
    put(bytes(_WORD))
    return bytes(records + rest), addresses


def _slots(names: list[bytes]) -> bytes:
    """A hash index: per slot the place of a name among *names*; if its slot is taken, it is in the next free one."""
    bits = max(1, (2 * len(names) - 1).bit_length())
    slots = bytearray([_EMPTY]) * (1 << bits)
    for at, name in enumerate(names):
        slot = _hash(name) >> 64 - bits
        while slots[slot] != _EMPTY:
            slot = (slot + 1) % len(slots)
        slots[slot] = at
    return bytes(slots)


def _hash(name: bytes) -> int:
    """64 bits, as `hash` of convert.zig has them."""
    first = int.from_bytes(name[:_WORD], "little")
    last = int.from_bytes(name[-_WORD:], "little") if len(name) >= _WORD else 0
    return (first + last * 3 + len(name)) * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF
