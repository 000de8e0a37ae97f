"""Encoders of fields that hold a string, a boolean, an integer or a message.

Each function takes the number of a field and makes its encoder: a function from a decoded
JSON value to the field's bytes (tag and value), which raises `EncodeError`.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from wasm_runtime.protobuf.errors import EncodeError
from wasm_runtime.protobuf.varint import BYTES, SHORT, VARINT, heads, tag, varint

Encoder: TypeAlias = Callable[[Any], bytes]


def string(number: int) -> Encoder:
    """Encode strings, as UTF-8."""
    field_tag = tag(number, BYTES)
    short = heads(field_tag)

    def encode(value: Any) -> bytes:
        if not isinstance(value, str):
            raise EncodeError("a string", value)
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise EncodeError("a string without lone surrogates", value) from None
        size = len(data)
        return short[size] + data if size < SHORT else field_tag + varint(size) + data

    return encode


def boolean(number: int) -> Encoder:
    """Encode booleans."""
    false, true = heads(tag(number, VARINT))[:2]

    def encode(value: Any) -> bytes:
        if value is True:
            return true
        if value is False:
            return false
        raise EncodeError("a boolean", value)

    return encode


def integer(number: int, bits: int) -> Encoder:
    """Encode signed integers of *bits* bits. As in Go, 1.0 is none."""
    field_tag = tag(number, VARINT)
    short = heads(field_tag)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    expected = f"an integer of {bits} bits"

    def encode(value: Any) -> bytes:
        # A bool is an int to isinstance.
        if type(value) is not int or not low <= value <= high:
            raise EncodeError(expected, value)
        return short[value] if 0 <= value < SHORT else field_tag + varint(value)

    return encode


def message(number: int, body: Encoder) -> Encoder:
    """Encode messages: what *body* makes of the value, after its length."""
    field_tag = tag(number, BYTES)
    short = heads(field_tag)

    def encode(value: Any) -> bytes:
        data = body(value)
        size = len(data)
        return short[size] + data if size < SHORT else field_tag + varint(size) + data

    return encode
