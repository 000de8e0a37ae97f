"""Those who wait for what becomes of rollouts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from extender.admin.auth.followers import Ending
from extender.rollouts.journal import Journal
from extender.rollouts.rollout import Rollout

MAX_LISTENERS: Final = 64
"""Listeners at a time."""

MAX_BACKLOG_STEPS: Final = 256
"""StepsDep that wait for a listener; who is slower than that is left behind."""


class TooManyListenersError(Exception):
    """There is no room for another listener. `str()` says what to do."""

    def __init__(self) -> None:
        super().__init__(f"{MAX_LISTENERS} clients wait for rollouts already; end one of them or ask again later")


class RolloutStep(NamedTuple):
    """A rollout as it was after a step, and the step's number."""

    number: int
    rollout: Rollout


class EventStream:
    """Tells coroutines of what is written into the journal. Of one event loop, but for the journal's side."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._listeners = 0

    @contextmanager
    def listen(
        self, seconds: float | None = None, ending: Ending | None = None
    ) -> Iterator[MemoryObjectReceiveStream[RolloutStep]]:
        """The steps from now on, until the time is up, `ending` ends it, or the listener is too slow.

        Raises TooManyListenersError.
        """
        if self._listeners >= MAX_LISTENERS:
            raise TooManyListenersError
        loop = asyncio.get_running_loop()
        send, receive = anyio.create_memory_object_stream[RolloutStep](MAX_BACKLOG_STEPS)

        def put(step: RolloutStep) -> None:
            try:
                send.send_nowait(step)
            except anyio.WouldBlock:
                send.close()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # It was too slow before, or has gone.

        timer = loop.call_later(seconds, send.close) if seconds else None
        remove = self._journal.listen(lambda *step: loop.call_soon_threadsafe(put, RolloutStep(*step)))
        take_back = ending(send.close) if ending else None
        self._listeners += 1
        try:
            yield receive
        finally:
            self._listeners -= 1
            remove()
            if take_back:
                take_back()
            if timer:
                timer.cancel()
            send.close()
            receive.close()

    async def steps(
        self, stream: MemoryObjectReceiveStream[RolloutStep], after: int | None
    ) -> AsyncIterator[RolloutStep]:
        """What comes, and before it what came after a step, as far as that is still known; every step once.

        A number that is still to come is of another process: all that is known came later.
        """
        past = [] if after is None else [RolloutStep(*entry) for entry in self._journal.since(0)]
        newest = past[-1].number if past else 0
        begin = after if after is not None and after <= newest else 0
        for step in past:
            if step.number > begin:
                yield step
        async for step in stream:
            if step.number > newest:
                yield step

    async def until_over(
        self, stream: MemoryObjectReceiveStream[RolloutStep], rollout: int, after: int = 0
    ) -> AsyncIterator[RolloutStep]:
        """The steps of a rollout after one, as far as they are still known, until it is over."""
        async for step in self.steps(stream, 0):
            if step.rollout.id == rollout:
                if step.number > after:
                    yield step
                if step.rollout.is_over:
                    return

    async def end_of(self, rollout: Rollout, seconds: float, ending: Ending | None = None) -> Rollout:
        """The rollout when it is over, or as it is when the time is up or `ending` ends the wait.

        Raises TooManyListenersError.
        """
        if not rollout.is_over:
            with self.listen(seconds, ending) as stream:
                async for step in self.until_over(stream, rollout.id):
                    rollout = step.rollout
        return rollout
