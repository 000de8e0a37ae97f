"""Clients that follow rollouts: each step of each rollout, as it happens."""

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
"""Clients that listen at a time."""

MAX_BACKLOG_STEPS: Final = 256
"""Steps that wait for a listener. A slower listener is cut off."""


class TooManyListenersError(Exception):
    """MAX_LISTENERS clients listen already. `str()` says what to do."""

    def __init__(self) -> None:
        super().__init__(f"{MAX_LISTENERS} clients wait for rollouts already; end one of them or ask again later")


class RolloutStep(NamedTuple):
    """A rollout as it was after a step, and the step's number in the journal, counted from 1."""

    number: int
    rollout: Rollout


class EventStream:
    """Tells coroutines of the steps that the journal writes down. All methods belong to one event loop."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._listeners = 0

    @contextmanager
    def listen(
        self, seconds: float | None = None, ending: Ending | None = None
    ) -> Iterator[MemoryObjectReceiveStream[RolloutStep]]:
        """The steps from now on, until `seconds` are over, `ending` ends the stream, or the listener is too slow.

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
                pass  # The listener was cut off before, or has gone.

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
        """The steps of a stream, and before them those after step `after` that the journal still knows; each step once.

        With None only the stream's steps. If the journal has not reached `after` yet, the number is of an earlier
        process: then all steps that the journal knows came later.
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
        """The steps of a rollout after step `after`, as far as the journal knows them, until the rollout is over."""
        async for step in self.steps(stream, 0):
            if step.rollout.id == rollout:
                if step.number > after:
                    yield step
                if step.rollout.is_over:
                    return

    async def end_of(self, rollout: Rollout, seconds: float, ending: Ending | None = None) -> Rollout:
        """The rollout when it is over, or as it is after `seconds`, or when `ending` ends the wait.

        Raises TooManyListenersError.
        """
        if not rollout.is_over:
            with self.listen(seconds, ending) as stream:
                async for step in self.until_over(stream, rollout.id):
                    rollout = step.rollout
        return rollout
