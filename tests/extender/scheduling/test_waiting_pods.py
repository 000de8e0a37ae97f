"""Pods that wait on Permit, as guests of other pods see them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from extender.scheduling.waiting_pods import WaitingPods
from tests.patience import wait_until
from wasm_runtime.guests.guest import Pod

LONG = 60.0
"""Seconds that no test waits for."""


def pod(name: str) -> Pod:
    return Pod(f"uid-of-{name}", f"default/{name}", name.encode())


def all_wait(waiting: WaitingPods, *pods: Pod) -> None:
    """Returns once all of them wait."""

    def seen() -> list[bytes | None]:
        return [waiting.waiting_pod(each.uid) for each in pods]

    wait_until(lambda: seen() == [each.object for each in pods], lambda: f"{pods} wait: {seen()}")


@pytest.mark.parametrize("seconds", [0.02, 0.0, -1.0])
def test_a_wait_that_nobody_ends_is_no_rejection(seconds: float) -> None:
    waiting = WaitingPods()
    assert waiting.wait(pod("web"), seconds) is False
    assert waiting.waiting_pod("uid-of-web") is None


def test_a_pod_is_seen_and_rejected_while_it_waits() -> None:
    waiting = WaitingPods()
    with ThreadPoolExecutor() as threads:
        rejected = threads.submit(waiting.wait, pod("web"), LONG)
        all_wait(waiting, pod("web"))
        assert waiting.waiting_pod("uid-of-other") is None
        assert waiting.reject_waiting_pod("uid-of-other") is False
        assert not rejected.done()
        assert waiting.reject_waiting_pod("uid-of-web") is True
        assert rejected.result(LONG) is True
    assert waiting.waiting_pod("uid-of-web") is None
    assert waiting.reject_waiting_pod("uid-of-web") is False


def test_a_rejection_that_comes_too_early_is_not_kept() -> None:
    waiting = WaitingPods()
    assert waiting.reject_waiting_pod("uid-of-web") is False
    assert waiting.wait(pod("web"), 0.02) is False


def test_the_end_of_an_old_wait_is_not_the_end_of_the_pods_new_one() -> None:
    """The scheduler may try a pod again while we still hold its last attempt."""
    waiting = WaitingPods()
    with ThreadPoolExecutor() as threads:
        old = threads.submit(waiting.wait, pod("web"), 0.2)
        all_wait(waiting, pod("web"))
        retried = pod("web")._replace(object=b"new")
        new = threads.submit(waiting.wait, retried, LONG)
        all_wait(waiting, retried)
        assert old.result(LONG) is False
        assert waiting.waiting_pod("uid-of-web") == b"new"
        assert waiting.reject_waiting_pod("uid-of-web") is True
        assert new.result(LONG) is True


def test_many_pods_wait_at_once_and_each_rejection_ends_its_own() -> None:
    waiting = WaitingPods()
    pods = [pod(f"web-{at}") for at in range(32)]
    with ThreadPoolExecutor(len(pods)) as threads:
        waits = [threads.submit(waiting.wait, each, LONG) for each in pods]
        all_wait(waiting, *pods)
        for wait, each in zip(waits, pods, strict=True):
            assert not wait.done()
            assert waiting.waiting_pod(each.uid) == each.object
            assert waiting.reject_waiting_pod(each.uid) is True
            assert wait.result(LONG) is True


def test_closing_rejects_all_that_wait_or_are_to_wait() -> None:
    waiting = WaitingPods()
    with ThreadPoolExecutor() as threads:
        rejected = [threads.submit(waiting.wait, pod(name), LONG) for name in ("web", "db")]
        all_wait(waiting, pod("web"), pod("db"))
        waiting.close()
        assert [each.result(LONG) for each in rejected] == [True, True]
    assert waiting.wait(pod("late"), LONG) is True
