"""The configuration file: an ExtenderConfiguration of kwx.dev/v1alpha1."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from extender.profile import FailurePolicy
from extender.quantity import Bytes, Seconds
from extender.sources.url import FILE_SCHEME, check_url
from extender.yaml_loader import BoundedLoader
from wasm_runtime.abi import EXTENSION_POINTS, Severity
from wasm_runtime.engine import KIBIBYTE, MEBIBYTE
from wasm_runtime.engines.wasmtime.engine import LARGEST_STACK

SMALLEST_MEMORY: Final = MEBIBYTE
SMALLEST_STACK: Final = 64 * KIBIBYTE


class ConfigError(Exception):
    """A configuration cannot be used. `str()` has every problem, one a line, each with file and key."""

    def __init__(self, file: Path, problems: Sequence[str], plugins: Mapping[str, PluginConfig] | None = None) -> None:
        super().__init__("\n".join(f"{file}: {problem}" for problem in problems))
        self.problems = problems
        self.plugins = plugins or {}
        """What can be read of the plugins all the same, by key."""


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _address(text: object) -> Address:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([\w.-]+)):(\d{1,5})", text) if isinstance(text, str) else None
    if not match or int(match[3]) > 65_535:
        raise ValueError(f"expected an address such as 127.0.0.1:8888, found {text!r}")
    return Address(match[1] or match[2], int(match[3]))


def _expand(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from None


def _guest_config(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except TypeError as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None


def _utf8(text: str) -> str:
    """Refuses lone surrogates, which YAML can write and no guest can be given."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("expected UTF-8") from None
    return text


def _argument(text: str) -> str:
    if "\0" in text:
        raise ValueError("expected text without NUL, which ends an argument")
    return text


Text = Annotated[str, AfterValidator(_utf8)]


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, arbitrary_types_allowed=True)


class ServerConfig(_Model):
    """Where we listen and what we take."""

    address: Annotated[Address, BeforeValidator(_address)] = Address("127.0.0.1", 8888)
    """The verbs. Port 0 takes a free one."""
    admin_address: Annotated[Address, BeforeValidator(_address)] = Address("127.0.0.1", 8889)
    """Health and the admin API."""
    max_request_bytes: Bytes = 64 * MEBIBYTE
    """Longest body of a request; a longer one is refused unread with status 413."""
    bind_timeout: Seconds = 4.0
    """Time of the bind verb, a wait on Permit included; below the scheduler's httpTimeout for the extender."""
    state_directory: Annotated[Path, AfterValidator(_expand)] | None = None
    """Where revisions and their history are kept, relative to this file; by default `$XDG_STATE_HOME/kwx`, else
    `~/.local/state/kwx`."""
    state_limit: Bytes = 256 * MEBIBYTE
    """Modules that are kept there to go back to; what serves and what a rollback leads to are kept all the same."""
    admin_tokens: Annotated[Path, AfterValidator(_expand)] | None = None
    """A file with the bearer tokens of the admin API, relative to this file; read again when it changes. Without one,
    only clients on this machine are let in."""


class RuntimeConfig(_Model):
    """What bounds the compiling and running of all guests."""

    stack_limit: Annotated[Bytes, Field(ge=SMALLEST_STACK, le=LARGEST_STACK)] = MEBIBYTE
    """Stack that the calls of a guest may use; one that needs more is stopped."""
    module_limit: Bytes = 64 * MEBIBYTE
    """Size of a module; standard Go makes some 20 MiB."""
    compile_timeout: Seconds = 60.0
    """Time that compiling a module may take, in a process of its own."""
    cache_limit: Bytes = 512 * MEBIBYTE
    """Compiled code that is kept on disk."""


class ClusterConfig(_Model):
    """How we reach the API server."""

    mode: Literal["none", "dry-run", "kubeconfig", "in-cluster"] = "none"
    """none: not at all, bind is an Error; dry-run: not at all, bind is logged and succeeds."""
    kubeconfig: Annotated[Path, AfterValidator(_expand)] = Field(default=Path("~/.kube/config"), validate_default=True)
    """Read with mode kubeconfig; relative to this file."""
    stale_after: Seconds | None = None
    """Time for which nodes and pods that may be outdated are used; without end by default, as kube-scheduler does."""
    not_synced_policy: FailurePolicy = FailurePolicy.FAIL
    """While nodes and pods are not known yet, or stale. Fail: the verb fails; Ignore: guests get what is known,
    which is the names alone before the first list."""

    @property
    def is_connected(self) -> bool:
        """Whether there is an API server."""
        return self.mode in {"kubeconfig", "in-cluster"}


class SourceConfig(_Model):
    """How a plugin's module is fetched."""

    interval: Annotated[Seconds, Field(ge=0.1)] = 30.0
    """Time between two looks at a web server or registry. Files are looked at twice a second."""
    timeout: Seconds = 60.0
    """Time that one fetch may take."""
    ca_file: Annotated[Path, AfterValidator(_expand)] | None = None
    """Certificates (PEM) that a server's must be signed by, instead of the system's; relative to this file."""
    public_key: Annotated[Path, AfterValidator(_expand)] | None = None
    """The key (PEM) that modules must be signed by; relative to this file."""


class SwapConfig(_Model):
    """When a new revision may take over, and when it has to go."""

    slowdown_factor: Annotated[float, Field(ge=1.0, le=1000.0)] = 3.0
    """A candidate is refused that takes more than so many times what the active revision takes, …"""
    slowdown_floor: Seconds = 0.001
    """… and more by this, in the median over the recorded requests of a verb."""
    shadow_time: Seconds | None = None
    """Time for which a candidate also judges what comes, without a say in it, before it takes over."""
    shadow_requests: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    """The same as a number of requests; with both, what comes first ends it."""
    rollback: Literal["automatic", "manual"] = "automatic"
    """Whether the last good revision comes back by itself when its successor fails."""
    rollback_time: Seconds = 60.0
    """Time after a switch in which that may happen; afterwards the new revision is the good one."""
    rollback_failures: Annotated[int, Field(strict=True, ge=1)] = 3
    """Failures that it takes at least."""
    rollback_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """Part of the calls that it takes at least."""
    wake_pods: Annotated[bool, Field(strict=True)] = False
    """Whether pods that wait unschedulable are tried again after a switch; costs the API server one write."""


class PluginConfig(_Model):
    """A plugin of a profile."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
    guest_url: Annotated[str, Field(alias="guestURL")]
    """file:// and a path, relative to the configuration file; or a URL of http, https or oci."""
    source: SourceConfig = SourceConfig()
    swap: SwapConfig = SwapConfig()
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """The only module that is accepted."""
    guest_config: Annotated[Text, BeforeValidator(_guest_config)] = ""
    """What the guest reads as its configuration; a mapping is passed on as JSON."""
    args: tuple[Annotated[Text, AfterValidator(_argument)], ...] = ()
    """The guest's whole argv; empty: the name of the plugin."""
    log_severity: Severity = Severity.INFO
    """Least severity that is logged: 0 info, 1 warning, 2 error, 3 fatal."""
    weight: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    """Part of the plugin's scores in the mean of the profile."""
    engine: Literal["wasmtime", "wasmer"] = "wasmtime"
    allow_unlimited: bool = False
    """Accepts that wasmer has none of the limits."""
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    """Fail: a failure of the plugin fails the verb; Ignore: the plugin is left out."""
    timeout: Seconds = 0.5
    """Time of one verb in this plugin."""
    memory_limit: Annotated[Bytes, Field(ge=SMALLEST_MEMORY)] = 256 * MEBIBYTE
    """Linear memory of a guest."""
    table_limit: Annotated[int, Field(strict=True, ge=1, le=1 << 24)] = 1 << 20
    """Elements of each table of a guest."""
    output_limit: Annotated[Bytes, Field(ge=KIBIBYTE, le=MEBIBYTE)] = 8 * KIBIBYTE
    """What is kept of the log lines and Events of one verb, and of what the guest prints in one call."""
    instances: Annotated[int, Field(strict=True, ge=1, le=256)] = 8
    """Guests at a time. One serves the scheduling cycle, each further one a binding cycle."""
    extension_points: tuple[str, ...] | None = None
    """Some of those that the module exports; all of them by default."""

    @field_validator("guest_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        check_url(url)
        return url

    @model_validator(mode="after")
    def _check_engine(self) -> PluginConfig:
        if self.engine == "wasmer" and not self.allow_unlimited:
            raise ValueError(
                "engine wasmer knows no deadline and no limit of memory, and stops the whole process while a guest"
                " runs, health included: use wasmtime, or accept it by allowUnlimited: true"
            )
        if self.engine != "wasmer" and self.allow_unlimited:
            raise ValueError("allowUnlimited is for engine wasmer; engine wasmtime keeps the limits")
        return self

    @field_validator("extension_points")
    @classmethod
    def _check_points(cls, points: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for point in points or ():
            if point not in EXTENSION_POINTS:
                raise ValueError(f"{point!r} is no extension point; expected {', '.join(EXTENSION_POINTS)}")
        return points


class ProfileConfig(_Model):
    """What pods of one scheduler name are judged by."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9._-]+$")]
    """The pods' spec.schedulerName; `default` takes every other."""
    score_range: Literal[10, 100] = 10
    """Largest score that is answered. 100 keeps the resolution; kube-scheduler expects 10."""
    zero_scores: Annotated[bool, Field(strict=True)] = False
    """Whether prioritize names the nodes with a score of 0: for callers other than kube-scheduler."""
    plugins: Annotated[tuple[PluginConfig, ...], Field(min_length=1)]


class ExtenderConfiguration(_Model):
    """The whole file."""

    api_version: Literal["kwx.dev/v1alpha1"]
    kind: Literal["ExtenderConfiguration"]
    server: ServerConfig = ServerConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    cluster: ClusterConfig = ClusterConfig()
    profiles: Annotated[tuple[ProfileConfig, ...], Field(min_length=1)]


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
        problems += _unmet(configuration)
    if problems:
        raise ConfigError(file, problems, dict(_usable(content)))
    return configuration


def guest_path(file: Path, plugin: PluginConfig) -> Path:
    """The path of a plugin's module, given the file that names it."""
    path = plugin.guest_url.removeprefix(FILE_SCHEME)
    return file.absolute().parent / os.path.expanduser(path)  # noqa: PTH111 - Path's raises for an unknown user


def _unmet(configuration: ExtenderConfiguration) -> Iterator[str]:
    """What a plugin asks for that needs something elsewhere in the file."""
    for at, profile in enumerate(configuration.profiles):
        for index, plugin in enumerate(profile.plugins):
            if plugin.swap.wake_pods and not configuration.cluster.is_connected:
                where = key(("profiles", at, "plugins", index, "swap", "wakePods"))
                yield f"{where}: needs an API server to write to; set cluster.mode to kubeconfig or in-cluster"


def _duplicates(content: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with names that must differ."""
    yield from _twice("profiles", _items(content, "profiles"))
    for at, profile in enumerate(_items(content, "profiles")):
        yield from _twice(f"profiles[{at}].plugins", _items(profile, "plugins"))


def _twice(where: str, items: Sequence[Any]) -> Iterator[str]:
    names = [str(item.get("name")) for item in items if isinstance(item, Mapping) and "name" in item]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield f"{where}: names must differ, found {', '.join(twice)} more than once"


def _usable(content: Mapping[str, Any]) -> Iterator[tuple[str, PluginConfig]]:
    """The plugins of a file that has problems, without those of their keys that have."""
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
"""Instead of pydantic's, which speak of Python's types."""


def describe(error: Mapping[str, Any]) -> str:
    """An error of pydantic's in words: where, and what was expected."""
    where = key(error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key{_nearest(error['loc'])}"
    if error["type"] == "missing":
        return f"{where}: is required"
    message = _MESSAGES.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    found = "" if error["type"] == "value_error" else f", found {_shorten(repr(error['input']))}"
    return f"{where}: {message[:1].lower()}{message[1:]}{found}"


def key(path: tuple[str | int, ...]) -> str:
    """The path of a key as in `profiles[0].plugins[1].name`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


_SECTIONS: Final[Mapping[tuple[str, ...], type[BaseModel]]] = {
    (): ExtenderConfiguration,
    ("server",): ServerConfig,
    ("runtime",): RuntimeConfig,
    ("cluster",): ClusterConfig,
    ("profiles",): ProfileConfig,
    ("profiles", "plugins"): PluginConfig,
    ("profiles", "plugins", "source"): SourceConfig,
    ("profiles", "plugins", "swap"): SwapConfig,
}


def _nearest(path: tuple[str | int, ...]) -> str:
    """The key of the same section that was meant, if one looks like it."""
    section = _SECTIONS[tuple(part for part in path[:-1] if isinstance(part, str))]
    names = [str(field.alias) for field in section.model_fields.values()]
    near = difflib.get_close_matches(str(path[-1]), names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
