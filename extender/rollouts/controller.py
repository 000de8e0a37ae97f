"""Brings candidates live, and earlier revisions back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

from extender.config import PluginConfig, ProfileConfig
from extender.rollouts import conditions
from extender.rollouts.drain import Drain
from extender.rollouts.journal import Journal
from extender.rollouts.live_plugins import LivePlugins, unscored
from extender.rollouts.module_admission import ModuleAdmission
from extender.rollouts.pipeline import Candidate, Pipeline, RolloutFailedError, failing
from extender.rollouts.polling import RetryTrigger, SourcePollState
from extender.rollouts.revision import REVISED, Revision, Stage
from extender.rollouts.rollout import Rollout
from extender.rollouts.runs import RolloutRun, RolloutRuns
from extender.rollouts.slot import ActiveRevision, Slot
from extender.rollouts.swap_command import SwapCommand
from extender.rollouts.swap_plan import SwapPlan, before, earlier, expect, understand
from extender.rollouts.switch import REMOVED, Change, Switch, check, withdraw
from extender.sources import Fetched, Source, SourceError, SourceUnreachableError

CLOSE_TIMEOUT_S: Final = 5.0
"""Seconds that the end of the process waits for rollouts that are under way."""

CONFIGURED: Final = "the configuration has changed"


Given = dict[tuple[str, str], str]
"""The versions of what sources have given, by profile and plugin."""


class NotConfiguredError(RolloutFailedError):
    """A configuration cannot be had. Has every reason, and what the sources gave."""

    def __init__(self, problems: list[str], given: Given) -> None:
        super().__init__(problems)
        self.given = given


class RolloutController:
    """Carries out what sources, the configuration file and operators want to become live. May be used from any thread.

    A slot has one rollout at a time. An operator's ends one of the source's, a rollback ends any.
    """

    def __init__(
        self,
        live: LivePlugins,
        pipeline: Pipeline,
        journal: Journal,
        drain: Drain,
        profiles: Sequence[ProfileConfig],
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        """`profiles` is what is configured now; `wake` has rejected pods tried again."""
        self.live = live
        self.journal = journal
        self._pipeline = pipeline
        self._store = pipeline.store
        self._drain = drain
        self._switch = Switch(live, pipeline.store, journal, drain, profiles, wake)
        self._lock = self._switch.lock
        self._runs = RolloutRuns(journal, pipeline.store, self._lock)
        self.admission = ModuleAdmission(live, pipeline, self._switch, self._runs)
        self._threads: list[threading.Thread] = []

    def slot(self, profile: str, plugin: str) -> Slot | None:
        """The place of a plugin."""
        return next((slot for slot in self.live.slots if (slot.profile, slot.name) == (profile, plugin)), None)

    def revisions(self, slot: Slot) -> list[tuple[Revision, Stage]]:
        """Those that have served, the newest first."""
        with self._lock:
            return [
                (each, Stage.ACTIVE if slot.serves(each.id) else self._drain.stage(slot, each.id))
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
        """The same as `get`, or how a rollout has ended that is long over. Waits for the disk."""
        self.journal.flush()
        return self.get(number) or self._store.rollout(number)

    def begin(self, slot: Slot, command: SwapCommand) -> Rollout:
        """Begins what an operator commands; what is under way or done already is not begun again.

        Raises SwapRefusedError, ConflictError.
        """
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
        """Begins the way back to an earlier revision, which is not probed.

        It leads to the one that is named; else on probation to the last good one, and otherwise to the one before.
        Raises SwapRefusedError, ConflictError.
        """
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
        """Brings live what the source gives, unless that is no news. Returns when it is live or refused.

        False if a command has come before it: it is to be offered again when that is carried out.
        """
        self.admission.review([slot])  # What is required may be what has changed: another key is in its file.
        is_signed_now = bool(slot.unmet) and self._pipeline.admits(slot.config, fetched)
        with slot.turn:
            with self._lock:
                if source is not slot.source:
                    return True  # Another one was configured meanwhile.
                if self._runs.running(slot):
                    return False
                candidate = Candidate.of(fetched, slot.config)
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
        """Tells that the source gives nothing of use."""
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

    def configure(self, profiles: Sequence[ProfileConfig], *, asks: bool = True) -> None:
        """Makes other profiles live, all at once.

        A plugin whose module or settings change is rolled out like any other candidate. Where nothing serves yet it is
        not waited for: its source brings it live. Unless it `asks`, sources are left alone where settings alone change.
        Raises NotConfiguredError if a plugin cannot be had; then none is.
        """
        configs = self._places(profiles)
        changing = self._changing(configs)
        given: Given = {}
        self._runs.cancel(changing, CONFIGURED)
        with ExitStack() as stack:
            for slot in changing:
                stack.enter_context(slot.turn)
            changes = self._prepare_all(changing, configs, stack, given, asks=asks)
            candidates = {change.slot: change.live.profile_plugin.plugin for change in changes}
            if problems := list(unscored(profiles, configs, candidates)):
                withdraw(changes, "; ".join(problems))
                raise NotConfiguredError(problems, given)
            with self._lock:
                try:
                    check(changes)
                except RolloutFailedError as error:
                    raise NotConfiguredError(error.problems, given) from error
                for slot in set(self.live.slots) - set(configs):
                    self._runs.cancel([slot], REMOVED)
                    self._switch.remove(slot)
                for key, slot in zip(keys(profiles), configs, strict=True):
                    self._reconfigure(slot, configs[slot], given.get(slot.place), is_ready=slot in changing)
                    slot.key = key
                self._switch.all(changes, list(configs), profiles)
        self.admission.review(self.live.slots)

    def retry_trigger(self, profiles: Sequence[ProfileConfig], given: Given) -> RetryTrigger:
        """Fires when one of the sources of refused profiles gives another version than `given`."""
        configs = self._places(profiles)
        changing = self._changing(configs)
        return RetryTrigger(
            [SourcePollState(self._pipeline.open(configs[slot]), given.get(slot.place)) for slot in changing]
        )

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
        """Takes a candidate all the way, or as far as it gets."""
        try:
            with failing(run):
                fits = partial(self._switch.require_scores, slot)
                live = self._pipeline.prepare(run, slot, plan.config, plan.fetch, plan.verified, fits)
                if live:
                    self._switch.alone(Change(run, slot, live, plan.offers))
        except RolloutFailedError as error:  # The run has said why.
            was_refused = run.rollout.stage is Stage.FAILED and not run.is_cancelled
            if plan.offers and was_refused and not run.rollout.dry_run:
                slot.refusal = str(error)
                self._explain(slot, "" if slot.live else str(error))
        finally:
            self._runs.end(slot, run)
        settled = _settled(run, plan)
        if settled:
            self._switch.set_offered(slot, settled)

    def _explain(self, slot: Slot, problem: str) -> None:
        """Keeps what is wrong with a source, which pods are told if nothing serves in the slot."""
        with self._lock:
            slot.problem = problem
            if slot.live is None and slot in self.live.slots:
                self._switch.again()

    def _begin_automatic_return(
        self, slot: Slot, failed: ActiveRevision | None, good: Revision, problem: str
    ) -> RolloutRun:
        # What the source gives is offered again, and so is a configuration.
        self._runs.cancel([slot], _going_back(good), is_passing=True)
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
        """Brings a revision back: with its guests if they are still there, else with new ones."""
        fits = partial(self._switch.require_scores, slot)
        try:
            with failing(run):
                self._pipeline.allow(slot.config, revision)
                with self._lock:
                    run.check()
                    if drained := self._drain.find(slot, revision.id):
                        fits(drained.profile_plugin.plugin)
                    live = self._drain.take(slot, revision.id)
                    if live:
                        run.advance(Stage.WARMED)
                        self._switch.alone(Change(run, slot, live), problem)
                        return
                self._switch.alone(Change(run, slot, self._pipeline.restore(run, slot, revision, fits)), problem)
        except RolloutFailedError:
            pass  # The run has said why.
        finally:
            self._runs.end(slot, run)

    def _places(self, profiles: Sequence[ProfileConfig]) -> dict[Slot, PluginConfig]:
        """The slot of each plugin, in order, and what it is to be configured to be."""
        return {
            self.slot(profile.name, plugin.name) or self._place(profile.name, plugin): plugin
            for profile in profiles
            for plugin in profile.plugins
        }

    def _changing(self, configs: Mapping[Slot, PluginConfig]) -> list[Slot]:
        """The plugins that a switch waits for: new ones, and those that serve and are to be others."""
        return [
            slot
            for slot, config in configs.items()
            if not slot.key or (slot.live and _differs(self._switch.configured(slot), config))
        ]

    def _place(self, profile: str, plugin: PluginConfig) -> Slot:
        """A new place; of a plugin that was there before what has served there is known."""
        kept = self._store.load(profile, plugin.name)
        return Slot("", profile, plugin, self._pipeline.open(plugin), revisions=list(kept.revisions) if kept else [])

    def _prepare_all(
        self,
        slots: Sequence[Slot],
        configs: Mapping[Slot, PluginConfig],
        stack: ExitStack,
        given: Given,
        *,
        asks: bool,
    ) -> list[Change]:
        """Candidates that may be cancelled until the stack ends; `given` is told of what they are made of.

        Raises NotConfiguredError with the problems of all.
        """
        changes: list[Change] = []
        problems: list[str] = []
        for slot in slots:
            config, served = configs[slot], slot.live.revision if slot.live else None
            with self._lock:
                self._runs.cancel([slot], CONFIGURED)
                run = self._runs.begin(slot, "configuration", is_operators=True)
                stack.callback(self._runs.end, slot, run)
            try:
                fetch = partial(self._fetch if asks else self._fetch_if_need_be, slot, config, given)
                live = self._pipeline.prepare(run, slot, config, fetch, served)
                if live:
                    changes.append(Change(run, slot, live, offers=True))
            except RolloutFailedError as error:
                problems += [f"plugin {slot.name} of profile {slot.profile}: {problem}" for problem in error.problems]
                if run.may_be_repeated:
                    given.pop(slot.place, None)  # So that what the source gives is news.
        if problems:
            withdraw(changes, "another plugin of the same configuration cannot be had")
            raise NotConfiguredError(problems, given)
        return changes

    def _fetch_if_need_be(self, slot: Slot, config: PluginConfig, given: Given) -> Candidate:
        """What the source has given last, if that was good and settings alone change; else what it gives."""
        is_good = not (slot.refusal or slot.unmet)
        if slot.version and is_good and _origin(self._switch.configured(slot)) == _origin(config):
            last = next((each for each in slot.revisions if each.id == slot.offered), None)
            with suppress(SourceError):
                if last and not slot.source.has_changed(slot.version):
                    self._pipeline.allow(config, last)
                    candidate = self._pipeline.kept(last.under(config))
                    given[slot.place] = slot.version
                    return candidate
        return self._fetch(slot, config, given)

    def _fetch(self, slot: Slot, config: PluginConfig, given: Given) -> Candidate:
        """What the source gives. While it cannot be reached, what it gave last, if that serves. Raises SourceError."""
        try:
            candidate = self._pipeline.fetch(config)
        except SourceUnreachableError:
            is_there = slot.serves(slot.offered) and _origin(self._switch.configured(slot)) == _origin(config)
            if not (slot.live and is_there):
                raise
            return self._pipeline.kept(slot.live.revision.under(config))
        given[slot.place] = candidate.fetched.version
        return candidate

    def _reconfigure(self, slot: Slot, config: PluginConfig, version: str | None, *, is_ready: bool) -> None:
        """Without `is_ready` what the new configuration wants of a plugin that changes has yet to be had."""
        is_late = not is_ready and _differs(slot.config, config)
        if is_late:
            self._runs.cancel([slot], CONFIGURED)
        slot.version = None if is_late else version or slot.version  # Before the source: who follows it looks here.
        if is_late or (slot.config.guest_url, slot.config.source) != (config.guest_url, config.source):
            slot.source = self._pipeline.open(config)  # Another one is offered, whatever this one has given.
        slot.config = config

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
    """The source's revision that is no news any more after a run without a switch. One that was cancelled is."""
    rollout = run.rollout
    if rollout.stage is Stage.UNCHANGED:
        return rollout.revision if plan.offers else run.overrules
    was_refused = rollout.stage is Stage.FAILED and rollout.report is not None and not run.is_cancelled
    return rollout.revision if plan.offers and was_refused and not rollout.dry_run else None


def _differs(old: PluginConfig, new: PluginConfig) -> bool:
    """Whether a plugin has to be rolled out again, and is not only followed or watched over in another way."""
    return _origin(old) != _origin(new) or any(getattr(old, name) != getattr(new, name) for name in REVISED)


def _origin(config: PluginConfig) -> tuple[str | Path | None, ...]:
    """Where modules come from, and which are allowed."""
    return config.guest_url, config.digest, config.source.public_key


def keys(profiles: Sequence[ProfileConfig]) -> list[str]:
    """Where the configuration speaks of each plugin, in their order."""
    return [
        f"profiles[{at}].plugins[{index}]"
        for at, profile in enumerate(profiles)
        for index, _ in enumerate(profile.plugins)
    ]
