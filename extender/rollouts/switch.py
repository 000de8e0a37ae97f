"""Where revisions go live."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from extender.config import PluginConfig, ProfileConfig
from extender.rollouts.drain import Drain
from extender.rollouts.journal import Journal
from extender.rollouts.live_plugins import LivePlugins, top_nodes_problems
from extender.rollouts.pipeline import RolloutFailedError, failing
from extender.rollouts.plugin_factory import LoadError
from extender.rollouts.probation import Probation
from extender.rollouts.revision import Revision, RolloutStage
from extender.rollouts.runs import CancelledError, RolloutRun
from extender.rollouts.slot import ActiveRevision, Slot
from extender.rollouts.state.retention import trim
from extender.rollouts.state.store import MAX_REVISIONS, PluginState, Store
from extender.scheduling.verbs import used_verbs
from wasm_runtime.guests.plugin import Plugin

logger = logging.getLogger(__name__)

REMOVED = "the plugin was taken out of the configuration"


class Change(NamedTuple):
    """A candidate that is ready to go live."""

    run: RolloutRun
    slot: Slot
    live: ActiveRevision
    offers: bool = False
    """Whether it is what the configuration wants."""


class Switch:
    """Makes candidates live, by one assignment of all profiles; and says which are on probation.

    `lock` is held for a switch, and by those who decide whether there is one. Nobody who has it waits for a disk, for
    the network or for a guest.
    """

    def __init__(
        self,
        live: LivePlugins,
        store: Store,
        journal: Journal,
        drain: Drain,
        profiles: Sequence[ProfileConfig],
        wake: Callable[[], object],
        *,
        is_standby: bool,
    ) -> None:
        """`profiles` is what is configured now; `wake` has rejected pods tried again.

        With `is_standby` the process may not be asked for long: a probation begins with the first call.
        """
        self.lock = threading.RLock()
        self._live = live
        self._store = store
        self._journal = journal
        self._drain = drain
        self._profiles = profiles
        self._wake = wake
        self._is_standby = is_standby
        self._probations: dict[Slot, Probation] = {}

    def switch_one(self, change: Change, problem: str = "") -> None:
        """Makes a candidate live. `problem` is why the one before is taken back.

        Raises RolloutFailedError if it was cancelled just before.
        """
        with self.lock:
            if change.slot not in self._live.slots:
                change.run.cancel(REMOVED)
            check([change])
            self._exchange([change], self._live.slots, problem)

    def switch_all(self, changes: Sequence[Change], slots: Sequence[Slot], profiles: Sequence[ProfileConfig]) -> None:
        """Makes other profiles live, with the candidates that have changed for them.

        The caller has the lock, and has checked the candidates.
        """
        self._profiles = profiles
        self._store.expect([slot.place for slot in slots])
        self._exchange(changes, slots)

    def require_scores(self, slot: Slot, candidate: Plugin) -> None:
        """Raises LoadError if a profile with topNodes would have no scores once the candidate takes its slot."""
        with self.lock:
            problems = list(top_nodes_problems(self._profiles, self._live.slots, {slot: candidate}))
        if problems:
            raise LoadError(problems)

    def rebuild_profiles(self) -> None:
        """Makes the profiles anew, of what is in the slots now."""
        self._live.switch(self._profiles, self._live.slots)

    def configured(self, slot: Slot) -> PluginConfig:
        """What is configured for a slot, of the configuration that is live."""
        return next(
            (
                plugin
                for profile in self._profiles
                for plugin in profile.plugins
                if (profile.name, plugin.name) == slot.place
            ),
            slot.config,
        )

    def remove(self, slot: Slot) -> None:
        """Takes out a plugin that is not configured any more. The caller has the lock."""
        self.end_probation(slot)
        if slot.live:
            self._drain.add(slot, slot.live)

    def set_offered(self, slot: Slot, revision: str) -> None:
        """Records which revision the source has given, and makes nothing live."""
        with self.lock:
            slot.offered = revision
            self._save(slot)

    def end_probation(self, slot: Slot) -> None:
        """Ends the probation in a slot, whatever its outcome would be. The caller has the lock."""
        self._probations.pop(slot, None)
        slot.standby = None

    def failing(self) -> Iterator[tuple[Slot, Revision, str]]:
        """The slots that have to be rolled back, each with the revision to go back to, and why.

        Ends the probations whose time is over.
        """
        for slot, probation in list(self._probations.items()):
            problem = probation.problem
            if problem and slot.standby:
                yield slot, slot.standby.revision, problem
            elif probation.is_over:
                self.end_probation(slot)

    def _exchange(self, changes: Sequence[Change], slots: Sequence[Slot], problem: str = "") -> None:
        replaced = [change.slot.live for change in changes]
        asked = used_verbs(self._live.profiles)
        for change in changes:
            change.slot.live = change.live
        self._live.switch(self._profiles, slots)
        for change, before in zip(changes, replaced, strict=True):
            with suppress(RolloutFailedError), failing(change.run):  # It serves, and so do those after it.
                self._settle(change, before, problem)
        for slot in trim(slots, self._store.size, self._store.limit):
            self._save(slot)
        if new := used_verbs(self._live.profiles) - asked:
            logger.warning(
                "plugins have a say in %s now; kube-scheduler asks for that only if its configuration names the verb,"
                " as kwx scheduler-config prints it%s",
                " and ".join(sorted(new)),
                ", and bind only where the extender is not ignorable" if "bind" in new else "",
            )
        if any(change.slot.config.swap.wake_pods for change in changes):
            self._wake()

    def _settle(self, change: Change, before: ActiveRevision | None, problem: str) -> None:
        """Does what is left to do once a revision serves."""
        slot = change.slot
        rollout = change.run.rollout.at(RolloutStage.ACTIVE, replaces=before.revision.id if before else None)
        slot.live = dataclasses.replace(change.live, rollout=rollout)
        slot.problem = slot.unmet = ""
        if change.offers:
            slot.offered, slot.refusal = slot.live.revision.id, ""
        elif change.run.overrules:
            slot.offered = change.run.overrules
        is_return = bool(problem) and slot.live.revision.id in {each.id for each in slot.revisions}
        if not is_return:
            slot.revisions = with_newest(slot.revisions, slot.live.revision, before.revision if before else None)
        self._put_on_probation(slot, None if problem else before)
        self._save(slot)
        try:
            change.run.record(rollout)  # Now: whoever is told finds it so.
        finally:
            if before:
                self._drain.add(slot, before, problem)

    def _put_on_probation(self, slot: Slot, before: ActiveRevision | None) -> None:
        """Begins the probation of what is new, unless it had proven good before."""
        good = (slot.standby or before) if before and slot.config.swap.rollback == "automatic" else None
        if good is None or slot.live is None or slot.serves(good.revision.id):
            self.end_probation(slot)
            return
        slot.standby = good  # In one step: the drain looks at it.
        self._probations[slot] = Probation(
            slot.live.profile_plugin, good.profile_plugin, slot.config.swap, from_first_call=self._is_standby
        )

    def _save(self, slot: Slot) -> None:
        if slot.live:
            self._journal.save(slot.profile, slot.name, PluginState(slot.live.revision, slot.offered, slot.revisions))


def check(changes: Sequence[Change]) -> None:
    """Raises RolloutFailedError if one was cancelled just before the switch; then none is of use."""
    try:
        for change in changes:
            change.run.check()
    except CancelledError as error:
        withdraw(changes, str(error))
        raise RolloutFailedError([str(error)]) from error


def withdraw(changes: Sequence[Change], problem: str) -> None:
    """Closes the guests of a candidate that does not go live."""
    for change in changes:
        change.live.plugin.close()
        change.run.fail(problem)


def with_newest(revisions: Sequence[Revision], newest: Revision, before: Revision | None) -> list[Revision]:
    """The revisions that have served, one more included; `before` is the one that has done so until now."""
    ahead = [newest, before] if before and before.id != newest.id else [newest]
    ids = {each.id for each in ahead}
    return [*ahead, *(each for each in revisions if each.id not in ids)][:MAX_REVISIONS]
