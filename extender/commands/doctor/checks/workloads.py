"""Whether schedulers and extenders stand in each other's way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import Entry
from extender.commands.doctor.objects import Workload
from extender.commands.doctor.scheduler import LeaderElection, SchedulerConfig
from extender.config import Replicas
from extender.rollouts.registration import DEFAULT_SCHEDULER, Registration


def _own_extender(scheduler: SchedulerConfig, entry: Entry, extender_workload: Workload) -> Iterator[Problem]:
    is_needed = not entry.extender.ignorable and not entry.extender.managed_resources
    if is_needed and _places(scheduler, extender_workload):
        yield Problem(
            f"{extender_workload} runs the extender and is placed by {extender_workload.pod.scheduler_name}, which"
            " asks this extender and may not ignore it: once its pod is gone, none is ever scheduled",
            "give its pods the schedulerName of another scheduler, or set ignorable to true",
        )


def _own_scheduler(scheduler: SchedulerConfig, scheduler_workload: Workload) -> Iterator[Problem]:
    if _places(scheduler, scheduler_workload):
        yield Problem(
            f"{scheduler_workload} runs kube-scheduler and is placed by {scheduler_workload.pod.scheduler_name},"
            " which is itself: once its pod is gone, none is ever scheduled",
            "give its pods the schedulerName of another scheduler",
        )


def _election(scheduler: SchedulerConfig, scheduler_workload: Workload) -> Iterator[Problem]:
    if scheduler_workload.replicas > 1 and not scheduler.leader_election.leader_elect:
        yield Problem(
            f"{scheduler_workload} has {scheduler_workload.replicas} replicas, and leaderElection.leaderElect is"
            " false: all of them schedule the same pods",
            "set leaderElect to true, or replicas to 1",
        )


def _lease(scheduler: SchedulerConfig) -> Iterator[Problem]:
    election = scheduler.leader_election
    names = [profile.scheduler_name for profile in scheduler.profiles]
    if election.leader_elect and election.lease == LeaderElection().lease and DEFAULT_SCHEDULER not in names:
        yield Problem(
            f"the scheduler of {', '.join(names)} has the Lease {'/'.join(election.lease)} of the cluster's own"
            " scheduler: one of the two never works",
            "set leaderElection.resourceNamespace and resourceName to a Lease of its own",
        )


def _replicas(scheduler_workload: Workload, extender_workload: Workload, extender: Registration) -> Iterator[Problem]:
    is_beside = extender_workload == scheduler_workload
    wanted = Replicas.STANDBY if is_beside else Replicas.SHARED
    if extender_workload.replicas < 2 or extender.replicas is wanted:
        return
    found = f"{extender_workload} has {extender_workload.replicas} replicas, and server.replicas is"
    found = f"{found} {extender.replicas.value}"
    if is_beside:
        yield Problem(
            f"{found}: an upload or a rollback changes one of them, and a fail-over takes it back",
            f"set server.replicas to {wanted.value}, or replicas to 1",
        )
    else:
        yield Problem(
            f"{found}: the calls of a pod's cycle reach different ones, and plugins may rely on earlier ones",
            f"set server.replicas to {wanted.value}, which refuses plugins that cannot serve so, or replicas to 1",
        )


def _none(extender_workload: Workload) -> Iterator[Problem]:
    if extender_workload.replicas == 0:
        yield Problem(f"{extender_workload} has no replicas: the extender does not run", "set replicas to 1")


def _places(scheduler: SchedulerConfig, workload: Workload) -> bool:
    """Whether a scheduler places the pods of a workload; the kubelet's static pods are placed by none."""
    names = {profile.scheduler_name for profile in scheduler.profiles}
    return workload.kind == "Deployment" and workload.pod.scheduler_name in names


CHECKS: Final = (
    Check("own-pod-extender", Severity.ERROR, "The extender's pod can be scheduled only while it runs.", _own_extender),
    Check(
        "own-pod-scheduler", Severity.ERROR, "kube-scheduler's pod can be scheduled only while it runs.", _own_scheduler
    ),
    Check("scheduler-election", Severity.ERROR, "Several replicas of kube-scheduler elect no leader.", _election),
    Check("scheduler-lease", Severity.ERROR, "A second scheduler shares the Lease of the first.", _lease),
    Check(
        "extender-replicas",
        Severity.ERROR,
        "The extender has replicas that its configuration does not know of.",
        _replicas,
    ),
    Check("extender-none", Severity.ERROR, "The extender has no replicas.", _none),
)
