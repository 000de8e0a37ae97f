"""The facts about a setup that checks need, and why some could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from extender.commands.doctor.objects import Event, NamedService, Pod, Version, Workload
from extender.commands.doctor.rights import Right
from extender.commands.doctor.scheduler import Extender, SchedulerConfig
from extender.config.urls import is_loopback
from extender.rollouts.registration import Registration


class Unread(NamedTuple):
    """In the place of a fact that could not be read."""

    reason: str


class Entry(NamedTuple):
    """The entry for this extender among the `extenders` of a KubeSchedulerConfiguration."""

    at: int
    """The position of the entry, counted from 0."""
    extender: Extender
    """The content of the entry, with the `bindVerb` of `binder` if there is one."""
    binder: tuple[int, Extender] | None = None
    """Position and content of a second entry for this extender, which has its `bindVerb` alone."""

    @property
    def binding(self) -> Entry:
        """The entry that has the `bindVerb`, if one has."""
        return Entry(*self.binder) if self.binder else self

    @property
    def is_loopback(self) -> bool:
        """Whether kube-scheduler asks on loopback: on its own machine, or in its own pod."""
        return is_loopback(self.extender.address[0])

    def key(self, name: str = "") -> str:
        """The path of the entry, or of one of its keys, as in `extenders[0].weight`."""
        at = self.binding.at if name == "bindVerb" else self.at
        return f"extenders[{at}].{name}".rstrip(".")


class Account(NamedTuple):
    """The account with which the extender uses the API server."""

    name: str
    lacks: Sequence[Right]
    """The rights that the extender needs and the account does not have."""


class Activity(NamedTuple):
    """How often a running extender has been asked since it started."""

    started: datetime
    verbs: Mapping[str, int]
    """The number of requests by verb."""


class Readiness(NamedTuple):
    """What a running extender says at /readyz."""

    failed: Sequence[str]
    """The conditions that do not hold, each with its cause."""
    warnings: Sequence[str]
    """The conditions that hold with a warning, each with the warning."""


class SchedulerFile(NamedTuple):
    """The file or ConfigMap from which kube-scheduler has its configuration."""

    name: str
    written: datetime | None
    """When the ConfigMap was last written; None if unknown."""


@dataclass(frozen=True)
class Facts:
    """All that was read of a setup. The parameters of checks are named as these fields."""

    scheduler: SchedulerConfig | Unread
    scheduler_file: SchedulerFile | Unread
    scheduler_workload: Workload | Unread
    scheduler_version: Version | Unread
    extender: Registration | Unread
    certificate_hosts: Sequence[str] | Unread
    """The hosts that the extender's certificate is for; none without TLS."""
    extender_workload: Workload | Unread
    service: NamedService | Unread
    """The Service that `urlPrefix` names."""
    api_version: Version | Unread
    group_apis: frozenset[str] | Unread
    """The API groups that have PodGroups."""
    account: Account | Unread
    wake_object: bool | Unread
    """Whether the object exists that wakes pods."""
    nodes: int | Unread
    """Number of nodes in the cluster."""
    unscheduled: Sequence[Pod] | Unread
    """Pods without a node; some of them if there are many."""
    scheduled: Sequence[Event] | Unread
    """Events about pods that were scheduled; some of them if there are many."""
    activity: Activity | Unread
    readiness: Readiness | Unread
    entry: Entry | Unread = field(init=False)
    """The entry for this extender in `scheduler`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "entry", find_entry(self.scheduler, self.extender))


SOURCES: Final = {
    "scheduler": "the KubeSchedulerConfiguration",
    "scheduler_file": "the KubeSchedulerConfiguration",
    "scheduler_workload": "kube-scheduler's workload",
    "scheduler_version": "kube-scheduler's version",
    "extender": "the extender's configuration",
    "certificate_hosts": "the extender's certificate",
    "extender_workload": "the extender's workload",
    "service": "the Service of urlPrefix",
    "api_version": "the API server's version",
    "group_apis": "the API server's groups",
    "account": "the account's rights",
    "wake_object": "the object that wakes pods",
    "nodes": "nodes",
    "unscheduled": "pods without a node",
    "scheduled": "Events about scheduled pods",
    "activity": "the extender's metrics",
    "readiness": "the extender's /readyz",
    "entry": "the KubeSchedulerConfiguration",
}
"""What messages and the documentation call the fields of Facts."""


def find_entry(scheduler: SchedulerConfig | Unread, extender: Registration | Unread) -> Entry | Unread:
    """The entry for the extender: the one with its port, or the only one.

    Two entries with the same address are one if filter and bind are apart. Unread if there is no entry or a choice.
    """
    if isinstance(scheduler, Unread):
        return scheduler
    entries = [Entry(at, each) for at, each in enumerate(scheduler.extenders)]
    if len(entries) > 1 and not isinstance(extender, Unread):
        entries = [each for each in entries if each.extender.address[1] == extender.port] or entries
    if not entries:
        return Unread("it has no extenders")
    if len({each.extender.address for each in entries}) > 1:
        return Unread("it has several extenders, and it is not known which of them is this one")
    judges = [each for each in entries if each.extender.filter_verb]
    binders = [each for each in entries if each.extender.bind_verb and not each.extender.filter_verb]
    if len(entries) == 2 and judges and binders:
        (at, judge, _), (bind_at, binder, _) = *judges, *binders
        both = msgspec.structs.replace(judge, bind_verb=binder.bind_verb)
        return Entry(at, both, (bind_at, binder))
    return entries[0]
