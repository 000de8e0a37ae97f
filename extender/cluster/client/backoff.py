"""How long to wait before a failed call is tried again."""

from __future__ import annotations

import random
from collections.abc import Iterator


def pauses(first: float, longest: float) -> Iterator[float]:
    """Seconds without end: they double from `first` up to `longest`, each cut by up to half at random.

    The chance keeps many clients of one API server from coming back at the same moment.
    """
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, longest)
