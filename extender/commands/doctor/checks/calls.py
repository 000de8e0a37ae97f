"""Whether a running extender is asked, and can answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import filterfalse
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.checks.tls import is_refused
from extender.commands.doctor.facts import Activity, Entry, Readiness
from extender.commands.doctor.objects import Event, Pod
from extender.commands.doctor.scheduler import SchedulerConfig

LOOK: Final = (
    "check that kube-scheduler was restarted with this configuration and reaches urlPrefix (NetworkPolicy, DNS,"
    " TLS); kubectl logs of kube-scheduler tells"
)


def _never(
    scheduler: SchedulerConfig, entry: Entry, activity: Activity, scheduled: Sequence[Event]
) -> Iterator[Problem]:
    names = {profile.scheduler_name for profile in scheduler.profiles}
    passed = [
        event
        for event in scheduled
        if event.reporting_controller in names and event.event_time and event.event_time > activity.started
    ]
    sure = [
        verb for verb in ("filter", "bind") if verb in entry.extender.verbs and not entry.extender.managed_resources
    ]
    if sure and passed and not activity.verbs.get(sure[0]):
        yield Problem(
            f"since the extender started ({activity.started:%Y-%m-%d %H:%M:%S} UTC) kube-scheduler has scheduled"
            f" pods, and has not asked {sure[0]}: nothing that plugins say counts",
            LOOK,
        )


def _waiting(
    scheduler: SchedulerConfig, entry: Entry, activity: Activity, unscheduled: Sequence[Pod]
) -> Iterator[Problem]:
    names = {profile.scheduler_name for profile in scheduler.profiles}
    waiting = [pod for pod in unscheduled if pod.spec.scheduler_name in names]
    if waiting and entry.extender.verbs and not any(activity.verbs.values()):
        first = waiting[0].metadata
        yield Problem(
            f"pods of {', '.join(sorted(names))} have no node ({len(waiting)} of them, such as"
            f" {first.namespace}/{first.name}), and the extender has not been asked about any pod: kube-scheduler"
            " does not reach it, does not run, or its own plugins leave no node",
            f"{LOOK}; kubectl describe pod tells what the in-tree plugins say",
        )


def _failed(readiness: Readiness) -> Iterator[Problem]:
    for line in readiness.failed:
        yield Problem(f"the extender is not ready: {line}", "see docs/troubleshooting.md for the message")


def _warned(readiness: Readiness) -> Iterator[Problem]:
    for line in filterfalse(is_refused, readiness.warnings):
        yield Problem(f"the extender warns: {line}", "see docs/troubleshooting.md for the message")


CHECKS: Final = (
    Check("asked-never", Severity.ERROR, "Pods are scheduled, and the extender is not asked.", _never),
    Check("asked-not-yet", Severity.WARNING, "Pods wait, and the extender was never asked.", _waiting),
    Check("ready-not", Severity.ERROR, "The extender is not ready.", _failed),
    Check("ready-warning", Severity.WARNING, "The extender is ready, but not all is well.", _warned),
)
