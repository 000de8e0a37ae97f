"""Profiles and plugins, made from a configuration."""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from extender import config
from extender.config import ConfigError, ExtenderConfiguration, PluginConfig, ProfileConfig
from extender.guest_log import report
from extender.profile import Entry, Profile
from wasm_runtime.abi import Severity
from wasm_runtime.engine import MEBIBYTE, Engine, Settings
from wasm_runtime.errors import GuestError, ModuleError
from wasm_runtime.plugin import Plugin, digest

logger = logging.getLogger(__name__)

MAX_MODULE: Final = 64 * MEBIBYTE
"""Bytes of a module file; standard Go makes some 20 MiB."""


class LoadError(Exception):
    """A plugin's module cannot be used. Has every reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Slot:
    """A plugin's place, and where its module comes from."""

    key: str
    """Where the configuration speaks of it, as in `profiles[0].plugins[1]`."""
    profile: str
    config: PluginConfig
    path: Path
    entry: Entry

    def load(self, engine: Engine) -> Plugin | None:
        """Makes a plugin of what the file holds now; None if that is live. Raises LoadError."""
        wasm = _read(self.path)
        if digest(wasm) == self.entry.plugin.digest:
            return None
        return _make(engine, wasm, self.path, self.config)

    def swap(self, plugin: Plugin) -> None:
        """Makes a plugin live for all requests that come from now on; those in flight are not disturbed."""
        old, self.entry.plugin = self.entry.plugin, plugin
        old.close()

    def say_what_is_not_run(self) -> None:
        """Warns of what the live module exports in vain."""
        plugin = self.entry.plugin
        if plugin.not_run:
            logger.warning(
                "the guest exports what this version does not run",
                extra={"plugin": plugin.name, "profile": self.profile, "not_run": plugin.not_run},
            )


class Registry:
    """All profiles. Which plugin of a profile is live changes, the profiles do not."""

    def __init__(self, profiles: Iterable[Profile], slots: Iterable[Slot]) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._default = self._profiles.get("default") or next(iter(self._profiles.values()))
        self.slots = tuple(slots)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """In the order of the configuration."""
        return tuple(self._profiles.values())

    def named(self, name: str) -> Profile | None:
        """The profile of that name."""
        return self._profiles.get(name)

    def of_scheduler(self, name: str) -> Profile:
        """The profile named like a scheduler, else `default`, else the first."""
        return self._profiles.get(name, self._default)

    def close(self) -> None:
        """Gives all guests back."""
        for slot in self.slots:
            slot.entry.plugin.close()


def load(file: Path, engine: Engine) -> tuple[ExtenderConfiguration, Registry]:
    """Reads a configuration file; reads, compiles and starts its plugins.

    Raises ConfigError with all problems of the file and of the modules that it names.
    """
    try:
        configuration = config.read(file)
    except ConfigError as error:
        modules = _problems_of_modules(file, error.plugins, engine)
        raise ConfigError(file, [*error.problems, *modules]) from error
    return configuration, _load(file, configuration, engine)


def _problems_of_modules(file: Path, plugins: Mapping[str, PluginConfig], engine: Engine) -> Iterator[str]:
    for key, plugin in plugins.items():
        path = config.guest_path(file, plugin)
        try:
            _make(engine, _read(path), path, plugin).close()
        except LoadError as error:
            yield from _name(key, plugin, error)


def _load(file: Path, configuration: ExtenderConfiguration, engine: Engine) -> Registry:
    problems: list[str] = []
    profiles: list[Profile] = []
    slots: list[Slot] = []
    for at, profile in enumerate(configuration.profiles):
        loaded = list(_load_profile(file, f"profiles[{at}]", profile, engine, problems))
        profiles.append(Profile(profile.name, tuple(slot.entry for slot in loaded), profile.score_range))
        slots += loaded
    if problems:
        for slot in slots:
            slot.entry.plugin.close()
        raise ConfigError(file, problems)
    return Registry(profiles, slots)


def _load_profile(file: Path, key: str, profile: ProfileConfig, engine: Engine, problems: list[str]) -> Iterator[Slot]:
    for at, plugin in enumerate(profile.plugins):
        path = config.guest_path(file, plugin)
        where = f"{key}.plugins[{at}]"
        try:
            made = _make(engine, _read(path), path, plugin)
        except LoadError as error:
            problems += _name(where, plugin, error)
        else:
            entry = Entry(made, plugin.weight, plugin.failure_policy)
            yield Slot(where, profile.name, plugin, path, entry)


def _name(key: str, plugin: PluginConfig, error: LoadError) -> list[str]:
    return [f"{key}.guestURL: plugin {plugin.name}: {reason}" for reason in error.problems]


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise LoadError([f"{path} is no regular file; name a .wasm file"])
        if status.st_size > MAX_MODULE:
            raise LoadError([f"{path} has {status.st_size} bytes, the limit is {MAX_MODULE}"])
        return path.read_bytes()
    except ValueError as error:
        raise LoadError([f"{str(path)!r} is no path: it holds a NUL"]) from error
    except OSError as error:
        hint = "; build it or mend the path" if isinstance(error, FileNotFoundError) else ""
        raise LoadError([f"{path} cannot be read: {error.strerror}{hint}"]) from error


def _make(engine: Engine, wasm: bytes, path: Path, plugin: PluginConfig) -> Plugin:
    if plugin.digest and digest(wasm) != plugin.digest:
        raise LoadError([f"{path} has digest {digest(wasm)}, the configuration allows only {plugin.digest}"])
    settings = Settings(
        name=plugin.name,
        config=plugin.guest_config,
        args=plugin.args,
        log_severity=Severity(plugin.log_severity),
        memory_limit=plugin.memory_limit,
        timeout=plugin.timeout,
    )
    try:
        made = Plugin(engine, wasm, settings, extension_points=plugin.extension_points, sink=report)
    except ModuleError as error:
        raise LoadError([f"{path} {problem}" for problem in error.problems]) from error
    except GuestError as error:
        raise LoadError([f"{path} does not start: {error}"]) from error
    if plugin.extension_points is not None and not made.exports:
        made.close()
        points = ", ".join(plugin.extension_points) or "none"
        raise LoadError([f"{path} has nothing to call at the extensionPoints that are given ({points})"])
    return made
