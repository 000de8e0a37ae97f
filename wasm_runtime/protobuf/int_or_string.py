"""Ports by number or name (`intstr.IntOrString` of k8s.io/apimachinery).

Message {1: type, 2: number, 3: string}; the type is 0 for a number and 1 for a string.
"""

from typing import Any

from wasm_runtime.protobuf import scalar
from wasm_runtime.protobuf.errors import EncodeError

_type = scalar.integer(1, 32)
_number = scalar.integer(2, 32)
_string = scalar.string(3)

_STRING = _type(1)


def int_or_string(value: Any) -> bytes:
    """Encode an integer of 32 bits or a string.

    Raises:
        EncodeError: *value* is neither.
    """
    if isinstance(value, str):
        return _STRING + _string(value)
    if isinstance(value, int):
        return _number(value)
    raise EncodeError("an integer or a string", value)
