"""Durations and sizes as people write them in Kubernetes: `500ms`, `64Mi`."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES: Final = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}

MAX_DURATION_S: Final = 3600.0
"""The longest duration that a configuration may have; longer ones are mistakes."""


def seconds(text: object) -> float:
    """A duration in seconds. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text) if isinstance(text, str) else None
    duration = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < duration <= MAX_DURATION_S:
        raise ValueError(f"expected a duration such as 500ms or 2s, at most 1h, found {text!r}")
    return duration


def size(text: object) -> int:
    """A size in bytes. Raises ValueError."""
    match = re.fullmatch(r"(\d+)(|k|M|G|Ki|Mi|Gi)", str(text)) if not isinstance(text, bool) else None
    if not match or not int(match[1]):
        raise ValueError(f"expected a size such as 256Mi, found {text!r}")
    return int(match[1]) * _BYTES[match[2]]


def size_text(size: int) -> str:
    """A size in bytes as people write it, with the largest unit of which it is a multiple."""
    unit = next((unit for unit in ("Gi", "Mi", "Ki") if size and size % _BYTES[unit] == 0), "")
    return f"{size // _BYTES[unit]}{unit}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.6f}".rstrip("0").rstrip(".") + "ms"


Seconds = Annotated[float, BeforeValidator(seconds), PlainSerializer(_duration, return_type=str, when_used="json")]
Bytes = Annotated[int, BeforeValidator(size)]
