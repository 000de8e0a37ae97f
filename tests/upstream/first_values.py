"""Guests whose answer is the value of a global: upstream's tests set it in an instance, here it begins with it."""

from collections.abc import Mapping

from wasm_runtime.protobuf.varint import varint

_ZERO = b"\x7f\x01\x41\x00\x0b"
"""A global of the binary format: mutable i32, first value `i32.const 0`."""
_SECTION = b"\x06"
_KIND = b"\x03"


def with_globals(wasm: bytes, values: Mapping[str, int]) -> bytes:
    """The module with first values of globals. Each is exported as its name and `_global`, and was 0."""
    if not values:
        return wasm
    globals_ = [_ZERO] * wasm.count(_ZERO)
    old = _section(globals_)
    for name, value in values.items():
        exported = f"{name}_global".encode() + _KIND
        assert wasm.count(exported) == 1
        globals_[wasm[wasm.index(exported) + len(exported)]] = b"\x7f\x01\x41%b\x0b" % _signed(value)
    assert wasm.count(old) == 1
    return wasm.replace(old, _section(globals_))


def _section(globals_: list[bytes]) -> bytes:
    content = varint(len(globals_)) + b"".join(globals_)
    return _SECTION + varint(len(content)) + content


def _signed(value: int) -> bytes:
    """A signed LEB128 of 32 bits, in all the bytes that it may have."""
    return bytes([*(value >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)), value >> 28 & 0x7F])
