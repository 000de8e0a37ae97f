"""Revisions that were replaced, and are still used by cycles that began with them."""

from __future__ import annotations

import threading
import time
from typing import Final, NamedTuple

from extender.rollouts.journal import Journal
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.slot import ActiveRevision, Slot
from extender.scheduling.cycle_pins import CyclePins

MIN_DRAIN_S: Final = 1.0
"""Seconds for which guests are kept: a verb may be about to begin with them."""

MAX_DRAINING: Final = 3
"""Revisions of a slot whose guests are kept for cycles that began with them. A cycle of an older revision has a guest
made for each call."""


class _Drained(NamedTuple):
    slot: Slot
    live: ActiveRevision
    rollout: Rollout
    since: float

    def holds(self, slot: Slot, revision: str) -> bool:
        return self.slot is slot and self.live.revision.id == revision


class Drain:
    """Gives guests back once no pod's cycle is on their revision. May be used from any thread."""

    def __init__(self, pins: CyclePins, journal: Journal) -> None:
        self._pins = pins
        self._journal = journal
        self._lock = threading.Lock()
        self._drained: list[_Drained] = []

    def add(self, slot: Slot, live: ActiveRevision, problem: str = "") -> None:
        """Takes a revision that was replaced, and why if it was rolled back."""
        rollout = live.rollout.at(RolloutStage.DRAINING, problem=problem)
        with self._lock:
            self._drained.append(_Drained(slot, live, rollout, time.monotonic()))
        self._journal.record(rollout)

    def stage(self, slot: Slot, revision: str) -> RolloutStage:
        """Whether a revision that was replaced still drains."""
        return RolloutStage.DRAINING if self.find(slot, revision) else RolloutStage.RETIRED

    def find(self, slot: Slot, revision: str) -> ActiveRevision | None:
        """A revision that was replaced, if its guests are still there."""
        with self._lock:
            return next((each.live for each in self._drained if each.holds(slot, revision)), None)

    def take(self, slot: Slot, revision: str) -> ActiveRevision | None:
        """Takes out a revision that is to serve again; None if its guests are closed."""
        with self._lock:
            found = next((each for each in self._drained if each.holds(slot, revision)), None)
            if found is None:
                return None
            self._drained.remove(found)
        self._journal.record(found.rollout.at(RolloutStage.RETIRED))
        return found.live

    def retire(self) -> None:
        """Retires the revisions that no cycle uses any more, and those beyond `MAX_DRAINING`."""
        with self._lock:
            if not self._drained:
                return
            over = self._over()
            self._drained = [each for each in self._drained if each not in over]
        for each in over:
            each.live.plugin.close()
        for each in over:
            self._journal.record(each.rollout.at(RolloutStage.RETIRED))

    def _over(self) -> list[_Drained]:
        held = {entry for profile in self._pins.profiles_in_use() for entry in profile.plugins}
        now = time.monotonic()
        return [
            each
            for at, each in enumerate(self._drained)
            if now - each.since > MIN_DRAIN_S
            and each.live is not each.slot.standby
            and (
                each.live.profile_plugin not in held
                or sum(later.slot is each.slot for later in self._drained[at + 1 :]) >= MAX_DRAINING
            )
        ]
