"""Whether plugins see the nodes that they have to see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.checks.pods import judged_by
from extender.commands.doctor.facts import Entry
from extender.commands.doctor.scheduler import SchedulerConfig
from extender.rollouts.registration import Registration


def _names(entry: Entry, extender: Registration) -> Iterator[Problem]:
    wanting = [plugin.name for plugin in extender.plugins if plugin.wants_nodes]
    if entry.extender.node_cache_capable and not extender.names_are_enough:
        yield Problem(
            f"{entry.key('nodeCacheCapable')} is true and cluster.mode is {extender.cluster_mode}: requests name"
            f" nodes whose objects the extender does not have, and plugins {', '.join(wanting)} ask for them",
            "set cluster.mode to in-cluster or kubeconfig, or nodeCacheCapable to false",
        )


def _whole(entry: Entry, extender: Registration) -> Iterator[Problem]:
    if not entry.extender.node_cache_capable and extender.names_are_enough:
        yield Problem(
            f"{entry.key('nodeCacheCapable')} is not true: kube-scheduler sends whole nodes, of which the extender"
            " needs the names alone",
            "set nodeCacheCapable to true",
        )


def _some(scheduler: SchedulerConfig, entry: Entry, extender: Registration, nodes: int) -> Iterator[Problem]:
    for theirs in scheduler.profiles if entry.extender.filter_verb else ():
        shown, ours = scheduler.nodes_to_find(theirs, nodes), judged_by(theirs, extender)
        if shown < nodes and "filter" in ours.verbs:
            most = f", and topNodes of profile {ours.name} chooses among these alone" if ours.top_nodes else ""
            yield Problem(
                f"profile {theirs.scheduler_name} of kube-scheduler shows filter {shown} of {nodes} nodes at a time:"
                f" a pod is rejected if the nodes that plugins let pass are among the others{most}",
                "set percentageOfNodesToScore to 100",
            )


def _last(scheduler: SchedulerConfig, entry: Entry, extender: Registration) -> Iterator[Problem]:
    later = scheduler.asked[scheduler.asked.index(entry.at) + 1 :]
    others = [f"extenders[{at}]" for at in later if scheduler.extenders[at].filter_verb]
    choosing = [profile.name for profile in extender.profiles if profile.top_nodes]
    if others and choosing:
        yield Problem(
            f"profile {', '.join(choosing)} has topNodes, and {', '.join(others)} filters after {entry.key()}: where"
            " it rejects the nodes that are left, the pod stays pending, though others would have passed",
            "put this extender behind all others, and make it ignorable if one of them is, or leave out topNodes",
        )


CHECKS: Final = (
    Check("nodes-unknown", Severity.ERROR, "Requests name nodes that the extender does not know.", _names),
    Check("nodes-whole", Severity.WARNING, "Requests carry whole nodes for nothing.", _whole),
    Check("nodes-some", Severity.WARNING, "kube-scheduler shows only some of the nodes that fit.", _some),
    Check("top-nodes-last", Severity.ERROR, "With `topNodes` another extender filters later.", _last),
)
