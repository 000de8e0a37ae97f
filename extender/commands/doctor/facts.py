"""What is known of a setup, and what could not be read."""

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
    """What could not be read."""

    reason: str


class Entry(NamedTuple):
    """The entry of `extenders` that is this extender's."""

    at: int
    extender: Extender
    """What it says; its `bindVerb` may be that of another entry."""
    binder: tuple[int, Extender] | None = None
    """The position of the entry of `bindVerb`, and what that says, if bind has one of its own."""

    @property
    def binding(self) -> Entry:
        """The entry by which bind is asked for."""
        return Entry(*self.binder) if self.binder else self

    @property
    def is_loopback(self) -> bool:
        """Whether kube-scheduler asks on its own machine, or in its own pod."""
        return is_loopback(self.extender.address[0])

    def key(self, name: str = "") -> str:
        """The path of a key of it."""
        at = self.binding.at if name == "bindVerb" else self.at
        return f"extenders[{at}].{name}".rstrip(".")


class Account(NamedTuple):
    """The account of the extender, and which of the rights that it needs it does not have."""

    name: str
    lacks: Sequence[Right]


class Activity(NamedTuple):
    """What a running extender has been asked since it started."""

    started: datetime
    verbs: Mapping[str, int]
    """The number of requests, by verb."""


class Readiness(NamedTuple):
    """What a running extender says of itself at /readyz."""

    failed: Sequence[str]
    warnings: Sequence[str]


class SchedulerFile(NamedTuple):
    """Where the scheduler has its configuration from."""

    name: str
    written: datetime | None


@dataclass(frozen=True)
class Facts:
    """What was read. Checks take its fields by their names."""

    scheduler: SchedulerConfig | Unread
    scheduler_file: SchedulerFile | Unread
    scheduler_workload: Workload | Unread
    scheduler_version: Version | Unread
    extender: Registration | Unread
    extender_workload: Workload | Unread
    service: NamedService | Unread
    """The Service that `urlPrefix` names."""
    api_version: Version | Unread
    group_apis: frozenset[str] | Unread
    """The API groups that have PodGroups."""
    account: Account | Unread
    wake_object: bool | Unread
    """Whether there is the object that wakes pods."""
    nodes: int | Unread
    """How many the cluster has."""
    unscheduled: Sequence[Pod] | Unread
    """Pods without a node, or the first of them."""
    scheduled: Sequence[Event] | Unread
    """Events about pods that were scheduled, or some of them."""
    activity: Activity | Unread
    readiness: Readiness | Unread
    entry: Entry | Unread = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entry", find_entry(self.scheduler, self.extender))


SOURCES: Final = {
    "scheduler": "the KubeSchedulerConfiguration",
    "scheduler_file": "the KubeSchedulerConfiguration",
    "scheduler_workload": "kube-scheduler's workload",
    "scheduler_version": "kube-scheduler's version",
    "extender": "the extender's configuration",
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
    """The entry at the extender's address; otherwise the only one there is."""
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
