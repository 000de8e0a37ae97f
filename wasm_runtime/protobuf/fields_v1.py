"""Field sets of managed fields (`metav1.FieldsV1` of k8s.io/apimachinery): message {1: JSON text}."""

from typing import Any

import msgspec

from wasm_runtime.protobuf import scalar
from wasm_runtime.protobuf.errors import EncodeError

_json = scalar.message(1, bytes)
_encode_json = msgspec.json.Encoder().encode


def fields_v1(value: Any) -> bytes:
    """Encode any JSON: a `msgspec.Raw` as it is, a decoded value written anew without spaces.

    Raises:
        EncodeError: *value* cannot be written as JSON.
    """
    if isinstance(value, msgspec.Raw):
        return _json(value)
    try:
        return _json(_encode_json(value))
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise EncodeError("a value that JSON can hold", value) from None
