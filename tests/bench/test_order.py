"""The order in which variants take their turns."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from bench.order import order


def test_there_and_back_and_then_another_one_is_the_first() -> None:
    assert ["".join(order("abc", turn)) for turn in range(7)] == ["abc", "cba", "bca", "acb", "cab", "bac", "abc"]


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_nobody_is_better_off(count: int) -> None:
    """In the end each has been twice at each place, and before each other one as often as after it."""
    turns = [order(range(count), turn) for turn in range(2 * count)]
    places = Counter((at, each) for turn in turns for at, each in enumerate(turn))
    assert places == dict.fromkeys(((at, each) for at in range(count) for each in range(count)), 2)
    before = Counter(pair for turn in turns for pair in pairwise(turn))
    assert all(before[pair] == before[pair[::-1]] for pair in before)
