"""Reads the configuration file, and lists everything that is wrong with it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ValidationError

from extender.config.models import (
    ClusterConfig,
    ExtenderConfiguration,
    PluginConfig,
    ProfileConfig,
    RuntimeConfig,
    SourceConfig,
    SwapConfig,
)
from extender.config.server import ServerConfig, TlsConfig
from extender.config.urls import FILE_SCHEME
from extender.config.yaml_loader import BoundedLoader


class ConfigError(Exception):
    """A configuration cannot be used. `str()` has every problem, one a line, each with file and key."""

    def __init__(self, file: Path, problems: Sequence[str], plugins: Mapping[str, PluginConfig] | None = None) -> None:
        super().__init__("\n".join(f"{file}: {problem}" for problem in problems))
        self.problems = problems
        self.plugins = plugins or {}
        """The plugins that can be read all the same, by key, without those of their keys that have problems."""


class _StrictLoader(BoundedLoader):
    """Refuses a key that comes twice in a mapping, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {name.value!r} comes twice", name.start_mark)
            seen.add(str(name.value))
        return super().construct_mapping(node, deep)


def read(file: Path) -> ExtenderConfiguration:
    """Reads and checks a configuration file. Raises ConfigError with all its problems."""
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _StrictLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(file, [f"cannot be read: {getattr(error, 'strerror', None) or error}"]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that no calendar has
        raise ConfigError(file, [f"is no YAML: {' '.join(str(error).split())}"]) from error
    if not isinstance(content, dict):
        raise ConfigError(file, ["expected a mapping with apiVersion, kind and profiles"])
    problems = list(_duplicates(content))
    try:
        configuration = ExtenderConfiguration.model_validate(content)
    except ValidationError as error:
        problems = [*(describe(each) for each in error.errors() if not _follows(each)), *problems]
    else:
        problems += _cross_section_problems(configuration)
    if problems:
        raise ConfigError(file, problems, dict(_usable(content)))
    return configuration


def guest_path(file: Path, plugin: PluginConfig) -> Path:
    """The path of a plugin's module, given the file that names it."""
    path = plugin.guest_url.removeprefix(FILE_SCHEME)
    return file.absolute().parent / os.path.expanduser(path)  # noqa: PTH111 - Path's raises for an unknown user


def _cross_section_problems(configuration: ExtenderConfiguration) -> Iterator[str]:
    """Problems of keys of a profile or plugin that need other sections of the file."""
    for at, profile in enumerate(configuration.profiles):
        if profile.simulator_results:
            where = key(("profiles", at, "simulatorResults"))
            if configuration.cluster.mode == "none":
                yield f"{where}: they come with a bind; set cluster.mode to kubeconfig, in-cluster or dry-run"
            if not configuration.server.decisions:
                yield f"{where}: they are made of decisions, of which server.decisions keeps none; set it to 1 or more"
        for index, plugin in enumerate(profile.plugins):
            if plugin.swap.wake_pods and not configuration.cluster.is_connected:
                where = key(("profiles", at, "plugins", index, "swap", "wakePods"))
                yield f"{where}: needs an API server to write to; set cluster.mode to kubeconfig or in-cluster"


def _duplicates(content: Mapping[str, Any]) -> Iterator[str]:
    """Problems of names that must differ."""
    yield from _twice("profiles", _items(content, "profiles"))
    for at, profile in enumerate(_items(content, "profiles")):
        yield from _twice(f"profiles[{at}].plugins", _items(profile, "plugins"))


def _twice(where: str, items: Sequence[Any]) -> Iterator[str]:
    names = [str(item.get("name")) for item in items if isinstance(item, Mapping) and "name" in item]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield f"{where}: names must differ, found {', '.join(twice)} more than once"


def _usable(content: Mapping[str, Any]) -> Iterator[tuple[str, PluginConfig]]:
    """The plugins of a file that has problems, by key, without those of their keys that have problems."""
    for at, profile in enumerate(_items(content, "profiles")):
        for index, plugin in enumerate(_items(profile, "plugins")):
            try:
                yield key(("profiles", at, "plugins", index)), PluginConfig.model_validate(_sound(plugin))
            except ValidationError:
                continue


def _sound(plugin: Any) -> Any:
    try:
        PluginConfig.model_validate(plugin)
    except ValidationError as error:
        wrong = {each["loc"][0] for each in error.errors() if each["loc"]}
        if isinstance(plugin, Mapping):
            return {name: value for name, value in plugin.items() if name not in wrong}
    return plugin


def _items(mapping: Any, name: str) -> Sequence[Any]:
    items = mapping.get(name) if isinstance(mapping, Mapping) else None
    return items if isinstance(items, list) else []


def _follows(error: Mapping[str, Any]) -> bool:
    """Whether an error only says that a list has no valid item, which the errors of its items say better."""
    return error["type"] == "too_short" and bool(error["input"])


_MESSAGES: Final = {
    "model_type": "expected a mapping",
    "tuple_type": "expected a list",
    "too_short": "expected at least one item",
}
"""Messages by pydantic's type of an error, whose own messages name types of Python."""


def describe(error: Mapping[str, Any]) -> str:
    """The problem that an error of pydantic's describes: the path of the key, and what was expected."""
    where = key(error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key{_nearest(error['loc'])}"
    if error["type"] == "missing":
        return f"{where}: is required"
    message = _MESSAGES.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    found = "" if error["type"] == "value_error" else f", found {_shorten(repr(error['input']))}"
    return f"{where}: {message[:1].lower()}{message[1:]}{found}"


def key(path: tuple[str | int, ...]) -> str:
    """The path of a key as messages name it: `profiles[0].plugins[1].name`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


_SECTIONS: Final[Mapping[tuple[str, ...], type[BaseModel]]] = {
    (): ExtenderConfiguration,
    ("server",): ServerConfig,
    ("server", "tls"): TlsConfig,
    ("server", "adminTLS"): TlsConfig,
    ("runtime",): RuntimeConfig,
    ("cluster",): ClusterConfig,
    ("profiles",): ProfileConfig,
    ("profiles", "plugins"): PluginConfig,
    ("profiles", "plugins", "source"): SourceConfig,
    ("profiles", "plugins", "swap"): SwapConfig,
}


def _nearest(path: tuple[str | int, ...]) -> str:
    """A hint at a similar key of the same section; empty if there is none."""
    section = _SECTIONS[tuple(part for part in path[:-1] if isinstance(part, str))]
    names = [str(field.alias) for field in section.model_fields.values()]
    near = difflib.get_close_matches(str(path[-1]), names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
