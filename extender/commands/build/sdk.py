"""Where the sources of the libraries for guests are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_INSTALLED: Final = Path(__file__).parents[2] / "sdk"
"""In an installation by pip."""

_CHECKOUT: Final = Path(__file__).parents[3] / "sdk-guest"

SDK: Final = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
"""A folder for each language, as in `sdk-guest` of the checkout."""
