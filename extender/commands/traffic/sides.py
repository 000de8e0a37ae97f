"""The two sides of a replay: a module, or the whole profile of a configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from extender.commands.call.options import OptionError, configure
from extender.commands.terminal import compiling
from extender.config import ConfigError, PluginConfig, ProfileConfig, RuntimeConfig
from extender.config import read as read_config
from extender.rollouts.engines import EngineError
from extender.rollouts.pipeline import check_digest
from extender.rollouts.plugin_factory import LoadError, PluginFactory
from extender.scheduling.profile import Profile, ProfilePlugin
from extender.sources import SourceError
from extender.sources.factory import open_source
from extender.sources.source import fetch_now
from wasm_runtime.compile.cache import CacheError

CONFIGURATIONS: Final = frozenset({".yaml", ".yml"})
"""Suffixes of configuration files; all other files are modules."""


class ReplayError(Exception):
    """The recording cannot be replayed. `str()` says why."""


class Side(NamedTuple):
    """What judges on one side: a module, or a profile of a configuration."""

    file: Path
    """A module or a configuration file."""
    guest_config: str = ""
    """The guestConfig of a module."""

    @property
    def is_configuration(self) -> bool:
        """Whether `file` is a configuration."""
        return self.file.suffix in CONFIGURATIONS


class _Part(NamedTuple):
    """A plugin of a side, and the folder that its relative paths begin at."""

    config: PluginConfig
    folder: Path


@contextmanager
def loaded(baseline: Side, module: Side, profile: str, plugin: str | None) -> Iterator[tuple[Profile, Profile]]:
    """The profiles of both sides. A module beside a configuration replaces a plugin: `plugin`, or the one of its name.

    Raises ReplayError.
    """
    with ExitStack() as stack:
        try:
            sides = (
                _load(*_parts(baseline, profile, None, None), profile, stack),
                _load(*_parts(module, profile, baseline, plugin), profile, stack),
            )
        except ConfigError as error:
            raise ReplayError(str(error)) from error
        yield sides


def _parts(side: Side, profile: str, beside: Side | None, plugin: str | None) -> tuple[RuntimeConfig, list[_Part]]:
    """The plugins of a side, in their order. Raises ReplayError, ConfigError."""
    if side.is_configuration:
        runtime, found = _profile(side.file, profile)
        return runtime, [_Part(each, side.file.parent) for each in found.plugins]
    try:
        own = _Part(configure(side.file, {"guestConfig": side.guest_config}), Path())
    except OptionError as error:
        raise ReplayError(f"{side.file}: {error.option}: {error}") from error
    if beside is None or not beside.is_configuration:
        return RuntimeConfig(), [own]
    runtime, found = _profile(beside.file, profile)
    name = plugin or own.config.name
    if name not in {each.name for each in found.plugins}:
        names = ", ".join(each.name for each in found.plugins)
        problem = f"profile {found.name} of {beside.file} has no plugin {name!r}; it has {names}"
        raise ReplayError(f"{problem}: name the one whose place {side.file} takes by --plugin")
    return runtime, [_replaced(each, name, own, side, beside.file.parent) for each in found.plugins]


def _replaced(config: PluginConfig, name: str, own: _Part, side: Side, folder: Path) -> _Part:
    """A plugin of a configuration; the plugin `name` with the module of the other side, without digest and key."""
    if config.name != name:
        return _Part(config, folder)
    other = {"guest_url": own.config.guest_url, "digest": None, "source": own.config.source}
    settings = {"guest_config": side.guest_config} if side.guest_config else {}
    return _Part(config.model_copy(update=other | settings), Path())


def _profile(file: Path, name: str) -> tuple[RuntimeConfig, ProfileConfig]:
    """Raises ReplayError, ConfigError."""
    configuration = read_config(file)
    found = [each for each in configuration.profiles if each.name == name]
    if not found:
        names = ", ".join(each.name for each in configuration.profiles)
        raise ReplayError(f"{file} has no profile {name!r}; there are: {names}; choose one by --profile")
    return configuration.runtime, found[0]


def _load(runtime: RuntimeConfig, parts: list[_Part], profile: str, stack: ExitStack) -> Profile:
    """Raises ReplayError."""
    try:
        factory = PluginFactory(runtime)
        plugins = []
        for config, folder in parts:
            source = open_source(config, folder, factory.module_limit)
            fetched = fetch_now(source)
            check_digest(config, fetched.module.digest, fetched.origin)
            with compiling(fetched.origin, len(fetched.module.content)):
                made = factory.make(fetched.module, fetched.origin, config, trial=True)
            plugins.append(ProfilePlugin(stack.enter_context(closing(made)), config.weight, config.failure_policy))
    except LoadError as error:
        raise ReplayError("\n".join(error.problems)) from error
    except (CacheError, EngineError, SourceError) as error:
        raise ReplayError(str(error)) from error
    return Profile(profile, plugins, 100)
