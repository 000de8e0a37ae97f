"""The rollouts that are under way: one a slot, each on its way from stage to stage."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from extender.rollouts.journal import Journal
from extender.rollouts.probe import ProbeReport
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.slot import Slot
from extender.rollouts.state.store import Store
from extender.rollouts.swap_command import ConflictError

THE_END: Final = "the extender ends"


class CancelledError(Exception):
    """A rollout must not go on. `str()` says why."""


class RolloutRun:
    """Takes a rollout from stage to stage, each of which the journal is told of. Cancelled from any thread."""

    def __init__(
        self, rollout: Rollout, journal: Journal, *, is_operators: bool = False, overrules: str | None = None
    ) -> None:
        self._journal = journal
        self._cancelled = threading.Event()
        self._reason = ""
        self.may_be_repeated = False
        """Whether it was cancelled for a temporary reason, so that its candidate is still wanted."""
        self.is_operators = is_operators
        """Whether an operator has asked for it, and waits for it."""
        self.overrules = overrules
        """The source's revision whose rollout it has cancelled. Once this run is live, that revision is not offered
        again."""
        self.rollout = rollout
        self.record(rollout)

    def advance(self, stage: RolloutStage, **more: object) -> Rollout:
        """Takes it one stage further. Raises CancelledError."""
        self.check()
        return self.record(self.rollout.at(stage, **more))

    def fail(self, problem: str, report: ProbeReport | None = None) -> None:
        """Ends it. One that is over stays as it is, and is told again: telling is what may have gone wrong."""
        if not self.rollout.is_over:
            self.rollout = self.rollout.at(RolloutStage.FAILED, problem=problem, report=report or self.rollout.report)
        self.record(self.rollout)

    def cancel(self, reason: str, *, is_temporary: bool = False) -> None:
        """Has it end at its next step, which is never the switch. The first reason counts.

        `is_temporary` says that its candidate is still wanted, so that it is to be tried again later.
        """
        if not self._cancelled.is_set():
            self._reason, self.may_be_repeated = reason, is_temporary
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether it is to end."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Raises CancelledError if it is to end."""
        if self._cancelled.is_set():
            raise CancelledError(self._reason)

    def record(self, rollout: Rollout) -> Rollout:
        """Records what `Rollout.at` has made. A listener that hears of its end may begin another one at once."""
        self.rollout = rollout
        return self._journal.record(rollout)


class RolloutRuns:
    """Begins rollouts, and ends them before their time.

    An operator's comes before one of the source's, another operator's has to wait. `lock` is held for all that decides
    over a switch.
    """

    def __init__(self, journal: Journal, store: Store, lock: threading.RLock) -> None:
        """Numbers are the store's, steps are told to the journal."""
        self._journal = journal
        self._store = store
        self._lock = lock
        self._last: dict[Slot, RolloutRun] = {}
        """The last rollout of each slot, which may be over."""
        self._is_closed = False

    def begin(
        self,
        slot: Slot,
        by: str,
        why: str = "",
        *,
        is_operators: bool = False,
        overrules: str | None = None,
        **more: Any,
    ) -> RolloutRun:
        """Begins a rollout in the place of the last one; `more` is what is known of it already."""
        rollout = self._rollout(slot, by=by, why=why, **more)
        run = RolloutRun(rollout, self._journal, is_operators=is_operators, overrules=overrules)
        with self._lock:
            if self._is_closed:
                run.cancel(THE_END)
            self._last[slot] = run
        return run

    def fail(self, slot: Slot, by: str, problem: str) -> None:
        """Records a rollout that has failed before it began, beside the one that is under way."""
        RolloutRun(self._rollout(slot, by=by), self._journal).fail(problem)

    def end(self, slot: Slot, run: RolloutRun) -> None:
        """Forgets one that is over."""
        with self._lock:
            if self._last.get(slot) is run:
                del self._last[slot]

    def running(self, slot: Slot) -> RolloutRun | None:
        """The one that is under way."""
        last = self._last.get(slot)
        return last if last and not last.rollout.is_over else None

    def latest(self, slot: Slot) -> Rollout | None:
        """The rollout of what is to become live in a slot, or else is."""
        running = self.running(slot)
        if running and not running.rollout.dry_run:
            return running.rollout
        return slot.live.rollout if slot.live else None

    def cancel(self, slots: Iterable[Slot], reason: str, *, is_temporary: bool = False) -> None:
        """Ends what is under way."""
        with self._lock:
            for slot in slots:
                if running := self.running(slot):
                    running.cancel(reason, is_temporary=is_temporary)

    def overrule(self, slot: Slot, reason: str) -> str | None:
        """Cancels what is under way. Returns the revision of the source's that does not go live by that, or None."""
        running = self.running(slot)
        if running is None:
            return None
        running.cancel(reason)
        return running.overrules if running.is_operators else running.rollout.revision

    def make_way(self, slot: Slot) -> str | None:
        """Cancels a rollout from the source, and returns its revision. Raises ConflictError for an operator's one."""
        running = self.running(slot)
        if running and running.is_operators:
            rollout = running.rollout
            raise ConflictError(
                f"rollout {rollout.id} of plugin {slot.name} by {rollout.by} is under way ({rollout.stage.value});"
                " wait for its end"
            )
        return self.overrule(slot, "an operator's rollout has come before it")

    def close(self) -> None:
        """Ends all, those included that begin from now on."""
        with self._lock:
            self._is_closed = True
            self.cancel(list(self._last), THE_END)

    def _rollout(self, slot: Slot, **more: Any) -> Rollout:
        return Rollout(id=self._store.next_id(), profile=slot.profile, plugin=slot.name, **more)
