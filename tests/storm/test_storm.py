"""All that can happen at once, with faults of disk, memory and threads at random: ten minutes of it, and in short."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import Beside, wait_until
from tests.storm import storm as module
from tests.storm.storm import FAULTS, SURVIVABLE, Told, recorded, storm

HANG_S = 1.0
STALLS = 5
"""How many times as long as a server that only answers, besides."""
GROWTH_MIB = 16
"""What may come and go once what is kept is full, after three minutes: a guest that has grown to its limit, stacks of
threads, holes in the heaps of malloc. Three megabytes a minute are more by the end."""


@contextmanager
def weathered(folder: Path, rounds: int, seconds: float, kinds: Sequence[str]) -> Iterator[Told]:
    """What comes of so many rounds."""
    seed = random.SystemRandom().randrange(1 << 32)
    with recorded(seed) as record:
        with storm(folder, seed, kinds, record) as blowing:
            sizes = []
            for _ in range(rounds):
                blowing.blow(seconds)
                sizes.append(blowing.calm())
        told = blowing.told(sizes)
        print(told)
        record.write(f"{told}\n")
        assert blowing.status == 0, blowing.log()
        assert told.wrong[:5] == []
        assert blowing.events("ended") == [], "something that others rely on"
        yield told


def test_a_short_storm(tmp_path: Path) -> None:
    with weathered(tmp_path, 2, 8, SURVIVABLE):
        pass


@pytest.mark.parametrize(
    ("number", "how"), [(signal.SIGKILL, "ended by SIGKILL"), (signal.SIGTERM, "ended with status 0")]
)
def test_an_extender_that_ends_is_told_and_all_that_is_known_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, how: str
) -> None:
    monkeypatch.setattr(module, "RECORDS", tmp_path / "records")
    kept = tmp_path / "records" / "7.log"
    with pytest.raises(AssertionError) as caught, recorded(7) as record, storm(tmp_path, 7, SURVIVABLE, record) as it:
        blowing = Beside(lambda: it.blow(60))
        wait_until(lambda: "'kind': " in kept.read_text(), "a fault befalls it")
        os.kill(it.process, number)
        blowing.end()
    told = str(caught.value)
    assert told.startswith(f"the extender has {how}:\n")
    assert '"event": "serving"' in told
    assert all(each in kept.read_text() for each in ('"event": "serving"', f"the extender has {how}\n", "Traceback"))


@pytest.mark.nightly
@pytest.mark.timeout(1800)  # Ten minutes, and the calm after each.
def test_a_long_storm(tmp_path: Path) -> None:
    with weathered(tmp_path, 10, 60, FAULTS) as told:
        patience = HANG_S + STALLS * told.health_s["an idle server"]
        assert {name: each for name, each in (told.health_s | told.filter_s).items() if each > patience} == {}
        settled, last = told.sizes[2], told.sizes[-1]
        assert last.resident - settled.resident < GROWTH_MIB
        assert last.descriptors - settled.descriptors < 10
        assert last.threads - settled.threads < 10
