"""From a configuration file to plugins that serve."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from extender import config
from extender.config import ConfigError, ExtenderConfiguration, PluginConfig, Replicas, RuntimeConfig
from extender.config.urls import public
from extender.rollouts.config_rollout import keys
from extender.rollouts.engines import EngineError
from extender.rollouts.journal import START, Journal
from extender.rollouts.live_plugins import LivePlugins, top_nodes_problems
from extender.rollouts.pipeline import (
    Fetch,
    FetchedRevision,
    RolloutFailedError,
    check_digest,
    failing,
    kept,
    verify,
    warmed,
)
from extender.rollouts.plugin_factory import LoadError, PluginFactory
from extender.rollouts.revision import Revision, RolloutStage, configure, settings_of
from extender.rollouts.rollout import Rollout
from extender.rollouts.runs import RolloutRun
from extender.rollouts.slot import Slot
from extender.rollouts.state.retention import trim
from extender.rollouts.state.store import PluginState, Store
from extender.rollouts.switch import with_newest
from extender.sources import Source, SourceError, SourceUnreachableError
from extender.sources.factory import open_source
from extender.sources.source import fetch_now
from wasm_runtime.compile.cache import CacheError
from wasm_runtime.engine import Handle
from wasm_runtime.guests.plugin import Observer, Sink

logger = logging.getLogger(__name__)

FETCH_TIMEOUT_S: Final = 10.0
"""Seconds that the start waits for web servers and registries: as long nothing is served, health included."""


class Loaded(NamedTuple):
    """What a configuration file has become."""

    configuration: ExtenderConfiguration
    live: LivePlugins
    plugin_factory: PluginFactory
    store: Store
    journal: Journal

    def close(self) -> None:
        """Gives all guests back, ends what is being compiled, and writes down what is left."""
        self.plugin_factory.close()
        self.live.close()
        self.journal.close()
        self.store.close()


def load(
    file: Path,
    sink: Sink = lambda *_: None,
    observer: Observer = lambda *_: None,
    handle: Handle | None = None,
    *,
    keeps: bool = False,
) -> Loaded:
    """Reads a configuration file; fetches, compiles and starts its plugins.

    With `keeps`, what is kept of an earlier process counts, and what serves is kept. A plugin whose source cannot be
    reached then serves with its last good revision; without one its slot stays empty. Raises ConfigError with all
    problems of the file and of the modules that it names.
    """
    try:
        configuration = config.read(file)
    except ConfigError as error:
        modules = _problems_of_modules(file, error.plugins)
        raise ConfigError(file, [*error.problems, *modules]) from error
    try:
        plugin_factory = PluginFactory(configuration.runtime, sink, observer, handle, configuration.server.replicas)
    except (CacheError, EngineError) as error:
        raise ConfigError(file, [str(error)]) from error
    state = configuration.server.state_directory
    folder = file.absolute().parent
    limit = configuration.server.state_limit
    store = Store.open(folder / state if state else None, file, limit) if keeps else Store(None)
    return _Start(file, configuration, plugin_factory, store).load()


class _Start:
    """Starts the plugins of a configuration."""

    def __init__(
        self, file: Path, configuration: ExtenderConfiguration, plugin_factory: PluginFactory, store: Store
    ) -> None:
        self._file = file
        self._folder = file.absolute().parent
        self._configuration = configuration
        self._plugin_factory = plugin_factory
        self._store = store
        self._has_replicas = configuration.server.replicas is not Replicas.NONE
        self._journal = Journal(store)
        self._runs: dict[Slot, RolloutRun] = {}
        self._served: dict[Slot, Revision] = {}
        """The revision that served in each slot before this process."""

    def load(self) -> Loaded:
        """Raises ConfigError with the problems of all plugins."""
        profiles = self._configuration.profiles
        problems: list[str] = []
        plugins = [(profile.name, plugin) for profile in profiles for plugin in profile.plugins]
        slots = [
            Slot(key, profile, plugin, self._open(plugin))
            for key, (profile, plugin) in zip(keys(profiles), plugins, strict=True)
        ]
        fetching = [_in_thread(partial(self._fetch, slot.config)) for slot in slots]
        until = time.monotonic() + FETCH_TIMEOUT_S
        for slot, fetched in zip(slots, fetching, strict=True):
            try:
                self._fill(slot, partial(_wait, slot, fetched, until))
            except RolloutFailedError as error:
                problems += _name(slot.key, slot.config, error.problems)
        problems += top_nodes_problems(profiles, slots)
        live = LivePlugins(profiles, slots)
        loaded = Loaded(self._configuration, live, self._plugin_factory, self._store, self._journal)
        if problems:
            loaded.close()
            raise ConfigError(self._file, problems)
        self._store.expect([slot.place for slot in slots])
        for slot, run in self._runs.items():
            self._settle(slot, run)
        for slot in trim(slots, self._store.size, self._store.limit):
            self._save(slot)
        self._journal.flush()
        return loaded

    def _open(self, plugin: PluginConfig) -> Source:
        return open_source(plugin, self._folder, self._plugin_factory.module_limit)

    def _fetch(self, plugin: PluginConfig) -> FetchedRevision:
        """Raises SourceUnreachableError or RolloutFailedError."""
        try:
            fetched = fetch_now(self._open(plugin))
            # Before it may be no news: what served last does not stand in for it.
            check_digest(plugin, fetched.module.digest, fetched.origin)
        except SourceUnreachableError:
            raise
        except SourceError as error:
            raise RolloutFailedError([str(error)]) from error
        return FetchedRevision.of(fetched, plugin)

    def _fill(self, slot: Slot, fetch: Fetch) -> None:
        """Puts into a slot what its source gives, or else what served last. Raises RolloutFailedError."""
        state = self._store.load(slot.profile, slot.name)
        if state:
            slot.offered, slot.revisions = state.offered, list(state.revisions)
            self._served[slot] = state.active
        try:
            candidate = fetch()
        except SourceUnreachableError as error:
            self._fall_back(slot, state, str(error))
            return
        slot.version = candidate.fetched.version
        offered = candidate.revision.id
        is_no_news = state is not None and offered == state.offered != state.active.id
        if (
            state
            and is_no_news
            and not self._is_overruled(state)
            and self._restore(slot, state.active, state.active.settings)
        ):
            logger.warning("%s", slot.notice, extra={"plugin": slot.name, "profile": slot.profile})
            return
        slot.offered = offered
        self._start(slot, slot.config, lambda: candidate)

    def _fall_back(self, slot: Slot, state: PluginState | None, problem: str) -> None:
        """Serves with the last good revision while the source cannot be reached. Without one the slot stays empty."""
        slot.problem = problem
        fields = {"plugin": slot.name, "profile": slot.profile}
        last = self._last_good(state) if state else None
        if state and last and self._restore(slot, last, _settings_after(state, last, slot.config)) and slot.live:
            fields["revision"] = slot.live.revision.id
            if state.offered == last.id:  # The source gave this last, as it is configured now.
                slot.offered = slot.live.revision.id
            logger.warning("the last good revision serves until the source can be reached: %s", problem, extra=fields)
        else:
            logger.error("a plugin is not there yet: %s", problem, extra=fields)

    def _is_overruled(self, state: PluginState) -> bool:
        """Whether a command has replaced, in this replica alone, what the source gave last."""
        return self._has_replicas and state.offered in {each.id for each in state.revisions}

    def _last_good(self, state: PluginState) -> Revision:
        """The revision that served last. With replicas it is what the source gave last, unless that never served."""
        wanted = state.offered if self._has_replicas else state.active.id
        return next((each for each in state.revisions if each.id == wanted), state.active)

    def _restore(self, slot: Slot, revision: Revision, settings: Mapping[str, Any]) -> bool:
        """Serves with a module that has served before, if that is still possible.

        It may be signed by nobody who counts now, or have settings that only another version of the extender knows.
        """
        try:
            config = configure(slot.config, settings)
            self._start(slot, config, partial(kept, self._store, revision.under(config)), revision)
        except (RolloutFailedError, ValidationError) as error:
            fields = {"plugin": slot.name, "profile": slot.profile, "revision": revision.id}
            logger.error("what served last cannot serve again: %s", error, extra=fields)
            return False
        return True

    def _start(self, slot: Slot, config: PluginConfig, fetch: Fetch, verified: Revision | None = None) -> None:
        """Makes the plugin. Raises RolloutFailedError."""
        number = self._store.next_id()
        run = RolloutRun(Rollout(id=number, profile=slot.profile, plugin=slot.name, by=START), self._journal)
        with failing(run):
            candidate = verify(run, config, fetch, self._folder, verified)
            plugin = self._plugin_factory.make(candidate.fetched.module, candidate.fetched.origin, config)
            slot.live = warmed(run, self._store, slot, candidate, config, plugin)
        self._runs[slot] = run

    def _settle(self, slot: Slot, run: RolloutRun) -> None:
        """Keeps what serves now that the process starts with it."""
        live = slot.live
        assert live
        before = self._served.get(slot)
        rollout = run.advance(RolloutStage.ACTIVE, replaces=before.id if before else None)
        slot.live = dataclasses.replace(live, rollout=rollout)
        if before is None or before.id != live.revision.id:
            slot.revisions = with_newest(slot.revisions, live.revision, before)
        self._save(slot)

    def _save(self, slot: Slot) -> None:
        if slot.live:
            self._journal.save(slot.profile, slot.name, PluginState(slot.live.revision, slot.offered, slot.revisions))


def _wait(slot: Slot, fetched: Future[FetchedRevision], until: float) -> FetchedRevision:
    """What is being fetched. A file is waited for. Raises SourceUnreachableError or RolloutFailedError."""
    try:
        return fetched.result(max(0.0, until - time.monotonic()) if slot.source.is_remote else None)
    except FutureTimeoutError:
        raise SourceUnreachableError(
            f"{public(slot.config.guest_url)} has not given the module within the first {FETCH_TIMEOUT_S:g} s"
        ) from None


def _in_thread(fetch: Fetch) -> Future[FetchedRevision]:
    """Fetches beside others: those that do not answer are waited for at the same time, and not at all at the end."""
    future: Future[FetchedRevision] = Future()

    def run() -> None:
        try:
            future.set_result(fetch())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="fetch", daemon=True).start()
    return future


def _settings_after(state: PluginState, served: Revision, config: PluginConfig) -> Mapping[str, Any]:
    """The settings of a revision when it served, an operator's included, unless the file has changed since."""
    possible = {each.under(config).id for each in state.revisions}
    return served.settings if state.offered in possible else settings_of(config)


def _problems_of_modules(file: Path, plugins: Mapping[str, PluginConfig]) -> Iterator[str]:
    """What is wrong with the modules of a configuration that cannot be used anyway, as far as they are files."""
    try:
        plugin_factory = PluginFactory(RuntimeConfig())
    except (CacheError, EngineError) as error:
        yield str(error)
        return
    for key, plugin in plugins.items():
        source = open_source(plugin, file.absolute().parent, plugin_factory.module_limit)
        if source.is_remote:
            continue
        try:
            fetched = fetch_now(source)
            check_digest(plugin, fetched.module.digest, fetched.origin)
            plugin_factory.make(fetched.module, fetched.origin, plugin).close()
        except SourceError as error:
            yield from _name(key, plugin, [str(error)])
        except LoadError as error:
            yield from _name(key, plugin, error.problems)


def _name(key: str, plugin: PluginConfig, problems: Sequence[str]) -> list[str]:
    return [f"{key}.guestURL: plugin {plugin.name}: {problem}" for problem in problems]
