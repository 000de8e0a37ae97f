"""Pods and nodes as protobuf, from their JSON.

The table of `schema` is compiled into one encoder per message when this module is imported. An
encoder looks up each name it finds in a decoded JSON object; an object's unknown names cost a
lookup, a message's absent fields nothing. The table has no cycle and no value is looked into further
than it says, so that the recursion is bounded whatever the JSON's nesting.

The rules are those of Go's decoder for the API (sigs.k8s.io/json): names are case-sensitive, null is
like an absent field, and in a list or a map it is the zero value. An absent field
stays absent where Go would write a default: to a decoder both mean the same, and it is less to copy and to decode.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

from wasm_runtime.protobuf import scalar
from wasm_runtime.protobuf.errors import EncodeError, quote
from wasm_runtime.protobuf.fields_v1 import fields_v1
from wasm_runtime.protobuf.int_or_string import int_or_string
from wasm_runtime.protobuf.quantity import quantity
from wasm_runtime.protobuf.scalar import Encoder
from wasm_runtime.protobuf.schema import INLINE, MESSAGES, Field, Kind
from wasm_runtime.protobuf.timestamp import timestamp
from wasm_runtime.protobuf.varint import BYTES, VARINT, heads, tag


def encode_pod(pod: Mapping[str, Any]) -> bytes:
    """Encode a decoded v1 Pod as the message k8s.io.api.core.v1.Pod, without an envelope.

    Go's `Pod.Unmarshal` makes of the bytes, field for field, what it makes of the Pod that Go
    decodes from the same JSON and marshals. The bytes themselves are not those of Go: fields that
    are absent from the JSON are left out (Go writes zero values), and the others are in the
    order of the JSON.

    Args:
        pod: dicts, lists, str, int, float, bool and None, as JSON decoders return them; where
            `fieldsV1` is, a `msgspec.Raw` is taken too. Fields that the table does not know
            are skipped, `apiVersion` and `kind` among them (the envelope has those).

    Raises:
        EncodeError: a known field has a value that does not fit it.
    """
    return _encode_pod(_as_dict(pod))


def encode_node(node: Mapping[str, Any]) -> bytes:
    """Encode a decoded v1 Node as the message k8s.io.api.core.v1.Node, as `encode_pod` does a Pod.

    Raises:
        EncodeError: a known field has a value that does not fit it.
    """
    return _encode_node(_as_dict(node))


def _as_dict(value: Any) -> Any:
    """Make a dict of another mapping; what is no mapping is left to the encoder to refuse."""
    return value if isinstance(value, dict) or not isinstance(value, Mapping) else dict(value)


@cache
def _message(name: str) -> Encoder:
    """Make the encoder of a message's body, which is what follows its tag and length."""
    own = _object({field: _field(row) for field, row in MESSAGES[name].items()})
    inline = [scalar.message(number, _message(child)) for child, number in INLINE.get(name, {}).items()]
    if not inline:
        return own

    def encode(value: Any) -> bytes:
        return own(value) + b"".join([encode_inline(value) for encode_inline in inline])

    return encode


def _object(fields: dict[str, Encoder]) -> Encoder:
    """Make the encoder of an object from the encoders of its fields."""
    find = fields.get

    def encode(value: Any) -> bytes:
        if not isinstance(value, dict):
            raise EncodeError("an object", value)
        parts = []
        try:
            for name, item in value.items():
                encode_field = find(name)
                if encode_field is not None and item is not None:
                    parts.append(encode_field(item))
        except EncodeError as error:
            error.prepend(name)
            raise
        return b"".join(parts)

    return encode


def _field(row: Field) -> Encoder:
    """Make the encoder of a field from its row in the table."""
    number, shape, kind, message = row
    if shape == "list":
        return _list(_value(number, kind, message), _zero(number, kind))
    if shape == "map":
        return _map(number, _value(2, kind, message))
    return _value(number, kind, message)


def _value(number: int, kind: Kind, message: str) -> Encoder:
    """Make the encoder of one value, with the tag of the field *number*."""
    if kind == "message":
        return scalar.message(number, _message(message))
    return _SCALARS[kind](number)


_SCALARS: Final[dict[Kind, Callable[[int], Encoder]]] = {
    "string": scalar.string,
    "bool": scalar.boolean,
    "int32": partial(scalar.integer, bits=32),
    "int64": partial(scalar.integer, bits=64),
    "quantity": partial(scalar.message, body=quantity),
    "time": partial(scalar.message, body=timestamp),
    "int_or_string": partial(scalar.message, body=int_or_string),
    "fields_v1": partial(scalar.message, body=fields_v1),
}
"""Per kind of the table: what makes the encoder of a field with a given number."""


def _list(encode_item: Encoder, zero: bytes) -> Encoder:
    """Make the encoder of a list: the field once per item."""

    def encode(value: Any) -> bytes:
        if not isinstance(value, list):
            raise EncodeError("a list", value)
        parts: list[bytes] = []
        try:
            for item in value:
                parts.append(zero if item is None else encode_item(item))
        except EncodeError as error:
            error.prepend(f"[{len(parts)}]")
            raise
        return b"".join(parts)

    return encode


def _zero(number: int, kind: Kind) -> bytes:
    """Encode the zero value of a list's item: the number 0, false, or no bytes."""
    wire_type = VARINT if kind in ("bool", "int32", "int64") else BYTES
    return heads(tag(number, wire_type))[0]


def _map(number: int, encode_value: Encoder) -> Encoder:
    """Make the encoder of a map: per item, the field as a message {1: key, 2: value}."""
    encode_key = scalar.string(1)
    encode_entry = scalar.message(number, bytes)

    def encode(value: Any) -> bytes:
        if not isinstance(value, dict):
            raise EncodeError("an object", value)
        parts = []
        try:
            for key, item in value.items():
                entry = encode_key(key)
                parts.append(encode_entry(entry if item is None else entry + encode_value(item)))
        except EncodeError as error:
            error.prepend(f"[{quote(key)}]")
            raise
        return b"".join(parts)

    return encode


_encode_pod: Final = _message("Pod")
_encode_node: Final = _message("Node")
