"""Polls the sources of plugins."""

from __future__ import annotations

import time
from typing import Final

from extender.rollouts.controller import RolloutController
from extender.rollouts.slot import Slot
from extender.rollouts.source_watch import Watch
from extender.sources import Source, SourceError
from wasm_runtime.supervision import SupervisedThread

POLL_INTERVAL_S: Final = 0.25
"""Seconds between two looks at probations, at what drains and at which plugins there are."""


class SourcePoller:
    """A thread that polls the source of a slot and offers what is new. A problem is reported once."""

    def __init__(self, slot: Slot, source: Source, rollouts: RolloutController) -> None:
        self._slot = slot
        self._watch = Watch(source, slot.version)
        self._rollouts = rollouts
        self._thread = SupervisedThread(f"follows-{slot.name}", self._turn)

    def start(self) -> None:
        """Begins. Raises ThreadError."""
        self._thread.start(self._watch.pause)

    def stop(self) -> None:
        """Begins to end."""
        self._thread.stop()

    def join(self, seconds: float) -> None:
        """Waits for the end."""
        self._thread.join(seconds)

    def _turn(self) -> float:
        self._look()
        return self._watch.pause

    def _look(self) -> None:
        slot = self._slot
        try:
            fetched = self._watch.look()
        except SourceError as error:
            if slot.problem != str(error) and not self._thread.is_stopped:
                self._rollouts.refuse(slot, str(error))
            return
        if slot.live:
            slot.problem = ""
        if fetched is None or self._thread.is_stopped:
            return
        if not self._rollouts.offer(slot, self._watch.source, fetched):
            self._watch.version = None


class SourcePollers:
    """A poller for the source of each slot, and a thread that looks after all else that takes its time."""

    def __init__(self, rollouts: RolloutController) -> None:
        self._rollouts = rollouts
        self._pollers: dict[Source, SourcePoller] = {}
        self._thread = SupervisedThread("rollouts", self._turn)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Ends; sources that are being asked are waited for no longer than so many seconds."""
        self._thread.stop()
        self._thread.join()
        for poller in self._pollers.values():
            poller.stop()
        until = time.monotonic() + seconds
        for poller in self._pollers.values():
            poller.join(max(0.0, until - time.monotonic()))

    def _turn(self) -> float:
        self._rollouts.look()
        self._follow()
        return POLL_INTERVAL_S

    def _follow(self) -> None:
        slots = {slot.source: slot for slot in self._rollouts.live.slots}
        for source in slots.keys() - self._pollers.keys():
            poller = SourcePoller(slots[source], source, self._rollouts)
            poller.start()
            self._pollers[source] = poller
        for source in self._pollers.keys() - slots.keys():
            self._pollers.pop(source).stop()
