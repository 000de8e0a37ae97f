"""A KubeSchedulerConfiguration, with the fields that matter to an extender."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec
import yaml
from msgspec import Meta, Struct, field

from extender.config.yaml_loader import BoundedLoader
from extender.scheduling.verbs import VERBS

KIND: Final = "KubeSchedulerConfiguration"
DEFAULT_TIMEOUT_S: Final = 5.0
"""Seconds that kube-scheduler waits for an extender without `httpTimeout` (`DefaultExtenderTimeout`)."""

MIN_NODES_TO_FIND: Final = 100
MIN_PERCENTAGE_TO_FIND: Final = 5

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")


class ConfigurationError(Exception):
    """A text is no KubeSchedulerConfiguration. `str()` says why."""


class _Camel(Struct, frozen=True, rename="camel"):
    pass


class TlsConfig(_Camel, frozen=True):
    """How kube-scheduler asks the extender by TLS."""

    insecure: bool = False
    server_name: str = ""
    """What the extender's certificate has to be for, in the place of the URL's host."""
    ca_file: str = ""
    ca_data: str = ""
    cert_file: str = ""
    cert_data: str = ""


class ManagedResource(_Camel, frozen=True):
    """A resource: if an entry names any, kube-scheduler asks the extender only about pods that request one of them."""

    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(_Camel, frozen=True):
    """An entry of `extenders`. https://pkg.go.dev/k8s.io/kube-scheduler/config/v1#Extender."""

    url_prefix: str = field(default="", name="urlPrefix")
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: TlsConfig | None = None
    http_timeout: str | None = None
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    @property
    def url(self) -> SplitResult:
        """The parsed `urlPrefix`."""
        return urlsplit(self.url_prefix)

    @property
    def address(self) -> tuple[str, int | None]:
        """Host and port of the URL; the port is None if it is malformed."""
        try:
            port = self.url.port
        except ValueError:
            port = None
        default = {"http": 80, "https": 443}.get(self.url.scheme)
        return self.url.hostname or "", port or default

    @property
    def verbs(self) -> dict[str, str]:
        """The last part of the URL by the name of the verb, for each verb that kube-scheduler asks for."""
        given = {
            "filter": self.filter_verb,
            "prioritize": self.prioritize_verb,
            "preempt": self.preempt_verb,
            "bind": self.bind_verb,
        }
        return {name: given[name] for name in VERBS if given[name]}

    @property
    def seconds(self) -> float:
        """Seconds that kube-scheduler waits for an answer."""
        return duration(self.http_timeout or "0") or DEFAULT_TIMEOUT_S


class PluginEntry(_Camel, frozen=True):
    """A plugin of a profile of kube-scheduler."""

    name: str = ""
    weight: int | None = None


class PluginSet(_Camel, frozen=True):
    """What a profile changes of the plugins of an extension point."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class Plugins(_Camel, frozen=True):
    """What a profile changes of the in-tree plugins."""

    multi_point: PluginSet = PluginSet()
    score: PluginSet = PluginSet()


class SchedulerProfile(_Camel, frozen=True):
    """A profile of kube-scheduler."""

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: Annotated[int, Meta(ge=0, le=100)] | None = None
    plugins: Plugins | None = None


class LeaderElection(_Camel, frozen=True):
    """How several kube-schedulers elect the one that works."""

    leader_elect: bool = True
    resource_name: str = ""
    resource_namespace: str = ""

    @property
    def lease(self) -> tuple[str, str]:
        """Namespace and name of the Lease."""
        return self.resource_namespace or "kube-system", self.resource_name or "kube-scheduler"


class SchedulerConfig(_Camel, frozen=True):
    """A KubeSchedulerConfiguration, with kube-scheduler's defaults for the keys that are left out."""

    api_version: str = ""
    leader_election: LeaderElection = LeaderElection()
    percentage_of_nodes_to_score: Annotated[int, Meta(ge=0, le=100)] | None = None
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(),)
    extenders: tuple[Extender, ...] = ()
    unknown_keys: tuple[str, ...] = ()
    """Paths of the keys of `extenders` that kube-scheduler does not know."""

    @property
    def asked(self) -> list[int]:
        """Positions in `extenders` in the order in which kube-scheduler asks them: ignorable ones come last."""
        return sorted(range(len(self.extenders)), key=lambda at: self.extenders[at].ignorable)

    def nodes_to_find(self, profile: SchedulerProfile, nodes: int) -> int:
        """After how many feasible nodes of `nodes` kube-scheduler stops searching (`numFeasibleNodesToFind`)."""
        own = profile.percentage_of_nodes_to_score
        percentage = (self.percentage_of_nodes_to_score if own is None else own) or 0
        percentage = percentage or max(50 - nodes // 125, MIN_PERCENTAGE_TO_FIND)
        return nodes if nodes < MIN_NODES_TO_FIND else max(nodes * percentage // 100, MIN_NODES_TO_FIND)


def decode(text: str) -> SchedulerConfig:
    """Reads YAML or JSON. Raises ConfigurationError."""
    try:
        content = yaml.load(text, BoundedLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that no calendar has
        raise ConfigurationError(f"it is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ConfigurationError(f"it is no {KIND}")
    content = _without_nulls(content)
    try:
        found = msgspec.convert(content | {"unknownKeys": list(_unknown_keys(content))}, SchedulerConfig)
        for each in found.extenders:
            duration(each.http_timeout or "0")
            each.url  # noqa: B018 - a bad one raises ValueError
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigurationError(str(error)) from error
    return found


def duration(text: str) -> float:
    """Seconds of a duration as Go writes it, such as `1m30s`. Raises ValueError."""
    if text != "0" and not (text and _DURATION.sub("", text) == ""):
        raise ValueError(f"expected a duration such as 5s, found {text!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


def _unknown_keys(content: Mapping[str, Any]) -> Iterator[str]:
    known = {each.encode_name for each in msgspec.structs.fields(Extender)}
    extenders = content.get("extenders", ())
    for at, extender in enumerate(extenders if isinstance(extenders, list) else ()):
        if isinstance(extender, dict):
            yield from (f"extenders[{at}].{key}" for key in extender if key not in known)


def _without_nulls(value: Any) -> Any:
    """A document without the keys that have no value, which count as absent."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
