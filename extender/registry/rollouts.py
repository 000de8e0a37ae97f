"""Brings candidates live, and earlier revisions back."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from extender.config import PluginConfig, ProfileConfig
from extender.registry.attempt import Attempt, CancelledError
from extender.registry.drain import Drain
from extender.registry.guard import Guard
from extender.registry.journal import Journal
from extender.registry.order import ConflictError, Earlier, Look, Order, OrderError, Url
from extender.registry.pipeline import Fetch, Pipeline, RolloutFailedError, failing
from extender.registry.registry import Registry, assemble
from extender.registry.revision import REVISED, Revision, Stage, configure
from extender.registry.rollout import Rollout
from extender.registry.slot import Live, Slot
from extender.registry.store import MOST_REVISIONS, Kept
from extender.sources import Fetched, Source, SourceError, UnreachableError
from wasm_runtime.plugin import digest

logger = logging.getLogger(__name__)

SHORTEST_PREFIX: Final = 8
"""Hexadecimal digits by which a revision may be named."""

LONGEST_END: Final = 5.0
"""Seconds that the end of the process waits for rollouts that are under way."""


REMOVED: Final = "the plugin was taken out of the configuration"


class _Wanted(NamedTuple):
    """What an order comes to."""

    config: PluginConfig
    fetch: Fetch
    revision: str | None
    """Its id, where it is known before the module is fetched."""
    verified: Revision | None = None
    """An earlier revision of the same module."""
    offers: bool = False
    """Whether it is what the configuration wants."""


class _Change(NamedTuple):
    """A candidate that is ready for the switch."""

    attempt: Attempt
    slot: Slot
    live: Live
    offers: bool = False
    """Whether it is what the configuration wants."""


class Rollouts:
    """Carries out what sources, the configuration file and operators want to become live. May be used from any thread.

    A slot has one rollout at a time. An operator's ends one of the source's, a rollback ends any.
    """

    def __init__(
        self,
        registry: Registry,
        pipeline: Pipeline,
        journal: Journal,
        drain: Drain,
        profiles: Sequence[ProfileConfig],
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        """`profiles` is what is configured now; `wake` has rejected pods tried again."""
        self.registry = registry
        self.journal = journal
        self._pipeline = pipeline
        self._store = pipeline.store
        self._drain = drain
        self._profiles = profiles
        self._wake = wake
        self._lock = threading.RLock()
        """Held for a switch, and for what decides whether there is one."""
        self._attempts: dict[Slot, Attempt] = {}
        """The last one of each slot; it may be over. They are cancelled with the lock held."""
        self._is_closed = False
        self._guards: dict[Slot, Guard] = {}
        self._threads: list[threading.Thread] = []

    def slot(self, profile: str, plugin: str) -> Slot | None:
        """The place of a plugin."""
        return next((slot for slot in self.registry.slots if (slot.profile, slot.name) == (profile, plugin)), None)

    def revisions(self, slot: Slot) -> list[tuple[Revision, Stage]]:
        """Those that have served, the newest first."""
        with self._lock:
            return [
                (each, Stage.ACTIVE if _is_live(slot, each.id) else self._drain.stage(slot, each.id))
                for each in slot.revisions
            ]

    def get(self, number: int) -> Rollout | None:
        """A rollout as it is now; None for one that is long over."""
        return self.journal.get(number)

    def history(self, limit: int, profile: str | None = None, plugin: str | None = None) -> list[Rollout]:
        """How rollouts have ended, the newest first."""
        return self._store.history(limit, profile, plugin)

    def begin(self, slot: Slot, order: Order) -> Rollout:
        """Begins what an operator orders; what is under way or done already is not begun again.

        Raises OrderError, ConflictError.
        """
        with self._lock:
            _expect(slot, order.expected)
            wanted = self._understand(slot, order)
            if wanted.revision and not order.dry_run:
                if slot.live and slot.live.revision.id == wanted.revision:
                    return slot.live.rollout
                running = self._running(slot)
                if running and running.rollout.revision == wanted.revision and not running.rollout.dry_run:
                    return running.rollout
            attempt = self._attempt(
                slot,
                order.by,
                order.why,
                is_operators=True,
                overrules=self._make_way(slot),
                dry_run=order.dry_run,
                revision=wanted.revision,
            )
            self._in_background(partial(self._take_turn, attempt, slot, wanted))
            return attempt.rollout

    def roll_back(
        self, slot: Slot, *, by: str, why: str = "", to: str | None = None, expected: str | None = None
    ) -> Rollout:
        """Begins the way back to an earlier revision, which is not probed: to the one before, unless one is named.

        Raises OrderError, ConflictError.
        """
        with self._lock:
            _expect(slot, expected)
            revision = _earlier(slot, to) if to else _before(slot)
            overruled = self._overrule(slot, _going_back(revision))
            if slot.live and slot.live.revision.id == revision.id:
                if overruled:
                    self._set_offered(slot, overruled)
                return slot.live.rollout
            attempt = self._begin_return(slot, revision, by, why, overruled)
            self._in_background(partial(self._return, attempt, slot, revision, why or f"rolled back by {by}"))
            return attempt.rollout

    def offer(self, slot: Slot, source: Source, fetched: Fetched) -> bool:
        """Brings live what the source gives, unless that is no news. Returns when it is live or refused.

        False if an order has come before it: it is to be offered again when that is carried out.
        """
        with slot.turn:
            with self._lock:
                if source is not slot.source:
                    return True  # Another one was configured meanwhile.
                if self._running(slot):
                    return False
                revision = Revision.of(digest(fetched.wasm), slot.config, fetched.origin)
                if slot.live and revision.id == slot.offered:
                    return True
                if _is_live(slot, revision.id):
                    self._set_offered(slot, revision.id)
                    return True
                attempt = self._attempt(slot, "source", revision=revision.id)
            self._carry_out(attempt, slot, _Wanted(slot.config, lambda: fetched, revision.id, offers=True))
        return not attempt.is_cancelled

    def refuse(self, slot: Slot, problem: str) -> None:
        """Tells that the source gives nothing of use."""
        self._explain(slot, problem)
        Attempt(self._rollout(slot, "source"), self.journal).fail(problem)

    def _explain(self, slot: Slot, problem: str) -> None:
        """Keeps what is wrong with a source, which pods are told if nothing serves in the slot."""
        with self._lock:
            slot.problem = problem
            if slot.live is None and slot in self.registry.slots:
                self.registry.switch(assemble(self._profiles, self.registry.slots), self.registry.slots)

    def look(self) -> None:
        """Ends probations, brings the good revision back where one fails, and retires what is drained."""
        with self._lock:
            for slot, guard in list(self._guards.items()):
                self._judge(slot, guard)
        self._drain.look()

    def configure(self, profiles: Sequence[ProfileConfig]) -> None:
        """Makes other profiles live, all at once. Raises RolloutFailedError if a plugin cannot be had; then none is.

        A plugin whose module or settings change is rolled out like any other candidate. Where nothing serves yet it is
        not waited for: its source brings it live.
        """
        slots, configs = self._places(profiles)
        changing = _changing(configs)
        self._cancel(changing, "the configuration has changed")
        with ExitStack() as turns:
            for slot in changing:
                turns.enter_context(slot.turn)
            changes = self._prepare_all(changing, configs)
            with self._lock:
                self._check(changes)
                for slot in set(self.registry.slots) - set(slots):
                    self._remove(slot)
                for slot in slots:
                    self._reconfigure(slot, configs[slot], is_ready=slot in changing)
                for slot, key in zip(slots, keys(profiles), strict=True):
                    slot.key = key
                self._profiles = profiles
                self._switch(changes, slots)

    def given(self, profiles: Sequence[ProfileConfig]) -> list[str]:
        """What the sources give of the plugins that other profiles would change: digests, or why there is none."""
        _, configs = self._places(profiles)
        return [self._given(configs[slot]) for slot in _changing(configs)]

    def _given(self, config: PluginConfig) -> str:
        try:
            return digest(self._fetch(config).wasm)
        except SourceError as error:
            return str(error)

    def close(self) -> None:
        """Ends what is under way; nothing goes live any more."""
        with self._lock:
            self._is_closed = True
            self._cancel(list(self._attempts), _THE_END)
        until = time.monotonic() + LONGEST_END
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _running(self, slot: Slot) -> Attempt | None:
        running = self._attempts.get(slot)
        return running if running and not running.rollout.is_over else None

    def _cancel(self, slots: Sequence[Slot], reason: str) -> None:
        with self._lock:
            for slot in slots:
                if running := self._running(slot):
                    running.cancel(reason)

    def _understand(self, slot: Slot, order: Order) -> _Wanted:
        """Raises OrderError."""
        what = order.what
        if isinstance(what, Earlier):
            revision = _earlier(slot, what.revision)
            return self._again(revision, _with(revision.configure(slot.config), order.settings))
        if isinstance(what, Look):
            if not order.settings:
                return _Wanted(slot.config, partial(self._fetch, slot.config), None, offers=True)
            if slot.live is None:
                raise OrderError(f"plugin {slot.name} has no module yet whose settings could be changed")
            return self._again(slot.live.revision, _with(_serving(slot), order.settings))
        config = _with(_serving(slot), order.settings)
        if isinstance(what, Url):
            elsewhere = _with_url(config, what.url)
            return _Wanted(config, partial(self._fetch, elsewhere), None)
        signatures = (what.signature,) if what.signature else ()
        fetched = Fetched(what.wasm, f"upload by {order.by}", "", signatures)
        return _Wanted(config, lambda: fetched, Revision.of(digest(what.wasm), config, fetched.origin).id)

    def _again(self, revision: Revision, config: PluginConfig) -> _Wanted:
        """A module that has served, perhaps with other settings."""
        wanted = Revision.of(revision.module, config, revision.origin).id
        return _Wanted(config, partial(self._pipeline.kept, revision), wanted, revision)

    def _fetch(self, config: PluginConfig) -> Fetched:
        fetched = self._pipeline.open(config).fetch()
        if fetched is None:
            raise SourceError(f"{config.guest_url} changes while it is read; try again when it is whole")
        return fetched

    def _fetch_again(self, slot: Slot, config: PluginConfig) -> Fetched:
        """What the source gives. While it cannot be reached, what it gave last, if that serves."""
        try:
            return self._fetch(config)
        except UnreachableError:
            if slot.live is None or slot.live.revision.id != slot.offered or _origin(slot.config) != _origin(config):
                raise
            return self._pipeline.kept(slot.live.revision)

    def _make_way(self, slot: Slot) -> str | None:
        """Ends a rollout of the source's, and returns its revision. Raises ConflictError for an operator's."""
        running = self._running(slot)
        if running and running.is_operators:
            rollout = running.rollout
            raise ConflictError(
                f"rollout {rollout.id} of plugin {slot.name} by {rollout.by} is under way ({rollout.stage.value});"
                " wait for its end"
            )
        return self._overrule(slot, "an operator's rollout has come before it")

    def _overrule(self, slot: Slot, reason: str) -> str | None:
        """Ends what is under way, and returns its revision if that is the source's."""
        running = self._running(slot)
        if running is None:
            return None
        running.cancel(reason)
        return running.overrules if running.is_operators else running.rollout.revision

    def _rollout(self, slot: Slot, by: str, why: str = "", **more: Any) -> Rollout:
        number = self._store.next_id()
        return Rollout(id=number, profile=slot.profile, plugin=slot.name, by=by, why=why, **more)

    def _attempt(
        self,
        slot: Slot,
        by: str,
        why: str = "",
        *,
        is_operators: bool = False,
        overrules: str | None = None,
        **more: Any,
    ) -> Attempt:
        rollout = self._rollout(slot, by, why, **more)
        attempt = Attempt(rollout, self.journal, is_operators=is_operators, overrules=overrules)
        if self._is_closed:
            attempt.cancel(_THE_END)
        self._attempts[slot] = attempt
        return attempt

    def _end(self, slot: Slot, attempt: Attempt) -> None:
        with self._lock:
            if self._attempts.get(slot) is attempt:
                del self._attempts[slot]

    def _take_turn(self, attempt: Attempt, slot: Slot, wanted: _Wanted) -> None:
        with slot.turn:
            self._carry_out(attempt, slot, wanted)

    def _carry_out(self, attempt: Attempt, slot: Slot, wanted: _Wanted) -> None:
        """Takes a candidate all the way, or as far as it gets."""
        try:
            live = self._pipeline.prepare(attempt, slot, wanted.config, wanted.fetch, wanted.verified)
            if live:
                self._switch_alone(_Change(attempt, slot, live, wanted.offers))
        except RolloutFailedError as error:  # The attempt has said why.
            if wanted.offers and slot.live is None and not attempt.is_cancelled:
                self._explain(slot, str(error))
        finally:
            self._end(slot, attempt)
        rollout = attempt.rollout
        was_refused = rollout.stage is Stage.FAILED and rollout.report is not None
        is_settled = was_refused or rollout.stage is Stage.UNCHANGED
        if wanted.offers and rollout.revision and is_settled and not rollout.dry_run:
            self._set_offered(slot, rollout.revision)

    def _switch_alone(self, change: _Change, problem: str = "") -> None:
        """Raises RolloutFailedError if it was cancelled just before."""
        with self._lock:
            if change.slot not in self.registry.slots:
                change.attempt.cancel(REMOVED)
            self._check([change])
            self._switch([change], self.registry.slots, problem)

    def _check(self, changes: Sequence[_Change]) -> None:
        """Raises RolloutFailedError if one was cancelled just before the switch; then none is of use."""
        try:
            for change in changes:
                change.attempt.check()
        except CancelledError as error:
            _withdraw(changes, str(error))
            raise RolloutFailedError([str(error)]) from error

    def _switch(self, changes: Sequence[_Change], slots: Sequence[Slot], problem: str = "") -> None:
        """The one place where revisions go live. `problem` is why those before have to go."""
        replaced = [change.slot.live for change in changes]
        for change in changes:
            change.slot.live = change.live
        self.registry.switch(assemble(self._profiles, slots), slots)
        for change, before in zip(changes, replaced, strict=True):
            self._settle(change, before, problem)
        if any(change.slot.config.swap.wake_pods for change in changes):
            self._wake()

    def _settle(self, change: _Change, before: Live | None, problem: str) -> None:
        """Does what is left to do once a revision serves."""
        slot = change.slot
        rollout = change.attempt.rollout.at(Stage.ACTIVE, replaces=before.revision.id if before else None)
        slot.live = dataclasses.replace(change.live, rollout=rollout)
        slot.problem = ""
        if change.offers:
            slot.offered = slot.live.revision.id
        elif change.attempt.overrules:
            slot.offered = change.attempt.overrules
        if not (problem and any(_is_live(slot, each.id) for each in slot.revisions)):
            slot.revisions = with_newest(slot.revisions, slot.live.revision, before.revision if before else None)
        self._put_on_probation(slot, None if problem else before)
        self._save(slot)
        change.attempt.record(rollout)  # Now: whoever is told finds it so.
        if before:
            self._drain.add(slot, before, problem)

    def _put_on_probation(self, slot: Slot, before: Live | None) -> None:
        """Watches over what is new, unless it is what had proven good before."""
        self._guards.pop(slot, None)
        good = (slot.standby or before) if before and slot.config.swap.rollback == "automatic" else None
        if good is None or slot.live is None or _is_live(slot, good.revision.id):
            slot.standby = None
            return
        slot.standby = good  # In one step: the drain looks at it.
        self._guards[slot] = Guard(slot.live.entry, good.entry, slot.config.swap)

    def _judge(self, slot: Slot, guard: Guard) -> None:
        problem = guard.problem
        if problem and slot.standby:
            revision = slot.standby.revision
            why = f"revision {slot.live.revision.id if slot.live else ''}: {problem}"
            self._cancel([slot], _going_back(revision))  # What the source gives is offered again.
            self._return(self._begin_return(slot, revision, "rollback", why), slot, revision, problem)
        elif guard.is_over:
            del self._guards[slot]
            slot.standby = None

    def _begin_return(self, slot: Slot, revision: Revision, by: str, why: str, overrules: str | None = None) -> Attempt:
        return self._attempt(
            slot,
            by,
            why,
            is_operators=True,
            overrules=overrules,
            revision=revision.id,
            module=revision.module,
            origin=revision.origin,
        )

    def _return(self, attempt: Attempt, slot: Slot, revision: Revision, problem: str) -> None:
        """Brings a revision back: with its guests if they are still there, else with new ones."""
        try:
            with failing(attempt), self._lock:
                attempt.check()
                live = self._drain.take(slot, revision.id)
                if live:
                    attempt.advance(Stage.WARMED)
                    self._switch_alone(_Change(attempt, slot, live), problem)
                    return
            self._switch_alone(_Change(attempt, slot, self._pipeline.restore(attempt, slot, revision)), problem)
        except RolloutFailedError:
            pass  # The attempt has said why.
        finally:
            self._end(slot, attempt)

    def _set_offered(self, slot: Slot, revision: str) -> None:
        with self._lock:
            slot.offered = revision
            self._save(slot)

    def _save(self, slot: Slot) -> None:
        if slot.live:
            self._store.save(slot.profile, slot.name, Kept(slot.live.revision, slot.offered, slot.revisions))

    def _places(self, profiles: Sequence[ProfileConfig]) -> tuple[list[Slot], dict[Slot, PluginConfig]]:
        """The slot of each plugin, in order, and what it is to be configured to be."""
        configs: dict[Slot, PluginConfig] = {}
        for profile in profiles:
            for plugin in profile.plugins:
                slot = self.slot(profile.name, plugin.name) or Slot(
                    "", profile.name, plugin, self._pipeline.open(plugin)
                )
                configs[slot] = plugin
        return list(configs), configs

    def _prepare_all(self, slots: Sequence[Slot], configs: Mapping[Slot, PluginConfig]) -> list[_Change]:
        """Raises RolloutFailedError with the problems of all."""
        changes: list[_Change] = []
        problems: list[str] = []
        for slot in slots:
            config, served = configs[slot], slot.live.revision if slot.live else None
            with self._lock:
                self._cancel([slot], "the configuration has changed")
                attempt = self._attempt(slot, "configuration", is_operators=True)
            try:
                fetch = partial(self._fetch_again, slot, config)
                live = self._pipeline.prepare(attempt, slot, config, fetch, served)
                if live:
                    changes.append(_Change(attempt, slot, live, offers=True))
            except RolloutFailedError as error:
                problems += [f"plugin {slot.name} of profile {slot.profile}: {problem}" for problem in error.problems]
        if problems:
            _withdraw(changes, "another plugin of the same configuration cannot be had")
            raise RolloutFailedError(problems)
        return changes

    def _reconfigure(self, slot: Slot, config: PluginConfig, *, is_ready: bool) -> None:
        """Without `is_ready` what the new configuration wants of a plugin that changes has yet to be had."""
        is_late = not is_ready and _differs(slot.config, config)
        if is_late:
            self._cancel([slot], "the configuration has changed")
        if is_late or (slot.config.guest_url, slot.config.source) != (config.guest_url, config.source):
            slot.source = self._pipeline.open(config)  # Another one is offered, whatever this one has given.
        slot.config = config

    def _remove(self, slot: Slot) -> None:
        """Lets a plugin go that is configured no more."""
        self._cancel([slot], REMOVED)
        self._guards.pop(slot, None)
        slot.standby = None
        if slot.live:
            self._drain.add(slot, slot.live)

    def _in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="rollout", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
        thread.start()
        self._threads.append(thread)


def _withdraw(changes: Sequence[_Change], problem: str) -> None:
    """Gives back what does not go live."""
    for change in changes:
        change.live.entry.plugin.close()
        change.attempt.fail(problem)


_THE_END: Final = "the extender ends"


def _going_back(revision: Revision) -> str:
    """Why what is under way is cancelled."""
    return f"the plugin goes back to revision {revision.id}"


def _is_live(slot: Slot, revision: str) -> bool:
    return slot.live is not None and slot.live.revision.id == revision


def _expect(slot: Slot, expected: str | None) -> None:
    """Raises ConflictError unless the revision that somebody believes to be active is."""
    active = slot.live.revision.id if slot.live else "none"
    if expected is not None and expected != active:
        raise ConflictError(f"revision {active} of plugin {slot.name} is active, not {expected}; look at it again")


def _earlier(slot: Slot, name: str) -> Revision:
    """The revision of an id, or of the beginning of one. Raises OrderError."""
    digits = name.removeprefix("sha256:")
    found = [each for each in slot.revisions if each.id.startswith(f"sha256:{digits}")]
    if len(digits) >= SHORTEST_PREFIX and len(found) == 1:
        return found[0]
    known = ", ".join(each.id for each in slot.revisions) or "none"
    raise OrderError(
        f"plugin {slot.name} has no one revision {name!r} (an id, or at least {SHORTEST_PREFIX} digits of one);"
        f" there are: {known}"
    )


def _before(slot: Slot) -> Revision:
    """The revision to go back to. Raises OrderError."""
    if slot.standby:
        return slot.standby.revision
    ids = [each.id for each in slot.revisions]
    at = ids.index(slot.live.revision.id) + 1 if slot.live and slot.live.revision.id in ids else 0
    if at == len(ids):
        raise OrderError(f"plugin {slot.name} has no earlier revision to go back to")
    return slot.revisions[at]


def _serving(slot: Slot) -> PluginConfig:
    """The plugin's configuration with the settings of what serves."""
    return slot.live.revision.configure(slot.config) if slot.live else slot.config


_ALIASES: Final = {str(PluginConfig.model_fields[name].alias): name for name in REVISED}


def _with(config: PluginConfig, settings: Mapping[str, Any]) -> PluginConfig:
    """Raises OrderError."""
    unknown = sorted(settings.keys() - _ALIASES.keys())
    if unknown:
        raise OrderError(f"{', '.join(unknown)}: cannot be set; expected some of {', '.join(_ALIASES)}")
    return _validated(config, settings)


def _with_url(config: PluginConfig, url: str) -> PluginConfig:
    """Raises OrderError."""
    if url.startswith("file:"):
        raise OrderError("expected a URL of http, https or oci: a file of the extender's machine is none of the API's")
    return _validated(config, {"guestURL": url})


def _validated(config: PluginConfig, settings: Mapping[str, Any]) -> PluginConfig:
    try:
        return configure(config, settings)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise OrderError("; ".join(problems)) from error


def _differs(old: PluginConfig, new: PluginConfig) -> bool:
    """Whether a plugin has to be rolled out again, and is not only followed or watched over in another way."""
    return _origin(old) != _origin(new) or any(getattr(old, name) != getattr(new, name) for name in REVISED)


def _origin(config: PluginConfig) -> tuple[str | Path | None, ...]:
    """Where modules come from, and which are allowed."""
    return config.guest_url, config.digest, config.source.public_key


def _changing(configs: Mapping[Slot, PluginConfig]) -> list[Slot]:
    """The plugins that a switch to a configuration waits for: new ones, and those that serve and are to be others."""
    return [slot for slot, config in configs.items() if not slot.key or (slot.live and _differs(slot.config, config))]


def with_newest(revisions: Sequence[Revision], newest: Revision, before: Revision | None) -> list[Revision]:
    """The revisions that have served, one more included; `before` is the one that has done so until now."""
    ahead = [newest, before] if before and before.id != newest.id else [newest]
    ids = {each.id for each in ahead}
    return [*ahead, *(each for each in revisions if each.id not in ids)][:MOST_REVISIONS]


def keys(profiles: Sequence[ProfileConfig]) -> list[str]:
    """Where the configuration speaks of each plugin, in their order."""
    return [
        f"profiles[{at}].plugins[{index}]"
        for at, profile in enumerate(profiles)
        for index, _ in enumerate(profile.plugins)
    ]
