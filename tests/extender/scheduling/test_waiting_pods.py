"""Pods that wait on Permit: what ends a wait, and how others see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from extender.scheduling.binding_guests import RejectedError
from extender.scheduling.waiting_pods import Wait, WaitingPods
from tests.clock import Clock
from tests.extender.scheduling.waits import LONG, Cycle
from tests.patience import PATIENCE_S

Says = Callable[[str], bool | None]

ENDS = "the extender ends, and the pod waited; kube-scheduler tries the pod again"


@pytest.fixture
def waiting() -> WaitingPods:
    return WaitingPods()


def outcome(wait: Wait) -> str:
    """Why a wait that is over has rejected its pod; empty if the pod may go on."""
    assert wait.is_over
    try:
        asyncio.run(wait.end())
    except RejectedError as error:
        return str(error)
    return ""


@contextmanager
def one_waits(
    waiting: WaitingPods, name: str = "web", says: Says = lambda _: False, plugins: Sequence[str] = "p"
) -> Iterator[Wait]:
    wait = Wait(Cycle(name, says), dict.fromkeys(plugins, LONG), waiting.changes)
    with waiting.waiting(wait):
        yield wait


# -- what ends a wait ------------------------------------------------------------------------------


def test_a_pod_is_seen_while_it_waits(waiting: WaitingPods) -> None:
    with one_waits(waiting) as wait:
        assert waiting.waiting_pod("uid-of-web") == b"web"
        assert waiting.waiting_pod("uid-of-other") is None
        assert (waiting.find("uid-of-web"), waiting.find("uid-of-other")) == (wait, None)
        assert (wait.node, wait.is_over) == ("node-1", False)
    assert waiting.waiting_pod("uid-of-web") is None
    assert waiting.waits() == []


CAUSES: dict[str, tuple[Callable[[WaitingPods, Wait], object], str]] = {
    "a guest": (
        lambda waiting, _: waiting.reject_waiting_pod("uid-of-web"),
        "plugin p: permit: the pod was rejected while it waited",
    ),
    "its end": (
        lambda waiting, _: waiting.delete("uid-of-web"),
        "plugin p: permit: the pod was deleted while it waited",
    ),
    "the end of the process": (lambda waiting, _: waiting.close(), f"plugin p: permit: {ENDS}"),
    "who has a cause": (lambda _, wait: wait.reject("because"), "plugin p: permit: because"),
    "nobody": (lambda _, wait: wait.allow(), ""),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_first_that_ends_a_wait_decides(waiting: WaitingPods, cause: str) -> None:
    end, message = CAUSES[cause]
    with one_waits(waiting) as wait:
        end(waiting, wait)
        assert outcome(wait) == message
        assert (waiting.find("uid-of-web"), waiting.waits(), waiting.count("p")) == (None, [], 0)
        assert waiting.reject_waiting_pod("uid-of-web") is False
        assert (wait.allow(), wait.reject("too late")) == (False, False)
        waiting.delete("uid-of-web")
        waiting.close()
        assert outcome(wait) == message


def test_who_waits_for_the_end_has_it_at_once_from_any_thread(waiting: WaitingPods) -> None:
    async def end(wait: Wait, threads: ThreadPoolExecutor) -> None:
        ended = asyncio.ensure_future(wait.end())
        await asyncio.sleep(0)
        assert not ended.done()
        threads.submit(wait.allow)
        await asyncio.wait_for(ended, PATIENCE_S)

    with one_waits(waiting) as wait, ThreadPoolExecutor(1) as threads:
        asyncio.run(end(wait, threads))


def test_closing_rejects_all_that_wait_or_are_to_wait(waiting: WaitingPods) -> None:
    with one_waits(waiting, "web") as web, one_waits(waiting, "db") as db:
        waiting.close()
        assert [outcome(web), outcome(db)] == [f"plugin p: permit: {ENDS}"] * 2
    with one_waits(waiting, "late") as late:
        assert outcome(late) == f"plugin p: permit: {ENDS}"


def test_a_rejection_that_comes_too_early_is_not_kept(waiting: WaitingPods) -> None:
    assert waiting.reject_waiting_pod("uid-of-web") is False
    waiting.delete("uid-of-web")
    with one_waits(waiting) as wait:
        assert not wait.is_over


def test_the_end_of_an_old_wait_is_not_the_end_of_the_pods_new_one(waiting: WaitingPods) -> None:
    with one_waits(waiting) as new:
        with one_waits(waiting) as old:
            assert waiting.find("uid-of-web") is old
            with waiting.waiting(new):
                assert waiting.find("uid-of-web") is new
                old.reject("old")
                assert waiting.find("uid-of-web") is new
        assert (outcome(old), new.is_over) == ("plugin p: permit: old", False)


# -- time ------------------------------------------------------------------------------------------


def timed(clock: Clock, seconds: float, **timeouts: float) -> Wait:
    """A wait of a verb that has so many seconds left."""
    return Wait(Cycle("web", deadline=clock.now + seconds), timeouts, 0, clock)


ITS_TIME = "plugin {}: permit: the pod waited for its {} s and nobody let it go on"
VERBS_TIME = (
    "plugin {}: permit: the pod was to wait for {} s, but the verb ends before;"
    " raise server.bindTimeout, and the extender's httpTimeout with it"
)


@pytest.mark.parametrize(
    ("seconds", "timeouts", "after", "message"),
    [
        (4, {"a": 2.0}, 2.0, ITS_TIME.format("a", 2)),
        (4, {"a": 2.0, "b": 1.5, "c": 3}, 1.5, ITS_TIME.format("b", 1.5)),
        (4, {"a": 0.0}, 0.0, ITS_TIME.format("a", 0)),
        (4, {"a": 3.0}, 3.0, ITS_TIME.format("a", 3)),
        (4, {"a": 60.0}, 3.0, VERBS_TIME.format("a", 60)),
        (40, {"a": 60.0, "b": 50.0}, 30.0, VERBS_TIME.format("b", 50)),
        (600, {"a": 595.0}, 590.0, VERBS_TIME.format("a", 595)),
        (600, {"a": 580.0}, 580.0, ITS_TIME.format("a", 580)),
    ],
)
def test_a_pod_waits_for_the_most_impatient_plugin_and_not_to_the_end_of_the_verb(
    seconds: float, timeouts: dict[str, float], after: float, message: str
) -> None:
    clock = Clock()
    wait = timed(clock, seconds, **timeouts)
    assert min(wait.plugins.values()) == clock.now + after
    if after:
        clock.now += after - 0.001
        wait.expire()
        assert not wait.is_over
        clock.now += 0.001
    wait.expire()
    assert outcome(wait) == message


def test_a_plugin_that_lets_the_pod_go_on_does_not_limit_the_wait_any_more(waiting: WaitingPods) -> None:
    clock = Clock()
    says = {"hasty": True, "patient": False}
    wait = Wait(Cycle("web", says.__getitem__, clock.now + 100), {"hasty": 1.0, "patient": 5.0}, 0, clock)
    with waiting.waiting(wait):
        waiting.change()
        waiting.ask_again()
    clock.now += 4.9
    wait.expire()
    assert (list(wait.plugins), wait.is_over) == (["patient"], False)
    clock.now += 0.2
    wait.expire()
    assert outcome(wait) == ITS_TIME.format("patient", 5)


# -- rounds ----------------------------------------------------------------------------------------


def test_a_round_is_due_after_a_change_while_a_pod_waits(waiting: WaitingPods) -> None:
    waiting.change()
    assert not waiting.woken.is_set()
    with one_waits(waiting):
        assert not waiting.woken.is_set()
        waiting.change()
        assert waiting.woken.is_set()


def test_a_round_is_due_for_a_pod_that_begins_to_wait_after_a_change_that_its_plugins_do_not_know(
    waiting: WaitingPods,
) -> None:
    wait = Wait(Cycle("web"), {"p": LONG}, waiting.changes)
    waiting.change()
    with waiting.waiting(wait):
        assert waiting.woken.is_set()


def test_each_change_has_each_plugin_asked_once_that_may_be_and_that_waits(waiting: WaitingPods) -> None:
    asked: list[str] = []

    def says(plugin: str) -> bool:
        asked.append(plugin)
        return plugin == "a"

    with one_waits(waiting, says=says, plugins=["a", "asked-once", "b"]) as wait:
        waiting.ask_again()
        assert asked == []
        waiting.change()
        waiting.change()
        waiting.ask_again()
        waiting.ask_again()
        assert asked == ["a", "b"]
        waiting.change()
        waiting.ask_again()
        assert (asked, wait.is_over, list(wait.plugins)) == (["a", "b", "b"], False, ["asked-once", "b"])
        assert (waiting.count("a"), waiting.count("b"), waiting.count("asked-once")) == (0, 1, 1)


def test_a_pod_goes_on_when_all_plugins_have_let_it(waiting: WaitingPods) -> None:
    says = {"a": False, "b": True}
    with one_waits(waiting, says=says.__getitem__, plugins="ab") as wait:
        waiting.change()
        waiting.ask_again()
        assert not wait.is_over
        says["a"] = True
        waiting.change()
        waiting.ask_again()
        assert outcome(wait) == ""


def test_a_plugin_that_is_asked_once_keeps_the_pod_whatever_others_say(waiting: WaitingPods) -> None:
    with one_waits(waiting, says=lambda _: True, plugins=["a", "asked-once"]) as wait:
        waiting.change()
        waiting.ask_again()
        assert (wait.is_over, list(wait.plugins), wait.is_asked_about) == (False, ["asked-once"], False)


def test_a_plugin_without_a_free_guest_is_asked_in_the_next_round(waiting: WaitingPods) -> None:
    answers: list[bool | None] = [None, True]
    with one_waits(waiting, says=lambda _: answers.pop(0)) as wait:
        waiting.change()
        waiting.woken.clear()
        waiting.ask_again()
        assert (wait.is_over, waiting.woken.is_set()) == (False, True)
        waiting.ask_again()
        assert outcome(wait) == ""


def test_what_a_plugin_fails_with_ends_the_wait_of_its_pod_alone(waiting: WaitingPods) -> None:
    def fails(_: str) -> bool:
        raise RejectedError("plugin p: permit: Unschedulable: not today")

    with one_waits(waiting, "web", fails) as web, one_waits(waiting, "db", lambda _: True) as db:
        waiting.change()
        waiting.ask_again()
        assert (outcome(web), outcome(db)) == ("plugin p: permit: Unschedulable: not today", "")


def test_a_change_in_the_midst_of_a_round_is_not_missed(waiting: WaitingPods) -> None:
    level = 0

    def says(_: str) -> bool:
        nonlocal level
        known, level = level, level + 1
        if known == 0:
            waiting.change()
        return known > 0

    with one_waits(waiting, says=says) as wait:
        waiting.change()
        waiting.woken.clear()
        waiting.ask_again()
        assert (wait.is_over, waiting.woken.is_set()) == (False, True)
        waiting.ask_again()
        assert outcome(wait) == ""
