"""Which pods are judged, by what, and which are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import Entry
from extender.commands.doctor.objects import Version, Workload
from extender.commands.doctor.scheduler import SchedulerConfig, SchedulerProfile
from extender.rollouts.registration import RegisteredProfile, Registration
from extender.scheduling.live_profiles import DEFAULT_PROFILE

BATCHING: Final = "OpportunisticBatching=true"
BATCHING_SINCE: Final = Version(1, 35)


def judged_by(theirs: SchedulerProfile, extender: Registration) -> RegisteredProfile:
    """The profile that judges the pods of a profile of kube-scheduler."""
    profiles = {profile.name: profile for profile in extender.profiles}
    return profiles.get(theirs.scheduler_name) or profiles.get(DEFAULT_PROFILE) or extender.profiles[0]


def _unknown(scheduler: SchedulerConfig, extender: Registration) -> Iterator[Problem]:
    served = {profile.scheduler_name for profile in scheduler.profiles}
    for profile in extender.profiles:
        if profile.name != DEFAULT_PROFILE and profile.name not in served:
            yield Problem(
                f"the extender has a profile {profile.name}, and kube-scheduler has none with this schedulerName:"
                " nobody asks about such pods",
                f"add a profile with schedulerName: {profile.name} to kube-scheduler, or rename the extender's to"
                f" one of {', '.join(sorted(served))}",
            )


def _fallback(scheduler: SchedulerConfig, extender: Registration) -> Iterator[Problem]:
    names = {profile.name for profile in extender.profiles}
    for theirs in scheduler.profiles:
        if not names & {theirs.scheduler_name, DEFAULT_PROFILE}:
            yield Problem(
                f"pods with schedulerName {theirs.scheduler_name} are judged by profile {extender.profiles[0].name}:"
                " it is the first, and none is named so, nor default",
                f"give the extender a profile {theirs.scheduler_name} or default",
            )


def _batching(
    scheduler: SchedulerConfig, extender: Registration, scheduler_workload: Workload, scheduler_version: Version
) -> Iterator[Problem]:
    if scheduler_version < BATCHING_SINCE or not scheduler.extenders:
        return
    names = {profile.scheduler_name for profile in extender.profiles}
    others = [each.scheduler_name for each in scheduler.profiles if each.scheduler_name not in names]
    container = scheduler_workload.scheduler
    is_wanted = container and BATCHING in (container.flag("feature-gates") or "").split(",")
    losers = f"pods of {', '.join(others)}" if others else "all pods" if is_wanted else ""
    if losers:
        yield Problem(
            f"any extender switches off opportunistic batching for all profiles of a kube-scheduler: {losers} lose it",
            "let another kube-scheduler, without extenders, place the pods that need no plugin",
        )


def _managed(entry: Entry) -> Iterator[Problem]:
    names = ", ".join(each.name for each in entry.extender.managed_resources)
    if names:
        yield Problem(
            f"{entry.key('managedResources')} has kube-scheduler ask only about pods of which a container or an init"
            f" container names {names}: pods that ask in another way (annotations, resource claims, resources of the"
            " whole pod) are judged by no plugin",
            "leave out managedResources, unless plugins are about these containers alone",
        )


CHECKS: Final = (
    Check(
        "profile-unasked",
        Severity.ERROR,
        "A profile has a name that is no `schedulerName` of kube-scheduler's profiles.",
        _unknown,
    ),
    Check("profile-fallback", Severity.WARNING, "Pods are judged by a profile that is not theirs.", _fallback),
    Check("pods-managed-resources", Severity.WARNING, "`managedResources` leaves pods out.", _managed),
    Check("pods-batching", Severity.INFO, "Pods that need no plugin lose opportunistic batching.", _batching),
)
