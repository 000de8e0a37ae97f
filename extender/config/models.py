"""The configuration: an ExtenderConfiguration of kwx.dev/v1alpha1, key by key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from extender.config.quantity import Bytes, Seconds
from extender.config.urls import check_url
from wasm_runtime.abi import EXTENSION_POINTS, Severity
from wasm_runtime.engine import KIBIBYTE, MAX_STACK_BYTES, MEBIBYTE

SMALLEST_MEMORY: Final = MEBIBYTE
SMALLEST_STACK: Final = 64 * KIBIBYTE


class FailurePolicy(str, Enum):
    """What a plugin's failure does to the verb."""

    FAIL = "Fail"
    IGNORE = "Ignore"


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

    stack_limit: Annotated[Bytes, Field(ge=SMALLEST_STACK, le=MAX_STACK_BYTES)] = MEBIBYTE
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
