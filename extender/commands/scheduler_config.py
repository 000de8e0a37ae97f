"""The KubeSchedulerConfiguration that registers the extender in a stock kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from extender.config import ExtenderConfiguration
from extender.scheduling.live_profiles import LiveProfiles
from extender.scheduling.top_nodes import notices
from extender.scheduling.verbs import VERBS, used_verbs

MIN_TIMEOUT_S: Final = 5.0
"""Seconds that kube-scheduler waits at least; its own default."""

ANY_HOST: Final = frozenset({"0.0.0.0", "::"})


class IgnorableError(Exception):
    """An extender that kube-scheduler may ignore has plugins that it must not. `str()` names cause and mend."""

    def __init__(self, plugins: Iterable[str]) -> None:
        super().__init__(
            f"--ignorable: {' and '.join(plugins)}, and kube-scheduler binds by itself what an ignorable extender"
            " refuses to bind: leave out --ignorable, or those exports by extensionPoints"
        )


@dataclass(frozen=True, slots=True)
class Choices:
    """What the operator decides."""

    url: str | None = None
    """Where kube-scheduler finds the verbs; from server.address by default."""
    weight: int = 1
    node_cache_capable: bool | None = None
    """Whether requests carry names only; by default where that is enough for the plugins."""
    kubeconfig: str | None = None
    """The scheduler's own, where it does not run in a pod."""
    leader_election: bool = True
    ignorable: bool = False
    """Whether kube-scheduler goes on without the extender when it fails."""


def build(configuration: ExtenderConfiguration, profiles: LiveProfiles, choices: Choices) -> dict[str, Any]:
    """The configuration as a mapping.

    Source of its fields: `k8s.io/kube-scheduler/config/v1`, type `KubeSchedulerConfiguration`. Raises IgnorableError
    where it would be ignorable and have a bindVerb (`extendersBinding` in `pkg/scheduler/schedule_one.go`).
    """
    connection = {"clientConnection": {"kubeconfig": choices.kubeconfig}} if choices.kubeconfig else {}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **connection,
        "leaderElection": {"leaderElect": choices.leader_election},
        "profiles": [
            {"schedulerName": name} for name in dict.fromkeys(_scheduler(profile.name) for profile in profiles)
        ],
        "extenders": [_extender(configuration, profiles, choices)],
    }


def notes(configuration: ExtenderConfiguration) -> Iterator[str]:
    """What an operator has to know who registers the extender."""
    yield from notices(configuration.profiles)
    if any(profile.top_nodes for profile in configuration.profiles):
        yield (
            "with topNodes this extender has to be the last of the extenders, behind ignorable ones as well: another"
            " that rejects the nodes that are left keeps the pod pending, though it would have kept others"
        )


def _scheduler(profile: str) -> str:
    return "default-scheduler" if profile == "default" else profile


def _extender(configuration: ExtenderConfiguration, profiles: LiveProfiles, choices: Choices) -> dict[str, Any]:
    cached = choices.node_cache_capable
    wanted = used_verbs(profiles)
    if not configuration.cluster.is_connected:
        wanted.discard("bind")
    if "bind" in wanted and choices.ignorable:
        raise IgnorableError(_binding(profiles))
    if "bind" in wanted:
        wanted.add("filter")  # bind takes only what filter has answered.
    return {
        "urlPrefix": choices.url or _url(configuration),
        **{verb.key: name for name, verb in VERBS.items() if name in wanted},
        "weight": choices.weight,
        "nodeCacheCapable": _can_cache(configuration, profiles) if cached is None else cached,
        "httpTimeout": f"{round(_timeout(configuration) * 1000)}ms".replace("000ms", "s"),
        "ignorable": choices.ignorable,
    }


def _binding(profiles: LiveProfiles) -> Iterator[str]:
    """The plugins that have a part in binding, and by what."""
    for profile in profiles:
        for plugin in (entry.plugin for entry in profile.plugins):
            exports = [export for export in VERBS["bind"].exports if plugin.runs(export)]
            parts = [*exports, "it knows pods"] if plugin.wants_pods else exports
            if parts:
                yield f"plugin {plugin.name} of profile {profile.name} has a part in binding ({', '.join(parts)})"


def _can_cache(configuration: ExtenderConfiguration, profiles: LiveProfiles) -> bool:
    return configuration.cluster.is_connected or not any(profile.wants_nodes for profile in profiles)


def _url(configuration: ExtenderConfiguration) -> str:
    address = configuration.server.address
    return f"http://{address._replace(host='127.0.0.1') if address.host in ANY_HOST else address}"


def _timeout(configuration: ExtenderConfiguration) -> float:
    """Long enough for every plugin of a profile to meet its own timeout twice, and for bind.

    preempt asks plugins in two halves, and so does filter with topNodes.
    """
    longest = max(sum(plugin.timeout for plugin in profile.plugins) for profile in configuration.profiles)
    return max(MIN_TIMEOUT_S, 2 * longest + 1, configuration.server.bind_timeout + 1)
