"""The rollouts that are under way: one a slot."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from extender.rollouts.journal import Journal
from extender.rollouts.rollout import Rollout
from extender.rollouts.run import Attempt
from extender.rollouts.slot import Slot
from extender.rollouts.state.store import Store
from extender.rollouts.swap_request import ConflictError

THE_END: Final = "the extender ends"


class Attempts:
    """Begins rollouts, and ends them before their time.

    An operator's comes before one of the source's, another operator's has to wait. `lock` is held for all that decides
    over a switch.
    """

    def __init__(self, journal: Journal, store: Store, lock: threading.RLock) -> None:
        """Numbers are the store's, steps are told to the journal."""
        self._journal = journal
        self._store = store
        self._lock = lock
        self._last: dict[Slot, Attempt] = {}
        """It may be over."""
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
    ) -> Attempt:
        """Begins one in the place of the last one; `more` is what is known of it already."""
        rollout = self._rollout(slot, by=by, why=why, **more)
        attempt = Attempt(rollout, self._journal, is_operators=is_operators, overrules=overrules)
        with self._lock:
            if self._is_closed:
                attempt.cancel(THE_END)
            self._last[slot] = attempt
        return attempt

    def fail(self, slot: Slot, by: str, problem: str) -> None:
        """Tells of one that has come to nothing, beside what is under way."""
        Attempt(self._rollout(slot, by=by), self._journal).fail(problem)

    def end(self, slot: Slot, attempt: Attempt) -> None:
        """Forgets one that is over."""
        with self._lock:
            if self._last.get(slot) is attempt:
                del self._last[slot]

    def running(self, slot: Slot) -> Attempt | None:
        """The one that is under way."""
        last = self._last.get(slot)
        return last if last and not last.rollout.is_over else None

    def latest(self, slot: Slot) -> Rollout | None:
        """The rollout of what is to become live in a slot, or else is."""
        running = self.running(slot)
        if running and not running.rollout.dry_run:
            return running.rollout
        return slot.live.rollout if slot.live else None

    def cancel(self, slots: Iterable[Slot], reason: str, *, is_passing: bool = False) -> None:
        """Ends what is under way."""
        with self._lock:
            for slot in slots:
                if running := self.running(slot):
                    running.cancel(reason, is_passing=is_passing)

    def overrule(self, slot: Slot, reason: str) -> str | None:
        """Ends what is under way, and returns its revision if that is the source's."""
        running = self.running(slot)
        if running is None:
            return None
        running.cancel(reason)
        return running.overrules if running.is_operators else running.rollout.revision

    def make_way(self, slot: Slot) -> str | None:
        """Ends a rollout of the source's, and returns its revision. Raises ConflictError for an operator's."""
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
