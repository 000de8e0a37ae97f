"""Which profile a pod's verbs get."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from extender.scheduling import cycle_pins
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.profile import Profile
from tests.clock import Clock
from wasm_runtime.guests.guest_place import CYCLE_TIMEOUT_S

MOST = 3
OLD, NEW, OTHER = Profile("default", []), Profile("default", []), Profile("other", [])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cycle_pins, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def begun(clock: Clock) -> CyclePins:  # noqa: ARG001 - is set before
    """The cycle of the pod `pod` has begun with OLD."""
    begun = CyclePins()
    assert begun.pin("pod", OLD) is OLD
    return begun


def test_a_cycle_stays_on_the_profile_that_it_began_with(begun: CyclePins) -> None:
    assert begun.pinned("pod") is OLD
    assert (begun.pinned("pod") or NEW) is OLD


def test_a_cycle_that_begins_again_is_on_what_is_live_then(begun: CyclePins) -> None:
    begun.pin("pod", NEW)
    assert (begun.pinned("pod") or OLD) is NEW
    assert begun.profiles_in_use() == {NEW}


def test_a_pod_without_a_cycle_gets_what_is_live(begun: CyclePins) -> None:
    assert begun.pinned("new") is None
    assert (begun.pinned("new") or NEW) is NEW


def test_a_pod_has_a_cycle_for_each_route(begun: CyclePins) -> None:
    """kube-scheduler may know us as several extenders, each with a profile in its URL."""
    assert (begun.pinned("pod", "other") or OTHER) is OTHER
    begun.pin("pod", OTHER, "other")
    assert (begun.pinned("pod"), begun.pinned("pod", "other")) == (OLD, OTHER)
    assert begun.profiles_in_use() == {OLD, OTHER}
    with begun.unpinning("pod", "other"):
        pass
    assert (begun.pinned("pod"), begun.pinned("pod", "other")) == (OLD, None)


def test_a_cycle_that_was_ended_is_over(begun: CyclePins) -> None:
    for pod in ("pod", "new"):
        with begun.unpinning(pod):
            assert begun.pinned(pod) is (OLD if pod == "pod" else None)
    assert begun.pinned("pod") is None
    assert (begun.pinned("pod") or NEW) is NEW
    assert begun.profiles_in_use() == set()


def test_a_cycle_that_begins_while_the_one_before_ends_goes_on(begun: CyclePins) -> None:
    """Who asks may be tired of waiting for a bind, and begin again."""
    with begun.unpinning("pod"):
        begun.pin("pod", OLD)
    assert begun.pinned("pod") is OLD


def test_a_cycle_expires(begun: CyclePins, clock: Clock) -> None:
    clock.now += CYCLE_TIMEOUT_S - 0.001
    assert (begun.pinned("pod") or NEW) is OLD
    assert begun.profiles_in_use() == {OLD}
    clock.now += 0.001
    assert (begun.pinned("pod") or NEW) is NEW
    assert begun.profiles_in_use() == set()


def test_a_cycle_that_begins_again_expires_later(begun: CyclePins, clock: Clock) -> None:
    clock.now += CYCLE_TIMEOUT_S - 1
    begun.pin("pod", OLD)
    clock.now += 1
    assert (begun.pinned("pod") or NEW) is OLD


def test_profiles_are_held_that_any_cycle_is_on(begun: CyclePins) -> None:
    begun.pin("second", OLD)
    begun.pin("third", OTHER)
    assert begun.profiles_in_use() == {OLD, OTHER}
    with begun.unpinning("pod"), begun.unpinning("third"):
        assert begun.profiles_in_use() == {OLD, OTHER}
    assert begun.profiles_in_use() == {OLD}


def kept(begun: CyclePins, count: int) -> list[str]:
    """Which of the first pods have a cycle."""
    return [str(pod) for pod in range(count) if begun.pinned(str(pod))]


@pytest.mark.usefixtures("clock")
def test_beyond_a_bound_the_oldest_cycles_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle_pins, "MAX_CYCLES", MOST)
    begun = CyclePins()
    for pod in range(MOST):
        begun.pin(str(pod), OLD)
    begun.pin("0", OLD)
    assert kept(begun, MOST) == ["0", "1", "2"]
    begun.pin(str(MOST), OLD)
    assert kept(begun, MOST + 1) == ["0", "2", "3"]


def test_expired_cycles_are_given_back_as_others_begin(
    begun: CyclePins, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would count, and those of pods that wait would go."""
    monkeypatch.setattr(cycle_pins, "MAX_CYCLES", MOST)
    for pod in ("a", "b"):
        begun.pin(pod, OLD)
    clock.now += CYCLE_TIMEOUT_S
    for pod in ("0", "1", "2"):
        begun.pin(pod, NEW)
    assert kept(begun, MOST) == ["0", "1", "2"]
    assert begun.profiles_in_use() == {NEW}


# -- scores that filter has found ------------------------------------------------------------------


def test_scores_are_known_until_the_cycle_is_over(begun: CyclePins, clock: Clock) -> None:
    begun.keep_scores(("pod", ""), OLD, {"node-1": 7, "node-2": 0})
    assert begun.scores(("pod", ""), ["node-2", "node-1"]) == [0, 7]
    assert begun.scores(("pod", ""), ["node-1", "node-3"]) is None
    assert begun.scores(("pod", "other"), ["node-1"]) is None
    clock.now += CYCLE_TIMEOUT_S
    assert begun.scores(("pod", ""), ["node-1"]) is None


def test_a_new_cycle_knows_none(begun: CyclePins) -> None:
    begun.keep_scores(("pod", ""), OLD, {"node-1": 7})
    begun.pin("pod", OLD)
    assert begun.scores(("pod", ""), ["node-1"]) is None


def test_a_filter_that_ends_late_gives_no_scores_to_a_cycle_on_another_profile(begun: CyclePins) -> None:
    """Who asks may be tired of waiting for filter, and begin again after a swap."""
    begun.pin("pod", NEW)
    begun.keep_scores(("pod", ""), OLD, {"node-1": 7})
    assert begun.scores(("pod", ""), ["node-1"]) is None


def test_scores_are_bounded_and_make_room_when_their_cycle_ends(
    begun: CyclePins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle_pins, "MAX_SCORES", 3)
    begun.pin("new", OLD)
    begun.keep_scores(("pod", ""), OLD, {"node-1": 1, "node-2": 2})
    begun.keep_scores(("new", ""), OLD, {"node-1": 1, "node-2": 2})
    assert begun.scores(("new", ""), ["node-1"]) is None
    begun.keep_scores(("pod", ""), OLD, {"node-1": 3})  # In the place of those before.
    begun.keep_scores(("new", ""), OLD, {"node-1": 1, "node-2": 2})
    assert begun.scores(("new", ""), ["node-1"]) == [1]
    with begun.unpinning("pod"):
        pass
    begun.keep_scores(("new", ""), OLD, {"node-1": 1, "node-2": 2, "node-3": 3})
    assert begun.scores(("new", ""), ["node-3"]) == [3]


def test_a_cycle_that_is_over_is_given_none(begun: CyclePins) -> None:
    begun.keep_scores(("unknown", ""), OLD, {"node-1": 1})
    assert begun.scores(("unknown", ""), ["node-1"]) is None


def test_a_profile_that_is_held_is_in_use_when_no_cycle_is_on_it_any_more(begun: CyclePins, clock: Clock) -> None:
    with begun.holding(OLD), begun.holding(OLD), begun.holding(OTHER):
        clock.now += CYCLE_TIMEOUT_S
        assert begun.pinned("pod") is None
        assert begun.profiles_in_use() == {OLD, OTHER}
        with begun.holding(OTHER):
            pass
        assert begun.profiles_in_use() == {OLD, OTHER}
    assert begun.profiles_in_use() == set()
