"""Brings candidates live, and earlier revisions back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from extender.config import ProfileConfig, Replicas
from extender.config.urls import public
from extender.rollouts import conditions
from extender.rollouts.config_rollout import ConfigRollout
from extender.rollouts.drain import Drain
from extender.rollouts.journal import Journal
from extender.rollouts.live_plugins import LivePlugins
from extender.rollouts.module_admission import ModuleAdmission
from extender.rollouts.pipeline import FetchedRevision, Pipeline, RolloutFailedError, failing
from extender.rollouts.revision import Revision, RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.runs import RolloutRun, RolloutRuns
from extender.rollouts.slot import ActiveRevision, Slot
from extender.rollouts.swap_command import SwapCommand
from extender.rollouts.swap_plan import SwapPlan, before, earlier, expect, replicated, require_source, understand
from extender.rollouts.switch import Change, Switch
from extender.sources import Fetched, Source

CLOSE_TIMEOUT_S: Final = 5.0
"""Seconds that the end of the process waits for rollouts that are under way."""


class RolloutController:
    """Carries out what sources and operators want to become live. May be used from any thread.

    A slot has one rollout at a time. A command of an operator cancels a rollout from the source. A rollback cancels
    any.
    """

    def __init__(
        self,
        live: LivePlugins,
        pipeline: Pipeline,
        journal: Journal,
        drain: Drain,
        profiles: Sequence[ProfileConfig],
        wake: Callable[[], object] = lambda: None,
        replicas: Replicas = Replicas.NONE,
    ) -> None:
        """`profiles` is what is configured now; `wake` has rejected pods tried again.

        With `replicas`, commands are refused that the others would not get.
        """
        self.live = live
        self._replicas = replicas
        self.journal = journal
        self._pipeline = pipeline
        self._store = pipeline.store
        self._drain = drain
        self._switch = Switch(
            live, pipeline.store, journal, drain, profiles, wake, is_standby=replicas is Replicas.STANDBY
        )
        self._lock = self._switch.lock
        self._runs = RolloutRuns(journal, pipeline.store, self._lock)
        self.admission = ModuleAdmission(live, pipeline, self._switch, self._runs)
        self.configuration = ConfigRollout(live, pipeline, self._switch, self._runs, self.admission)
        """Makes the profiles of another configuration live."""
        self._threads: list[threading.Thread] = []

    def revisions(self, slot: Slot) -> list[tuple[Revision, RolloutStage]]:
        """Those that have served, the newest first."""
        with self._lock:
            return [
                (each, RolloutStage.ACTIVE if slot.serves(each.id) else self._drain.stage(slot, each.id))
                for each in slot.revisions
            ]

    def get(self, number: int) -> Rollout | None:
        """A rollout as it is now; None for one that is long over."""
        return self.journal.get(number)

    def history(self, limit: int, profile: str | None = None, plugin: str | None = None) -> list[Rollout]:
        """How rollouts have ended, the newest first. Waits for the disk."""
        self.journal.flush()
        return self._store.history(limit, profile, plugin)

    def find(self, number: int) -> Rollout | None:
        """A rollout as it is now, or how it ended; None if it is not in the history, either. Waits for the disk."""
        self.journal.flush()
        return self.get(number) or self._store.rollout(number)

    def begin(self, slot: Slot, command: SwapCommand) -> Rollout:
        """Begins what an operator commands, unless it is under way or done already.

        Raises SwapRefusedError, ConflictError, ReplicatedError.
        """
        if self._replicas is not Replicas.NONE:
            require_source(command, slot)
        with self._lock:
            plan = understand(command, slot, self._pipeline)
            if plan.revision and not command.dry_run:
                latest = self._runs.latest(slot)
                is_signed_later = bool(slot.unmet) and latest is not None and latest.is_over
                if latest and latest.revision == plan.revision and not is_signed_later:
                    return latest
            expect(slot, command.expected)
            run = self._runs.begin(
                slot,
                command.by,
                command.why,
                is_operators=True,
                overrules=self._runs.make_way(slot),
                dry_run=command.dry_run,
                revision=plan.revision,
            )
            self._in_background(run, slot, partial(self._take_turn, run, slot, plan))
            return run.rollout

    def roll_back(
        self, slot: Slot, *, by: str, why: str = "", to: str | None = None, expected: str | None = None
    ) -> Rollout:
        """Begins a rollback to an earlier revision, which is not probed.

        The revision may be named. Otherwise it is the last good one while the active one is on probation, else the one
        before. Raises SwapRefusedError, ConflictError, ReplicatedError.
        """
        if self._replicas is not Replicas.NONE:
            raise replicated(slot, f"put the earlier module back at {public(slot.config.guest_url)}")
        with self._lock:
            expect(slot, expected)
            revision = earlier(slot, to) if to else before(slot)
            overruled = self._runs.overrule(slot, _going_back(revision))
            if slot.live and slot.live.revision.id == revision.id:
                if overruled:
                    self._switch.set_offered(slot, overruled)
                return slot.live.rollout
            run = self._begin_return(slot, revision, by, why, overruled)
            self._in_background(run, slot, partial(self._return, run, slot, revision, why or f"rolled back by {by}"))
            return run.rollout

    def offer(self, slot: Slot, source: Source, fetched: Fetched) -> bool:
        """Brings live what the source gives, unless that was offered before. Returns once it is live or refused.

        Returns False if a command comes first, or cancels it. It is to be offered again once the command is carried
        out.
        """
        self.admission.review([slot])  # What is required may be what has changed: another key is in its file.
        is_signed_now = bool(slot.unmet) and self._pipeline.admits(slot.config, fetched)
        with slot.turn:
            with self._lock:
                if source is not slot.source:
                    return True  # Another one was configured meanwhile.
                if self._runs.running(slot):
                    return False
                candidate = FetchedRevision.of(fetched, slot.config)
                revision = candidate.revision
                slot.refusal = ""
                is_cure = is_signed_now and slot.serves(revision.id)
                if slot.live and revision.id == slot.offered and not is_cure:
                    return True
                if slot.serves(revision.id) and not is_cure:
                    self._switch.set_offered(slot, revision.id)
                    return True
                run = self._runs.begin(slot, "source", revision=revision.id)
            self._carry_out(run, slot, SwapPlan(slot.config, lambda: candidate, revision.id, offers=True))
            with self._lock:
                if source is slot.source and not run.is_cancelled:
                    slot.version = fetched.version
        return not run.is_cancelled

    def refuse(self, slot: Slot, problem: str) -> None:
        """Records that the source gives nothing of use."""
        self._explain(slot, problem)
        self._runs.fail(slot, "source", problem)

    def reconcile(self) -> None:
        """Ends probations, brings the good revision back where one fails, and retires what is drained.

        What was kept of the requests of profiles that are gone is dropped.
        """
        with self._lock:
            returns = [(slot, slot.live, good, problem) for slot, good, problem in self._switch.failing()]
            runs = [self._begin_automatic_return(*each) for each in returns]
        for run, (slot, failed, good, problem) in zip(runs, returns, strict=True):
            self._return(run, slot, good, problem)
            with self._lock:
                if slot.live is failed:
                    self._switch.end_probation(slot)  # It would fail time and again.
        self._drain.retire()
        for slot in self.live.slots:
            conditions.of_slot(slot)  # It dates those that have changed.
        self._pipeline.samples.retain({profile.name for profile in self.live.profiles})

    def close(self) -> None:
        """Ends what is under way; nothing goes live any more."""
        self._runs.close()
        until = time.monotonic() + CLOSE_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _take_turn(self, run: RolloutRun, slot: Slot, plan: SwapPlan) -> None:
        with slot.turn:
            self._carry_out(run, slot, plan)

    def _carry_out(self, run: RolloutRun, slot: Slot, plan: SwapPlan) -> None:
        """Takes a candidate through all stages, or as far as it gets."""
        try:
            with failing(run):
                require_fit = partial(self._switch.require_scores, slot)
                live = self._pipeline.prepare(run, slot, plan.config, plan.fetch, plan.verified, require_fit)
                if live:
                    self._switch.switch_one(Change(run, slot, live, plan.offers))
        except RolloutFailedError as error:  # The run has said why.
            was_refused = run.rollout.stage is RolloutStage.FAILED and not run.is_cancelled
            if plan.offers and was_refused and not run.rollout.dry_run:
                slot.refusal = str(error)
                self._explain(slot, "" if slot.live else str(error))
        finally:
            self._runs.end(slot, run)
        settled = _settled(run, plan)
        if settled:
            self._switch.set_offered(slot, settled)

    def _explain(self, slot: Slot, problem: str) -> None:
        """Keeps what is wrong with a source. If nothing serves in the slot, failures of pods quote it."""
        with self._lock:
            slot.problem = problem
            if slot.live is None and slot in self.live.slots:
                self._switch.rebuild_profiles()

    def _begin_automatic_return(
        self, slot: Slot, failed: ActiveRevision | None, good: Revision, problem: str
    ) -> RolloutRun:
        # What the source gives is offered again, and so is a configuration.
        self._runs.cancel([slot], _going_back(good), is_temporary=True)
        return self._begin_return(slot, good, "rollback", f"revision {failed.revision.id if failed else ''}: {problem}")

    def _begin_return(
        self, slot: Slot, revision: Revision, by: str, why: str, overrules: str | None = None
    ) -> RolloutRun:
        return self._runs.begin(
            slot,
            by,
            why,
            is_operators=True,
            overrules=overrules,
            revision=revision.id,
            module=revision.module,
            origin=revision.origin,
        )

    def _return(self, run: RolloutRun, slot: Slot, revision: Revision, problem: str) -> None:
        """Brings a revision back: with its guests if they still exist, else with new ones."""
        require_fit = partial(self._switch.require_scores, slot)
        try:
            with failing(run):
                self._pipeline.allow(slot.config, revision)
                with self._lock:
                    run.check()
                    if drained := self._drain.find(slot, revision.id):
                        require_fit(drained.plugin)
                    live = self._drain.take(slot, revision.id)
                    if live:
                        run.advance(RolloutStage.WARMED)
                        self._switch.switch_one(Change(run, slot, live), problem)
                        return
                self._switch.switch_one(
                    Change(run, slot, self._pipeline.restore(run, slot, revision, require_fit)), problem
                )
        except RolloutFailedError:
            pass  # The run has said why.
        finally:
            self._runs.end(slot, run)

    def _in_background(self, run: RolloutRun, slot: Slot, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="rollout", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
        try:
            thread.start()
        except Exception as error:  # Nothing of the slot may wait for it.
            mend = "try again, or let the extender have more threads (pids) or memory"
            run.fail(f"no thread can be started for it: {str(error) or type(error).__name__}; {mend}")
            self._runs.end(slot, run)
            return
        self._threads.append(thread)


def _going_back(revision: Revision) -> str:
    """Why what is under way is cancelled."""
    return f"the plugin goes back to revision {revision.id}"


def _settled(run: RolloutRun, plan: SwapPlan) -> str | None:
    """The revision to record as `offered` when a run ended without a switch; None if the run was cancelled."""
    rollout = run.rollout
    if rollout.stage is RolloutStage.UNCHANGED:
        return rollout.revision if plan.offers else run.overrules
    was_refused = rollout.stage is RolloutStage.FAILED and rollout.report is not None and not run.is_cancelled
    return rollout.revision if plan.offers and was_refused and not rollout.dry_run else None
