"""Those who wait for what becomes of rollouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from extender.admin.api.event_stream import (
    MAX_BACKLOG_STEPS,
    MAX_LISTENERS,
    EventStream,
    RolloutStep,
    TooManyListenersError,
)
from extender.rollouts.journal import Journal
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.state.store import Store
from tests.patience import PATIENCE_S

LONG = 60.0


def rollout(number: int = 1, stage: RolloutStage = RolloutStage.FETCHING) -> Rollout:
    return Rollout(id=number, profile="default", plugin="nodenumber", by="alice", stage=stage, began=0.0, changed=0.0)


@pytest.fixture
def journal() -> Iterator[Journal]:
    journal = Journal(Store(None))
    yield journal
    assert journal.close()


@pytest.fixture
def event_stream(journal: Journal) -> EventStream:
    return EventStream(journal)


def record(journal: Journal, *rollouts: Rollout) -> None:
    """Returns when all are told."""
    for each in rollouts:
        journal.record(each)
    assert journal.flush(PATIENCE_S)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_a_listener_hears_what_happens_from_now_on(journal: Journal, event_stream: EventStream) -> None:
    async def story() -> None:
        record(journal, rollout(1))
        with event_stream.listen() as stream:
            record(journal, rollout(2), rollout(3))
            steps = event_stream.steps(stream, None)
            assert [await anext(steps), await anext(steps)] == [RolloutStep(2, rollout(2)), RolloutStep(3, rollout(3))]

    run(story())


@pytest.mark.parametrize(("after", "first"), [(0, 1), (1, 2), (2, 3), (3, 1), (99, 1)])
def test_who_comes_back_hears_what_was_missed_and_every_step_once(
    journal: Journal, event_stream: EventStream, after: int, first: int
) -> None:
    """A number that has not come yet is of an earlier process: all is told."""

    async def story() -> None:
        record(journal, rollout(1))
        with event_stream.listen() as stream:
            record(journal, rollout(2))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(record, journal, rollout(3))
            numbers = []
            async for step in event_stream.steps(stream, after):
                numbers.append(step.number)
                if step.number == 3:
                    break
            assert numbers == list(range(first, 4))

    run(story())


def test_a_listener_that_is_too_slow_is_left_behind(journal: Journal, event_stream: EventStream) -> None:
    async def story() -> None:
        with event_stream.listen() as stream:
            record(journal, *map(rollout, range(1, MAX_BACKLOG_STEPS + 3)))
            await asyncio.sleep(0)
            numbers = [step.number async for step in event_stream.steps(stream, None)]
        assert numbers == list(range(1, MAX_BACKLOG_STEPS + 1))
        with event_stream.listen() as stream:
            steps = event_stream.steps(stream, numbers[-1])
            assert [(await anext(steps)).number for _ in range(2)] == [MAX_BACKLOG_STEPS + 1, MAX_BACKLOG_STEPS + 2]

    run(story())


def test_a_listener_may_set_a_time(event_stream: EventStream) -> None:
    async def story() -> None:
        with event_stream.listen(0.05) as stream:
            assert [step async for step in event_stream.steps(stream, None)] == []

    run(story())


def test_a_listener_may_be_ended_and_takes_that_back_when_it_leaves(event_stream: EventStream) -> None:
    close: list[Callable[[], None]] = []
    left: list[str] = []

    def ending(end: Callable[[], None]) -> Callable[[], None]:
        close.append(end)
        return lambda: left.append("left")

    async def story() -> None:
        with event_stream.listen(ending=ending) as stream:
            asyncio.get_running_loop().call_soon(close[0])
            assert [step async for step in event_stream.steps(stream, None)] == []
            assert left == []
        assert left == ["left"]

    run(story())


def test_there_is_room_for_so_many_listeners_and_those_who_leave_make_room(event_stream: EventStream) -> None:
    async def story() -> None:
        with ExitStack() as all_of_them:
            for _ in range(MAX_LISTENERS):
                all_of_them.enter_context(event_stream.listen())
            with pytest.raises(TooManyListenersError) as caught, event_stream.listen():
                pass
            refusal = "64 clients wait for rollouts already; end one of them or ask again later"
            assert str(caught.value) == refusal
            with pytest.raises(TooManyListenersError):
                await event_stream.end_of(rollout(), LONG)
        with event_stream.listen():
            pass

    run(story())


def test_nobody_is_told_of_what_happens_after_a_listener_has_left(
    journal: Journal, event_stream: EventStream, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        with event_stream.listen():
            record(journal, rollout(1))  # Is told below, when the stream is closed.
        record(journal, rollout(2))
        await asyncio.sleep(0)

    run(story())
    record(journal, rollout(3))
    assert caplog.messages == []


STEPS = [
    rollout(1),
    rollout(2),
    rollout(1, RolloutStage.FETCHED),
    rollout(1, RolloutStage.FAILED),
    rollout(2, RolloutStage.FETCHED),
]


@pytest.mark.parametrize(("after", "stages"), [(0, ["fetching", "fetched", "failed"]), (3, ["failed"]), (4, [])])
def test_a_rollout_is_followed_until_it_is_over(
    journal: Journal, event_stream: EventStream, after: int, stages: list[str]
) -> None:
    async def story() -> None:
        with event_stream.listen() as stream:
            record(journal, *STEPS)
            assert [step.rollout.stage.value async for step in event_stream.until_over(stream, 1, after)] == stages

    run(story())


def test_the_end_of_a_rollout_is_waited_for(journal: Journal, event_stream: EventStream) -> None:
    async def story() -> None:
        record(journal, STEPS[0])
        ended = asyncio.create_task(event_stream.end_of(STEPS[0], LONG))
        await asyncio.sleep(0.01)
        record(journal, *STEPS[1:])
        assert await ended == rollout(1, RolloutStage.FAILED)
        assert await event_stream.end_of(rollout(1, RolloutStage.FAILED), LONG) == rollout(1, RolloutStage.FAILED)

    run(story())


def test_a_wait_that_is_ended_is_told_of_the_rollout_as_it_is(journal: Journal, event_stream: EventStream) -> None:
    async def story() -> None:
        record(journal, *STEPS[:3])
        close: list[Callable[[], None]] = []
        left: list[str] = []

        def ending(closed: Callable[[], None]) -> Callable[[], None]:
            close.append(closed)
            return lambda: left.append("left")

        waiting = asyncio.create_task(event_stream.end_of(rollout(1), LONG, ending))
        await asyncio.sleep(0.01)
        assert left == []
        close[0]()
        assert await asyncio.wait_for(waiting, PATIENCE_S) == rollout(1, RolloutStage.FETCHED)
        assert left == ["left"]

    run(story())


def test_a_rollout_that_takes_longer_is_told_as_it_is(journal: Journal, event_stream: EventStream) -> None:
    async def story() -> None:
        record(journal, *STEPS[:3])
        assert await event_stream.end_of(rollout(1), 0.05) == rollout(1, RolloutStage.FETCHED)

    run(story())
