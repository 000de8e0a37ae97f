"""The configuration: an ExtenderConfiguration of kwx.dev/v1alpha1, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from extender.config.fields import Model, expand
from extender.config.quantity import Bytes, Seconds
from extender.config.server import ServerConfig
from extender.config.urls import check_url
from wasm_runtime.abi import EXTENSION_POINTS, Severity
from wasm_runtime.compile.cache import DEFAULT_CACHE_BYTES
from wasm_runtime.engine import DEFAULT_STACK_BYTES, KIBIBYTE, MAX_STACK_BYTES, MEBIBYTE, Settings

MIN_MEMORY_BYTES: Final = MEBIBYTE
MIN_STACK_BYTES: Final = 64 * KIBIBYTE

_DEFAULTS: Final = Settings("")
"""The limits of a guest that the runtime sets by itself."""
MAX_TOP_NODES: Final = 100
"""The largest `topNodes`: the feasible nodes that kube-scheduler looks for at least (`minFeasibleNodesToFind`)."""


class FailurePolicy(str, Enum):
    """What a plugin's failure does to the verb."""

    FAIL = "Fail"
    IGNORE = "Ignore"


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


class RuntimeConfig(Model):
    """Limits for all plugins."""

    stack_limit: Annotated[Bytes, Field(ge=MIN_STACK_BYTES, le=MAX_STACK_BYTES)] = DEFAULT_STACK_BYTES
    """Stack of a guest. A guest that needs more is stopped."""
    module_limit: Bytes = 64 * MEBIBYTE
    """Size of a module. Modules in standard Go have some 20 MiB."""
    compile_timeout: Seconds = 60.0
    """Time for compiling a module."""
    cache_limit: Bytes = DEFAULT_CACHE_BYTES
    """Size of the compiled code that is kept under `~/.cache/kwx`."""


class ClusterConfig(Model):
    """The connection to the API server."""

    mode: Literal["none", "dry-run", "kubeconfig", "in-cluster"] = "none"
    """none: no API server, and bind fails. dry-run: no API server, and bind only logs and succeeds. kubeconfig: the API
    server of a kubeconfig. in-cluster: the API server of the cluster in which the extender is a pod."""
    kubeconfig: Annotated[Path, AfterValidator(expand)] = Field(default=Path("~/.kube/config"), validate_default=True)
    """The kubeconfig of mode `kubeconfig`."""
    stale_after: Seconds | None = None
    """Time for which possibly outdated nodes and pods are used. It counts from the API server's last message. A silent
    disconnect is detected within 70 s, so shorter values may act late. By default there is no limit, as in
    kube-scheduler."""
    not_synced_policy: FailurePolicy = FailurePolicy.FAIL
    """What verbs do while nodes and pods are unknown or stale. Fail: the verb fails. Ignore: guests get what is known,
    which is the names alone before the first list."""

    @property
    def is_connected(self) -> bool:
        """Whether there is an API server."""
        return self.mode in {"kubeconfig", "in-cluster"}


class SourceConfig(Model):
    """How the module is fetched."""

    interval: Annotated[Seconds, Field(ge=0.1)] = 30.0
    """Time between two polls of a web server or registry. Files are polled twice a second."""
    timeout: Seconds = 60.0
    """Time for one fetch, from connecting to the last byte."""
    ca_file: Annotated[Path, AfterValidator(expand)] | None = None
    """CA certificates in PEM, instead of the system's, for web servers and registries."""
    public_key: Annotated[Path, AfterValidator(expand)] | None = None
    """Public key in PEM that must have signed the module."""


class SwapConfig(Model):
    """When a new revision goes live, and when it is rolled back."""

    slowdown_factor: Annotated[float, Field(ge=1.0, le=1000.0)] = 3.0
    """A candidate is refused if it takes more than so many times the CPU time of the active revision …"""
    slowdown_floor: Seconds = 0.001
    """… and exceeds it by this time. Both count in the median of a verb's recorded requests."""
    shadow_time: Seconds | None = None
    """Time for which a candidate also judges live requests, without effect, before it goes live."""
    shadow_requests: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    """The same as a number of requests. With both, whichever is reached first ends the shadow."""
    rollback: Literal["automatic", "manual"] = "automatic"
    """Whether a revision that fails on probation is rolled back automatically."""
    rollback_time: Seconds = 60.0
    """Length of the probation after a switch. A revision that survives it is good."""
    rollback_failures: Annotated[int, Field(strict=True, ge=1)] = 3
    """Failed calls on probation that cause a rollback, if rollbackShare is reached too."""
    rollback_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """Failed share of all calls on probation that causes a rollback, if rollbackFailures is reached too."""
    wake_pods: Annotated[bool, Field(strict=True)] = False
    """Whether kube-scheduler tries rejected pods again after a switch. It costs one write to the API server."""


class PluginConfig(Model):
    """One plugin of a profile: a module and its settings."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
    """Name of the plugin, unique in its profile: letters, digits, dots, hyphens and underscores."""
    guest_url: Annotated[str, Field(alias="guestURL")]
    """Source of the module: `file://` and a path, or a URL of http, https or oci."""
    source: SourceConfig = SourceConfig()
    swap: SwapConfig = SwapConfig()
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """Digest of the only module that is accepted, as sha256sum prints it."""
    guest_config: Annotated[Text, BeforeValidator(_guest_config)] = ""
    """Configuration that the guest reads. A mapping is passed on as JSON. If the module has a JSON Schema, it must
    allow this."""
    args: tuple[Annotated[Text, AfterValidator(_argument)], ...] = ()
    """The whole argv of the guest. If empty, it is the plugin's name."""
    log_severity: Severity = _DEFAULTS.log_severity
    """Lowest severity that is logged: 0 info, 1 warning, 2 error, 3 fatal."""
    weight: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    """Weight of the plugin's scores in the mean of the profile."""
    engine: Literal["wasmtime", "wasmer"] = "wasmtime"
    """What runs the module. wasmer needs CPython 3.10 and `allowUnlimited: true`."""
    allow_unlimited: bool = False
    """Required for engine wasmer, which keeps none of the limits."""
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    """What a failure of the plugin does. Fail: the verb fails. Ignore: the verb is answered without the plugin."""
    timeout: Seconds = _DEFAULTS.timeout
    """Time of one verb in the plugin."""
    memory_limit: Annotated[Bytes, Field(ge=MIN_MEMORY_BYTES)] = _DEFAULTS.memory_limit
    """Linear memory of one guest."""
    table_limit: Annotated[int, Field(strict=True, ge=1, le=1 << 24)] = _DEFAULTS.table_limit
    """Elements in each table of one guest."""
    output_limit: Annotated[Bytes, Field(ge=KIBIBYTE, le=MEBIBYTE)] = _DEFAULTS.output_limit
    """Size of the log lines and Events of one verb, and of what a guest prints in one call. The rest is dropped."""
    instances: Annotated[int, Field(strict=True, ge=1, le=256)] = _DEFAULTS.instances
    """Guests at a time. One serves scheduling, each further one a binding cycle."""
    extension_points: tuple[str, ...] | None = None
    """Extension points that are used. The default is all that the module exports."""

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


class ProfileConfig(Model):
    """The plugins for the pods of one `schedulerName`."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9._-]+$")]
    """The pods' `spec.schedulerName`. `default` is the fallback for pods whose name matches no other profile."""
    score_range: Literal[10, 100] = 10
    """Highest score in answers. kube-scheduler expects 10. 100 keeps the resolution, if you raise the weights of the
    in-tree plugins tenfold."""
    zero_scores: Annotated[bool, Field(strict=True)] = False
    """Whether prioritize lists nodes with the score 0. kube-scheduler does not need them."""
    top_nodes: Annotated[int, Field(strict=True, ge=1, le=MAX_TOP_NODES)] | None = None
    """How many nodes filter answers at most, 1 to 100: the best by the plugins' scores. kube-scheduler decides among
    these alone; with 1 the profile has decided, and in-tree scores do not count. By default filter answers all that
    pass."""
    simulator_results: Annotated[bool, Field(strict=True)] = False
    """Whether bind gives a pod the annotations in which kube-scheduler-simulator shows what plugins said of nodes. The
    extender then binds the pods of the profile. They take 128 KiB of a pod at most."""
    plugins: Annotated[tuple[PluginConfig, ...], Field(min_length=1)]
    """The plugins, in the order in which filter asks them."""


class ExtenderConfiguration(Model):
    """The keys at the top of the file."""

    api_version: Literal["kwx.dev/v1alpha1"]
    """Version of the format."""
    kind: Literal["ExtenderConfiguration"]
    """Kind of the file."""
    server: ServerConfig = ServerConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    cluster: ClusterConfig = ClusterConfig()
    profiles: Annotated[tuple[ProfileConfig, ...], Field(min_length=1)]
    """The profiles, one for each `schedulerName`."""
