"""Resource quantities (`resource.Quantity` of k8s.io/apimachinery): message {1: string}."""

import math
import re
from functools import lru_cache
from typing import Any, Final

from wasm_runtime.protobuf import scalar
from wasm_runtime.protobuf.errors import EncodeError

_MAX_CHARS: Final = 64
"""Characters of a quantity. Go does not bound its digits, but what is cached must be."""

# As ParseQuantity in pkg/api/resource/quantity.go, "1." and ".5" included. Only what it takes by
# accident is left out, numbers without a digit ("Ki" is zero there), and endless exponents.
_QUANTITY: Final = re.compile(
    r"""[+-]? (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ )
    (?: [numkMGTPE] | [KMGTPE]i | [eE][+-]?[0-9]{1,18} )?""",
    re.VERBOSE,
)

_text = scalar.string(1)


def quantity(value: Any) -> bytes:
    """Encode a quantity from a string, which may have spaces around it, or from a number.

    The text stays as it is, "1000m" is not made "1": whoever reads a quantity parses it anyway.
    A number is as precise as a Python float.

    Raises:
        EncodeError: *value* is no quantity.
    """
    text = value.strip(" ") if isinstance(value, str) else _number(value)
    data = _encode(text) if 0 < len(text) <= _MAX_CHARS else None
    if data is None:
        raise EncodeError("a quantity", value)
    return data


def _number(value: Any) -> str:
    """Write a JSON number as Python does, which Go can read; "" if *value* is none."""
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    # A bool is an int to isinstance, and str() of a huge int is slow or refused.
    if type(value) is int and abs(value) < 1 << 128:
        return str(value)
    return ""


@lru_cache(maxsize=1024)
def _encode(text: str) -> bytes | None:
    """Encode *text*; None if it is no quantity. A cluster uses the same few over and over."""
    return _text(text) if _QUANTITY.fullmatch(text) else None
