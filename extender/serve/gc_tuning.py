"""Python's collector of garbage, for a process that serves."""

from __future__ import annotations

import gc
from typing import Final

COLLECT_AFTER: Final = 20_000
"""Objects after which Python looks for garbage in cycles, of which a verb makes next to none."""


def spare() -> None:
    """Keeps what was made until now out of garbage collections: it stays, and a look at it holds all up for 60 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
