"""Whether resources that kube-scheduler does not count are counted by somebody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import Entry
from extender.commands.doctor.scheduler import Extender, SchedulerConfig


def _everywhere(scheduler: SchedulerConfig, entry: Entry) -> Iterator[Problem]:
    names = _ignored(entry.extender)
    if names and len(scheduler.profiles) > 1:
        yield Problem(
            f"{entry.key('managedResources')} has ignoredByScheduler for {names}: kube-scheduler does not count it"
            f" in any of its {len(scheduler.profiles)} profiles, and forgets their own ignoredResources",
            "leave out ignoredByScheduler, or run a kube-scheduler of its own with this extender",
        )


def _nowhere(entry: Entry) -> Iterator[Problem]:
    names = _ignored(entry.extender)
    causes = [
        cause
        for cause, is_so in (
            ("has no filterVerb", not entry.extender.filter_verb),
            ("is ignorable", entry.extender.ignorable),
        )
        if is_so
    ]
    if names and causes:
        yield Problem(
            f"{entry.key('managedResources')} has ignoredByScheduler for {names}, and the extender {causes[0]}:"
            " where it is not asked or fails, nobody counts, and nodes get more pods than they have room for",
            "leave out ignoredByScheduler, or have the extender filter, with ignorable: false",
        )


def _ignored(extender: Extender) -> str:
    return ", ".join(each.name for each in extender.managed_resources if each.ignored_by_scheduler)


CHECKS: Final = (
    Check("resources-ignored", Severity.WARNING, "`ignoredByScheduler` reaches all profiles.", _everywhere),
    Check("resources-uncounted", Severity.ERROR, "Nobody counts a resource that kube-scheduler ignores.", _nowhere),
)
