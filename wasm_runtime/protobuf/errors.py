"""What can be wrong with an object: its JSON (`EncodeError`) or its protobuf bytes (`DecodeError`)."""

import json
from typing import Any, Final

_MAX_EXCERPT_CHARS: Final = 64
_MAX_INTEGER_BITS: Final = 128


class EncodeError(ValueError):
    """A field that the API knows holds what the API's type cannot hold.

    As text: `spec.containers[0].image: expected a string, got 7`.

    Attributes:
        path: where, from the root, such as `metadata.labels["app"]`; "" is the object itself.
        expected: what the API's type can hold, such as `a string`.
        got: the value as JSON, shortened; of a list or an object only that it is one.
    """

    def __init__(self, expected: str, value: Any) -> None:
        """Say what was expected instead of *value*; each level above it prepends its step."""
        self.path = ""
        self.expected = expected
        self.got = _excerpt(value)
        super().__init__(expected, self.got)

    def prepend(self, step: str) -> None:
        """Put a step before the path: `name` of a field, `[0]` of a list or `["key"]` of a map."""
        separator = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{step}{separator}{self.path}"

    def __str__(self) -> str:
        """Say where, what was expected and what came, on one line of ASCII."""
        return f"{self.path or 'object'}: expected {self.expected}, got {self.got}"


class DecodeError(ValueError):
    """Bytes that are no protobuf message, or not of the type they should be."""


def quote(text: str) -> str:
    """Write *text* as JSON in ASCII, its end left out if it is long."""
    if len(text) > _MAX_EXCERPT_CHARS:
        text = text[:_MAX_EXCERPT_CHARS] + "..."
    return json.dumps(text)


def _excerpt(value: Any) -> str:
    """Describe a decoded JSON value in a few words."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return f"a Python {type(value).__name__}"
