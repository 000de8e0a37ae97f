"""Whether kube-scheduler takes its configuration, and is one that the extender knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import SchedulerFile
from extender.commands.doctor.objects import Version, Workload
from extender.commands.doctor.scheduler import SchedulerConfig

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"

OLDEST, NEWEST = Version(1, 34), Version(1, 37)
"""The minors of kube-scheduler that are supported, both included."""


def _api_version(scheduler: SchedulerConfig) -> Iterator[Problem]:
    if scheduler.api_version != API_VERSION:
        yield Problem(
            f"the KubeSchedulerConfiguration has apiVersion {scheduler.api_version!r}, which no supported"
            " kube-scheduler reads",
            f"write apiVersion: {API_VERSION}",
        )


def _unknown_keys(scheduler: SchedulerConfig) -> Iterator[Problem]:
    for path in scheduler.unknown_keys:
        yield Problem(
            f"{path} is no key of an extender; kube-scheduler does not start with it",
            "correct the key, upper and lower case included, or leave it out",
        )


def _unsupported(scheduler_version: Version) -> Iterator[Problem]:
    if not OLDEST <= scheduler_version <= NEWEST:
        yield Problem(
            f"kube-scheduler is {scheduler_version}; the extender is tested with {OLDEST} to {NEWEST}",
            "run a supported kube-scheduler, or another release of the extender",
        )


def _newer(scheduler_version: Version, api_version: Version) -> Iterator[Problem]:
    if scheduler_version > api_version:
        yield Problem(
            f"kube-scheduler is {scheduler_version}, and the API server is {api_version}: kube-scheduler waits for"
            " kinds of objects that an older API server does not have",
            f"run kube-scheduler {api_version}",
        )


def _older(scheduler_version: Version, api_version: Version) -> Iterator[Problem]:
    if (scheduler_version.major, scheduler_version.minor + 1) < api_version:
        yield Problem(
            f"kube-scheduler is {scheduler_version}, and the API server is {api_version}; Kubernetes supports a"
            " kube-scheduler that is one minor older",
            f"run kube-scheduler {api_version}",
        )


def _restart(scheduler_file: SchedulerFile, scheduler_workload: Workload) -> Iterator[Problem]:
    started, written = scheduler_workload.started, scheduler_file.written
    if started and written and written > started:
        yield Problem(
            f"{scheduler_file.name} was written after {scheduler_workload} had started, and kube-scheduler reads its"
            " configuration at the start alone",
            f"restart {scheduler_workload}",
        )


CHECKS: Final = (
    Check(
        "scheduler-api-version",
        Severity.ERROR,
        "The KubeSchedulerConfiguration has a version that kube-scheduler does not read.",
        _api_version,
    ),
    Check("scheduler-unknown-key", Severity.ERROR, "A key of `extenders` is misspelled.", _unknown_keys),
    Check(
        "scheduler-unsupported",
        Severity.WARNING,
        "The minor of kube-scheduler is none of those that are supported.",
        _unsupported,
    ),
    Check("scheduler-newer", Severity.ERROR, "kube-scheduler is newer than its API server.", _newer),
    Check("scheduler-older", Severity.WARNING, "kube-scheduler is two minors older than its API server.", _older),
    Check(
        "scheduler-restart",
        Severity.WARNING,
        "kube-scheduler has not read the configuration that its ConfigMap has now.",
        _restart,
    ),
)
