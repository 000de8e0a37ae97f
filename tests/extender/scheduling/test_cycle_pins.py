"""Which profile a pod's verbs get."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from extender.scheduling import cycle_pins
from extender.scheduling.cycle_pins import Cycles
from extender.scheduling.profile import Profile
from tests.clock import Clock
from wasm_runtime.guests.pool import CYCLE

MOST = 3
OLD, NEW, OTHER = Profile("default", []), Profile("default", []), Profile("other", [])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cycle_pins, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def begun(clock: Clock) -> Cycles:  # noqa: ARG001 - is set before
    """The cycle of the pod `pod` has begun with OLD."""
    begun = Cycles()
    assert begun.begin("pod", OLD) is OLD
    return begun


def test_a_cycle_stays_on_the_profile_that_it_began_with(begun: Cycles) -> None:
    assert begun.begun("pod") is OLD
    assert begun.of("pod", NEW) is OLD


def test_a_cycle_that_begins_again_is_on_what_is_live_then(begun: Cycles) -> None:
    begun.begin("pod", NEW)
    assert begun.of("pod", OLD) is NEW
    assert begun.held() == {NEW}


def test_a_pod_without_a_cycle_gets_what_is_live(begun: Cycles) -> None:
    assert begun.begun("new") is None
    assert begun.of("new", NEW) is NEW


def test_a_pod_has_a_cycle_for_each_route(begun: Cycles) -> None:
    """kube-scheduler may know us as several extenders, each with a profile in its URL."""
    assert begun.of("pod", OTHER, "other") is OTHER
    begun.begin("pod", OTHER, "other")
    assert (begun.begun("pod"), begun.begun("pod", "other")) == (OLD, OTHER)
    assert begun.held() == {OLD, OTHER}
    with begun.ending("pod", "other"):
        pass
    assert (begun.begun("pod"), begun.begun("pod", "other")) == (OLD, None)


def test_a_cycle_that_was_ended_is_over(begun: Cycles) -> None:
    for pod in ("pod", "new"):
        with begun.ending(pod):
            assert begun.begun(pod) is (OLD if pod == "pod" else None)
    assert begun.begun("pod") is None
    assert begun.of("pod", NEW) is NEW
    assert begun.held() == set()


def test_a_cycle_that_begins_while_the_one_before_ends_goes_on(begun: Cycles) -> None:
    """Who asks may be tired of waiting for a bind, and begin again."""
    with begun.ending("pod"):
        begun.begin("pod", OLD)
    assert begun.begun("pod") is OLD


def test_a_cycle_expires(begun: Cycles, clock: Clock) -> None:
    clock.now += CYCLE - 0.001
    assert begun.of("pod", NEW) is OLD
    assert begun.held() == {OLD}
    clock.now += 0.001
    assert begun.of("pod", NEW) is NEW
    assert begun.held() == set()


def test_a_cycle_that_begins_again_expires_later(begun: Cycles, clock: Clock) -> None:
    clock.now += CYCLE - 1
    begun.begin("pod", OLD)
    clock.now += 1
    assert begun.of("pod", NEW) is OLD


def test_profiles_are_held_that_any_cycle_is_on(begun: Cycles) -> None:
    begun.begin("second", OLD)
    begun.begin("third", OTHER)
    assert begun.held() == {OLD, OTHER}
    with begun.ending("pod"), begun.ending("third"):
        assert begun.held() == {OLD, OTHER}
    assert begun.held() == {OLD}


def kept(begun: Cycles, count: int) -> list[str]:
    """Which of the first pods have a cycle."""
    return [str(pod) for pod in range(count) if begun.begun(str(pod))]


@pytest.mark.usefixtures("clock")
def test_beyond_a_bound_the_oldest_cycles_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle_pins, "MOST", MOST)
    begun = Cycles()
    for pod in range(MOST):
        begun.begin(str(pod), OLD)
    begun.begin("0", OLD)
    assert kept(begun, MOST) == ["0", "1", "2"]
    begun.begin(str(MOST), OLD)
    assert kept(begun, MOST + 1) == ["0", "2", "3"]


def test_expired_cycles_are_given_back_as_others_begin(
    begun: Cycles, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would count, and those of pods that wait would go."""
    monkeypatch.setattr(cycle_pins, "MOST", MOST)
    for pod in ("a", "b"):
        begun.begin(pod, OLD)
    clock.now += CYCLE
    for pod in ("0", "1", "2"):
        begun.begin(pod, NEW)
    assert kept(begun, MOST) == ["0", "1", "2"]
    assert begun.held() == {NEW}
