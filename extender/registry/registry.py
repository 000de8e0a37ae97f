"""Profiles and plugins, made from a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from extender import config
from extender.config import ConfigError, ExtenderConfiguration, PluginConfig, ProfileConfig, RuntimeConfig
from extender.profile import Entry, Profile
from extender.registry.engines import EngineError
from extender.registry.workshop import LoadError, Workshop
from wasm_runtime.cache import CacheError
from wasm_runtime.engine import Handle
from wasm_runtime.plugin import Observer, Plugin, Sink, digest


@dataclass(frozen=True, slots=True)
class Slot:
    """A plugin's place, and where its module comes from."""

    key: str
    """Where the configuration speaks of it, as in `profiles[0].plugins[1]`."""
    profile: str
    config: PluginConfig
    path: Path
    entry: Entry

    def load(self, workshop: Workshop) -> Plugin | None:
        """Makes a plugin of what the file holds now, which knows the nodes; None if that is live. Raises LoadError."""
        wasm = workshop.read(self.path)
        live = self.entry.plugin
        if digest(wasm) == live.digest:
            return None
        return workshop.make(wasm, self.path, self.config, live.nodes)

    def swap(self, plugin: Plugin) -> None:
        """Makes a plugin live for all requests that come from now on; those in flight are not disturbed."""
        self.entry.swap(plugin).close()


class Registry:
    """All profiles. Which plugin of a profile is live changes, the profiles do not."""

    def __init__(self, profiles: Iterable[Profile], slots: Iterable[Slot], workshop: Workshop) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._default = self._profiles.get("default") or next(iter(self._profiles.values()))
        self.slots = tuple(slots)
        self.workshop = workshop

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """In the order of the configuration."""
        return tuple(self._profiles.values())

    def named(self, name: str) -> Profile | None:
        """The profile of that name."""
        return self._profiles.get(name)

    @property
    def plugins(self) -> list[Plugin]:
        """Those that are live."""
        return [slot.entry.plugin for slot in self.slots]

    @property
    def binds(self) -> bool:
        """Whether any profile has a plugin with a part in the binding cycle."""
        return any(profile.binds for profile in self._profiles.values())

    @property
    def wants_pods(self) -> bool:
        """Whether any plugin asks for the pods that a preemption would evict."""
        return any(profile.runs("addpod") or profile.runs("removepod") for profile in self._profiles.values())

    def of_scheduler(self, name: str) -> Profile:
        """The profile named like a scheduler, else `default`, else the first."""
        return self._profiles.get(name, self._default)

    def close(self) -> None:
        """Gives all guests back, and ends what is being compiled."""
        self.workshop.close()
        for slot in self.slots:
            slot.entry.plugin.close()


def load(
    file: Path, sink: Sink = lambda *_: None, observer: Observer = lambda *_: None, handle: Handle | None = None
) -> tuple[ExtenderConfiguration, Registry]:
    """Reads a configuration file; reads, compiles and starts its plugins.

    Raises ConfigError with all problems of the file and of the modules that it names.
    """
    try:
        configuration = config.read(file)
    except ConfigError as error:
        modules = _problems_of_modules(file, error.plugins)
        raise ConfigError(file, [*error.problems, *modules]) from error
    try:
        workshop = Workshop(configuration.runtime, sink, observer, handle)
    except (CacheError, EngineError) as error:
        raise ConfigError(file, [str(error)]) from error
    return configuration, _load(file, configuration, workshop)


def _problems_of_modules(file: Path, plugins: Mapping[str, PluginConfig]) -> Iterator[str]:
    try:
        workshop = Workshop(RuntimeConfig())
    except (CacheError, EngineError) as error:
        yield str(error)
        return
    for key, plugin in plugins.items():
        path = config.guest_path(file, plugin)
        try:
            workshop.make(workshop.read(path), path, plugin).close()
        except LoadError as error:
            yield from _name(key, plugin, error)


def _load(file: Path, configuration: ExtenderConfiguration, workshop: Workshop) -> Registry:
    problems: list[str] = []
    profiles: list[Profile] = []
    slots: list[Slot] = []
    for at, profile in enumerate(configuration.profiles):
        loaded = list(_load_profile(file, f"profiles[{at}]", profile, workshop, problems))
        entries = tuple(slot.entry for slot in loaded)
        profiles.append(Profile(profile.name, entries, profile.score_range, profile.zero_scores))
        slots += loaded
    if problems:
        for slot in slots:
            slot.entry.plugin.close()
        raise ConfigError(file, problems)
    return Registry(profiles, slots, workshop)


def _load_profile(
    file: Path, key: str, profile: ProfileConfig, workshop: Workshop, problems: list[str]
) -> Iterator[Slot]:
    for at, plugin in enumerate(profile.plugins):
        path = config.guest_path(file, plugin)
        where = f"{key}.plugins[{at}]"
        try:
            made = workshop.make(workshop.read(path), path, plugin)
        except LoadError as error:
            problems += _name(where, plugin, error)
        else:
            entry = Entry(made, plugin.weight, plugin.failure_policy)
            yield Slot(where, profile.name, plugin, path, entry)


def _name(key: str, plugin: PluginConfig, error: LoadError) -> list[str]:
    return [f"{key}.guestURL: plugin {plugin.name}: {reason}" for reason in error.problems]
