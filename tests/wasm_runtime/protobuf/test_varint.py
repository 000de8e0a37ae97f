"""Varints, against the examples of the encoding's documentation and its limits."""

import pytest

from wasm_runtime.protobuf.varint import BYTES, VARINT, heads, tag, varint


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "80 01"),
        (150, "96 01"),
        (16_384, "80 80 01"),
        (2**63 - 1, "ff ff ff ff ff ff ff ff 7f"),
        (2**64 - 1, "ff ff ff ff ff ff ff ff ff 01"),
        (-1, "ff ff ff ff ff ff ff ff ff 01"),
        (-2, "fe ff ff ff ff ff ff ff ff 01"),
        (-(2**63), "80 80 80 80 80 80 80 80 80 01"),
    ],
)
def test_varint(number: int, data: str) -> None:
    assert varint(number) == bytes.fromhex(data)


def test_tag() -> None:
    assert tag(1, VARINT) == b"\x08"
    assert tag(2, BYTES) == b"\x12"
    assert tag(16, BYTES) == b"\x82\x01"


def test_heads_are_a_tag_and_a_small_number() -> None:
    assert heads(b"\x82\x01") == tuple(b"\x82\x01" + varint(number) for number in range(128))
