"""All that can happen at once, with faults of disk, memory and threads at random: ten minutes of it, and in short."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.storm.storm import FAULTS, SURVIVABLE, Told, storm

HANG_S = 1.0
STALLS = 5
"""How many times as long as a server that only answers, besides."""
GROWTH_MIB = 16
"""What may come and go once what is kept is full, after three minutes: a guest that has grown to its limit, stacks of
threads, holes in the heaps of malloc. Three megabytes a minute are more by the end."""


def weather(folder: Path, rounds: int, seconds: float, kinds: Sequence[str]) -> Told:
    """What comes of so many rounds."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with storm(folder, seed, kinds) as blowing:
        sizes = []
        for _ in range(rounds):
            blowing.blow(seconds)
            sizes.append(blowing.calm())
    told = blowing.told(sizes)
    print(told)
    assert blowing.status == 0, blowing.log()
    assert told.wrong[:5] == []
    assert blowing.events("ended") == [], "something that others rely on"
    return told


@pytest.mark.timeout(300)  # Twice eight seconds, and sixty at most until all is well.
def test_a_short_storm(tmp_path: Path) -> None:
    weather(tmp_path, 2, 8, SURVIVABLE)


@pytest.mark.nightly
@pytest.mark.timeout(1800)  # Ten minutes, and the calm after each.
def test_a_long_storm(tmp_path: Path) -> None:
    told = weather(tmp_path, 10, 60, FAULTS)
    patience = HANG_S + STALLS * told.health_s["an idle server"]
    assert {name: each for name, each in (told.health_s | told.filter_s).items() if each > patience} == {}
    settled, last = told.sizes[2], told.sizes[-1]
    assert last.resident - settled.resident < GROWTH_MIB
    assert last.descriptors - settled.descriptors < 10
    assert last.threads - settled.threads < 10
