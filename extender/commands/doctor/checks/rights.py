"""Whether the extender may do, and finds, what its plugins need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from extender.cluster.waker import COMPONENT, NAME, NAMESPACE
from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import Account
from extender.rollouts.registration import Registration

ROLE: Final = "manifests/base/role.yaml"
BIND: Final = "manifests/components/bind"


def _lacking(resource: str, subresource: str, outcome: str, mend: str) -> Callable[[Account], Iterator[Problem]]:
    """A `find` of Check: the rights on a resource that the extender's account lacks.

    `outcome` says what comes of it, and `mend` is the manifest that gives the rights.
    """

    def find(account: Account) -> Iterator[Problem]:
        lacks = [each for each in account.lacks if (each.resource, each.subresource) == (resource, subresource)]
        if lacks:
            yield Problem(f"{account.name} may not {', '.join(map(str, lacks))}: {outcome}", f"apply {mend}")

    return find


def _wake_object(extender: Registration, wake_object: bool) -> Iterator[Problem]:
    waking = [plugin.name for plugin in extender.plugins if plugin.wakes_pods]
    if waking and not wake_object:
        yield Problem(
            f"plugins {', '.join(waking)} have swap.wakePods, and there is no CSIStorageCapacity {NAME}: after a"
            " swap rejected pods wait for an event or five minutes",
            f"apply {COMPONENT} in the extender's namespace ({NAMESPACE})",
        )


def _groups(extender: Registration, group_apis: frozenset[str]) -> Iterator[Problem]:
    grouping = [plugin.name for plugin in extender.plugins if plugin.wants_groups]
    if grouping and not group_apis:
        yield Problem(
            f"plugins {', '.join(grouping)} keep groups of pods, and the API server has no PodGroups, neither of"
            " scheduling.k8s.io nor of scheduling.x-k8s.io: groups are known by their pods alone",
            "install the CustomResourceDefinition of scheduler-plugins, or switch on scheduling.k8s.io"
            " (--runtime-config, and the gate GenericWorkload)",
        )


CHECKS: Final = (
    Check(
        "right-nodes",
        Severity.ERROR,
        "The account may not read nodes.",
        _lacking("nodes", "", "guests have no nodes, and verbs fail", ROLE),
    ),
    Check(
        "right-pods",
        Severity.ERROR,
        "The account may not read pods, and a plugin or a bind needs them.",
        _lacking("pods", "", "plugins that know pods, and binds, fail", ROLE),
    ),
    Check(
        "right-groups",
        Severity.ERROR,
        "The account may not read PodGroups, and a plugin keeps groups.",
        _lacking("podgroups", "", "plugins that keep groups do not learn them", ROLE),
    ),
    Check(
        "right-events",
        Severity.WARNING,
        "The account may not write Events.",
        _lacking("events", "", "nobody sees at the pod why a plugin failed", ROLE),
    ),
    Check(
        "right-bind",
        Severity.ERROR,
        "The account may not bind, and kube-scheduler asks it to.",
        _lacking("pods", "binding", "every bind fails", BIND),
    ),
    Check(
        "right-wake",
        Severity.WARNING,
        "The account may not wake pods, and a plugin has `swap.wakePods`.",
        _lacking("csistoragecapacities", "", "rejected pods wait for an event or five minutes after a swap", COMPONENT),
    ),
    Check("wake-object", Severity.WARNING, "A plugin has `swap.wakePods`, and its object is missing.", _wake_object),
    Check("groups-api", Severity.WARNING, "A plugin keeps groups, and no API has PodGroups.", _groups),
)
