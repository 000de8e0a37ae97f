"""Where the sources of the libraries for guests are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_INSTALLED: Final = Path(__file__).parents[2] / "sdk"
"""The libraries in an installation by pip."""

_CHECKOUT: Final = Path(__file__).parents[3] / "sdk-guest"

SDK: Final = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
"""A folder for each language, as in `sdk-guest` of the checkout."""


def beside(source: Path, file: str) -> Path | None:
    """A file of the library that a plugin has of its own, in a folder `guest` beside or above its source; or None."""
    candidates = (folder / "guest" / file for folder in source.resolve().parents)
    return next(filter(Path.exists, candidates), None)
