"""The threads that poll sources: each source has one, and nothing that it gives is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.rollouts.rollout_loop import RolloutLoop
from extender.rollouts.slot import Slot
from extender.sources import Fetched, Source
from tests.extender import versions
from tests.extender.kwx import plugin, profile
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_swaps import put
from tests.patience import wait_until
from wasm_runtime import supervision

POLLER = "follows-told"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Inside]:
    put(tmp_path / "told.wasm", versions.module(3))
    with Inside(tmp_path, profile("default", plugin("told", source={"interval": "100ms"}), scoreRange=100)) as world:
        yield world


def pollers() -> int:
    return sum(thread.name == POLLER for thread in threading.enumerate())


def revived_pollers() -> int:
    supervision.revive()
    return pollers()


def test_a_poller_that_could_not_be_started_is_started_once_and_ends(
    world: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    can_be_had = threading.Event()
    loop = RolloutLoop(world.rollouts)
    waiting: list[threading.Thread] = []

    def start_if_can_be_had(thread: threading.Thread) -> None:
        if thread.name == POLLER and not can_be_had.is_set():
            waiting.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_can_be_had)
    loop.start()
    wait_until(lambda: waiting, "a thread was to be had")
    can_be_had.set()
    wait_until(revived_pollers, "the source is polled")
    loop.stop()
    assert pollers() == 0


def test_what_a_source_gives_is_offered_again_after_a_fault(world: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = world.rollouts.offer
    errors = [MemoryError("no room")]

    def offer_later(slot: Slot, source: Source, fetched: Fetched) -> bool:
        if errors:
            raise errors.pop()
        return offer(slot, source, fetched)

    monkeypatch.setattr(world.rollouts, "offer", offer_later)
    before = world.active()
    put(world.folder / "told.wasm", versions.module(7))
    loop = RolloutLoop(world.rollouts)
    loop.start()
    wait_until(lambda: world.active() != before, "the new module is live")
    loop.stop()
    assert world.score("web") == 7
