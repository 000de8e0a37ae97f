"""Fields and identities are read from well-formed bytes; all others are a DecodeError."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_runtime.protobuf import DecodeError, encode_node, encode_pod, fields, identity
from wasm_runtime.protobuf.read import Identity
from wasm_runtime.protobuf.varint import varint

POD = encode_pod(
    {
        "metadata": {
            "name": "web-1",
            "generateName": "web-",
            "namespace": "shop",
            "uid": "0b8f9a3e",
            "resourceVersion": "184467",
            "generation": 300,
            "creationTimestamp": "2026-02-28T23:59:59Z",
            "labels": {"name": "not this one"},
            "annotations": {"long": "x" * 300},
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    }
)


def test_identity_of_a_pod() -> None:
    assert identity(POD) == Identity(name="web-1", namespace="shop", uid="0b8f9a3e", resource_version="184467")


def test_what_is_absent_is_empty() -> None:
    assert identity(b"") == Identity("", "", "", "")
    assert identity(encode_node({"metadata": {"name": "node-1"}})) == Identity(name="node-1")


def test_the_last_value_of_a_field_counts() -> None:
    """Protobuf lets a writer repeat fields; parts of a message are merged."""
    first, second = (encode_pod({"metadata": {"name": name, "uid": "u"}}) for name in "ab")
    third = encode_pod({"metadata": {"resourceVersion": "2"}})
    assert identity(first + second + third) == Identity(name="b", uid="u", resource_version="2")


def test_fields_of_every_wire_type() -> None:
    data = b"\x08\x96\x01" + b"\x12\x03abc" + b"\x19" + b"8" * 8 + b"\x25" + b"4" * 4
    assert list(fields(data)) == [(1, 0, 150), (2, 2, b"abc"), (3, 1, b"8" * 8), (4, 5, b"4" * 4)]


def test_fields_of_a_list_envelope() -> None:
    items = [encode_node({"metadata": {"name": f"node-{index}"}}) for index in range(3)]
    data = b"\x0a\x00" + b"".join(b"\x12" + varint(len(item)) + item for item in items)
    assert [identity(item).name for number, _, item in fields(data) if number == 2 and isinstance(item, bytes)] == [
        "node-0",
        "node-1",
        "node-2",
    ]


def test_numbers_are_unsigned_and_of_64_bits() -> None:
    assert list(fields(b"\x08" + varint(-1))) == [(1, 0, 2**64 - 1)]
    assert list(fields(b"\x08" + b"\xff" * 9 + b"\x7f")) == [(1, 0, 2**64 - 1)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x08", "no end of the varint at byte 1"),
        (b"\x08\x80", "no end of the varint at byte 1"),
        (b"\x80", "no end of the varint at byte 0"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "no end of the varint at byte 1"),
        (b"\x12\x05abc", "5 bytes are due from byte 2 on, 3 are there"),
        (b"\x12" + varint(2**64 - 1), "18446744073709551615 bytes are due from byte 11 on, 0 are there"),
        (b"\x12", "no end of the varint at byte 1"),
        (b"\x09" + b"8" * 7, "8 bytes are due from byte 1 on, 7 are there"),
        (b"\x0d" + b"4" * 3, "4 bytes are due from byte 1 on, 3 are there"),
        (b"\x0b\x0c", "wire type 3 before byte 1"),
        (b"\x0f", "wire type 7 before byte 1"),
        (b"\x00\x00", "field number 0 before byte 1"),
        (varint(1 << 32) + b"\x00", "field number 536870912 before byte 5"),
    ],
)
def test_bytes_that_are_no_message(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as raised:
        list(fields(data))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x08\x01", "field 1 has wire type 0, not 2"),
        (b"\x0a\x02\x08\x01", "field 1 has wire type 0, not 2"),
        (b"\x0a\x03\x0a\x01\xff", "field 1 is no UTF-8: invalid start byte"),
        (b"\x0a\x02\x0a\x01", "1 bytes are due from byte 2 on, 0 are there"),
    ],
)
def test_messages_that_are_no_object(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as raised:
        identity(data)
    assert str(raised.value) == message


def test_a_pod_cut_anywhere_is_refused_or_has_less() -> None:
    """Between two fields, what is left is a message."""
    whole = identity(POD)
    for size in range(len(POD)):
        try:
            assert identity(POD[:size]) in (whole, Identity())
        except DecodeError:
            continue


@given(st.binary())
def test_no_other_exception(data: bytes) -> None:
    for read in (identity, lambda data: list(fields(data))):
        read_or_refuse(read, data)


@given(st.binary(min_size=1, max_size=8), st.integers(0, len(POD)))
def test_no_other_exception_for_damaged_pods(damage: bytes, at: int) -> None:
    read_or_refuse(identity, POD[:at] + damage + POD[at + len(damage) :])


def read_or_refuse(read: Any, data: bytes) -> None:
    try:
        read(data)
    except DecodeError as error:
        assert str(error)
