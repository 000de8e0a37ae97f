"""The order in which variants take their turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def order(names: Sequence[T], turn: int) -> list[T]:
    """Each once, as they are measured in a turn, counted from 0.

    Two turns go one way and back, which makes up for a machine that becomes warm or slow evenly, and for what each one
    leaves behind for the next one. Another one is the first in the next two.
    """
    first = turn // 2 % len(names)
    turned = [*names[first:], *names[:first]]
    return turned[::-1] if turn % 2 else turned
