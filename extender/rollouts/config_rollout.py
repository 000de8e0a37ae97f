"""Makes the profiles of another configuration live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

from extender.config import PluginConfig, ProfileConfig
from extender.rollouts.live_plugins import LivePlugins, top_nodes_problems
from extender.rollouts.module_admission import ModuleAdmission
from extender.rollouts.pipeline import FetchedRevision, Pipeline, RolloutFailedError
from extender.rollouts.polling import RetryTrigger, SourcePollState
from extender.rollouts.revision import REVISED
from extender.rollouts.runs import RolloutRuns
from extender.rollouts.slot import Slot
from extender.rollouts.switch import REMOVED, Change, Switch, check, withdraw
from extender.sources import SourceError, SourceUnreachableError

CONFIGURED: Final = "the configuration has changed"

Given = dict[tuple[str, str], str]
"""The versions of what sources have given, by profile and plugin."""


class NotConfiguredError(RolloutFailedError):
    """A configuration cannot go live. Has every reason, and the versions that the sources gave."""

    def __init__(self, problems: list[str], given: Given) -> None:
        super().__init__(problems)
        self.given = given


class ConfigRollout:
    """Makes the profiles of another configuration live, all at once or none. For one thread at a time."""

    def __init__(
        self, live: LivePlugins, pipeline: Pipeline, switch: Switch, runs: RolloutRuns, admission: ModuleAdmission
    ) -> None:
        self._live = live
        self._pipeline = pipeline
        self._switch = switch
        self._runs = runs
        self._admission = admission

    def apply(self, profiles: Sequence[ProfileConfig], *, asks: bool = True) -> None:
        """Makes other profiles live.

        A plugin whose module or settings change is rolled out like any other candidate. A plugin that has no revision
        yet is not waited for: its source brings it live later. Unless it `asks`, a plugin whose settings alone change
        keeps its module, and its source is not asked. Raises NotConfiguredError if a plugin cannot be had; then nothing
        changes.
        """
        configs = self._places(profiles)
        changing = self._changing(configs)
        given: Given = {}
        self._runs.cancel(changing, CONFIGURED)
        with ExitStack() as stack:
            for slot in changing:
                stack.enter_context(slot.turn)
            changes = self._prepare_all(changing, configs, stack, given, asks=asks)
            candidates = {change.slot: change.live.plugin for change in changes}
            if problems := list(top_nodes_problems(profiles, configs, candidates)):
                withdraw(changes, "; ".join(problems))
                raise NotConfiguredError(problems, given)
            with self._switch.lock:
                try:
                    check(changes)
                except RolloutFailedError as error:
                    raise NotConfiguredError(error.problems, given) from error
                for slot in set(self._live.slots) - set(configs):
                    self._runs.cancel([slot], REMOVED)
                    self._switch.remove(slot)
                for key, slot in zip(keys(profiles), configs, strict=True):
                    self._reconfigure(slot, configs[slot], given.get(slot.place), is_ready=slot in changing)
                    slot.key = key
                self._switch.switch_all(changes, list(configs), profiles)
        self._admission.review(self._live.slots)

    def retry_trigger(self, profiles: Sequence[ProfileConfig], given: Given) -> RetryTrigger:
        """Fires when one of the sources of refused profiles gives another version than `given`."""
        configs = self._places(profiles)
        changing = self._changing(configs)
        return RetryTrigger(
            [SourcePollState(self._pipeline.open(configs[slot]), given.get(slot.place)) for slot in changing]
        )

    def _places(self, profiles: Sequence[ProfileConfig]) -> dict[Slot, PluginConfig]:
        """The slot of each plugin with its new configuration, in the order of the profiles."""
        return {
            self._live.slot(profile.name, plugin.name) or self._place(profile.name, plugin): plugin
            for profile in profiles
            for plugin in profile.plugins
        }

    def _changing(self, configs: Mapping[Slot, PluginConfig]) -> list[Slot]:
        """The plugins that the switch waits for: new plugins, and plugins that serve and change."""
        return [
            slot
            for slot, config in configs.items()
            if not slot.key or (slot.live and _differs(self._switch.configured(slot), config))
        ]

    def _place(self, profile: str, plugin: PluginConfig) -> Slot:
        """A new slot. If the plugin was configured before, it has the revisions that served then."""
        kept = self._pipeline.store.load(profile, plugin.name)
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
        """Prepares candidates, which may be cancelled until the stack is closed. Notes in `given` what sources gave.

        Raises NotConfiguredError with the problems of all plugins.
        """
        changes: list[Change] = []
        problems: list[str] = []
        for slot in slots:
            config, served = configs[slot], slot.live.revision if slot.live else None
            with self._switch.lock:
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

    def _fetch_if_need_be(self, slot: Slot, config: PluginConfig, given: Given) -> FetchedRevision:
        """The module of the last fetch, if it was good and only settings change; else what the source gives now."""
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

    def _fetch(self, slot: Slot, config: PluginConfig, given: Given) -> FetchedRevision:
        """What the source gives now. If the source cannot be reached, the module that serves. Raises SourceError."""
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
        """Gives a slot its new configuration. Without `is_ready`, the slot has yet to get what that wants."""
        is_late = not is_ready and _differs(slot.config, config)
        if is_late:
            self._runs.cancel([slot], CONFIGURED)
        slot.version = None if is_late else version or slot.version  # Before the source: who follows it looks here.
        if is_late or (slot.config.guest_url, slot.config.source) != (config.guest_url, config.source):
            slot.source = self._pipeline.open(config)  # Another one is offered, whatever this one has given.
        slot.config = config


def _differs(old: PluginConfig, new: PluginConfig) -> bool:
    """Whether a plugin has to be rolled out again. Other ways to poll its source or to watch it need no rollout."""
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
