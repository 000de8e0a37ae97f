"""The threads that poll sources, and the one that looks after rollouts."""

from __future__ import annotations

import time
from typing import Final

from extender.rollouts.controller import RolloutController
from extender.rollouts.polling import SourcePollState
from extender.rollouts.slot import Slot
from extender.sources import Source, SourceError
from wasm_runtime.supervision import SupervisedThread

RECONCILE_INTERVAL_S: Final = 0.25
"""Seconds between two turns of the loop."""


class SourcePoller:
    """A thread that polls the source of a slot and offers each new module. A problem is reported once."""

    def __init__(self, slot: Slot, source: Source, rollouts: RolloutController) -> None:
        self._slot = slot
        self._state = SourcePollState(source, slot.version)
        self._rollouts = rollouts
        self._thread = SupervisedThread(f"follows-{slot.name}", self._turn)

    def start(self) -> None:
        """Starts the thread. Raises ThreadError."""
        self._thread.start(self._state.pause_s)

    def stop(self) -> None:
        """Asks the thread to end."""
        self._thread.stop()

    def join(self, seconds: float) -> None:
        """Waits for the end."""
        self._thread.join(seconds)

    def _turn(self) -> float:
        self._poll()
        return self._state.pause_s

    def _poll(self) -> None:
        slot = self._slot
        try:
            fetched = self._state.poll()
        except SourceError as error:
            if slot.problem != str(error) and not self._thread.is_stopped:
                self._rollouts.refuse(slot, str(error))
            return
        if slot.live:
            slot.problem = ""
        if fetched is None or self._thread.is_stopped:
            return
        self._state.version = None  # Until it is settled, it is new.
        if self._rollouts.offer(slot, self._state.source, fetched):
            self._state.version = fetched.version


class RolloutLoop:
    """A thread that reconciles rollouts, and keeps one poller for the source of each slot."""

    def __init__(self, rollouts: RolloutController) -> None:
        self._rollouts = rollouts
        self._pollers: dict[Source, SourcePoller] = {}
        self._thread = SupervisedThread("rollouts", self._turn)

    def start(self) -> None:
        """Starts the thread. Raises ThreadError."""
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Ends all threads. Polls that are under way are waited for no longer than so many seconds together."""
        self._thread.stop()
        self._thread.join()
        for poller in self._pollers.values():
            poller.stop()
        until = time.monotonic() + seconds
        for poller in self._pollers.values():
            poller.join(max(0.0, until - time.monotonic()))

    def _turn(self) -> float:
        self._rollouts.reconcile()
        self._follow_sources()
        return RECONCILE_INTERVAL_S

    def _follow_sources(self) -> None:
        """Starts pollers for new slots, and stops those of slots that are gone."""
        slots = {slot.source: slot for slot in self._rollouts.live.slots}
        for source in slots.keys() - self._pollers.keys():
            poller = self._pollers[source] = SourcePoller(slots[source], source, self._rollouts)
            poller.start()  # If there is no thread for it now, it is begun anew later.
        for source in self._pollers.keys() - slots.keys():
            self._pollers.pop(source).stop()
