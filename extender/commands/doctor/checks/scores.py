"""Whether scores count as much as they are meant to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.checks.pods import judged_by
from extender.commands.doctor.facts import Entry
from extender.commands.doctor.scheduler import SchedulerConfig, SchedulerProfile
from extender.rollouts.registration import Registration

WEIGHTS: Final = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""Default weights of the in-tree plugins that score (`pkg/scheduler/apis/config/v1/default_plugins.go`)."""

KUBE_RANGE: Final = 10
"""kube-scheduler multiplies scores of extenders, which are to be 0 to 10, by ten (`MaxExtenderPriority`)."""


def _weight(entry: Entry) -> Iterator[Problem]:
    if entry.extender.prioritize_verb and entry.extender.weight <= 0:
        yield Problem(
            f"{entry.key()} has a prioritizeVerb and no positive weight; kube-scheduler does not start with it",
            f"set {entry.key('weight')} to 1 or more",
        )


def _too_much(scheduler: SchedulerConfig, entry: Entry, extender: Registration) -> Iterator[Problem]:
    for theirs in scheduler.profiles if entry.extender.prioritize_verb else ():
        ours = judged_by(theirs, extender)
        low = [name for name, weight in _weights(theirs).items() if weight < KUBE_RANGE * WEIGHTS[name]]
        if ours.score_range > KUBE_RANGE and low:
            yield Problem(
                f"profile {ours.name} has scoreRange {ours.score_range}, and profile {theirs.scheduler_name} of"
                f" kube-scheduler has not raised the weights of {', '.join(low)} tenfold: the extender's scores"
                " count ten times as much beside these as its weight says",
                "raise these weights tenfold, or set scoreRange to 10",
            )


def _too_little(scheduler: SchedulerConfig, entry: Entry, extender: Registration) -> Iterator[Problem]:
    for theirs in scheduler.profiles if entry.extender.prioritize_verb else ():
        ours, weights = judged_by(theirs, extender), _weights(theirs)
        is_raised = weights and all(weight >= KUBE_RANGE * WEIGHTS[name] for name, weight in weights.items())
        if ours.score_range == KUBE_RANGE and is_raised and entry.extender.weight < KUBE_RANGE:
            yield Problem(
                f"profile {theirs.scheduler_name} of kube-scheduler has raised the weights of its plugins tenfold,"
                f" and profile {ours.name} has scoreRange 10: the extender's scores count a tenth of what its weight"
                " says",
                "set scoreRange to 100",
            )


def _weights(profile: SchedulerProfile) -> dict[str, int]:
    """The weights of the in-tree plugins that score in a profile, as kube-scheduler merges them (`mergePluginSet`)."""
    weights = dict(WEIGHTS)
    for changes in (profile.plugins.multi_point, profile.plugins.score) if profile.plugins else ():
        disabled = {each.name for each in changes.disabled}
        weights = {name: weight for name, weight in weights.items() if not disabled & {name, "*"}}
        weights |= {each.name: each.weight or 1 for each in changes.enabled if each.name in WEIGHTS}
    return weights


CHECKS: Final = (
    Check("score-weight", Severity.ERROR, "The extender scores, and has no weight.", _weight),
    Check("score-range", Severity.WARNING, "`scoreRange` is 100, and in-tree weights are not raised.", _too_much),
    Check("score-range-low", Severity.WARNING, "In-tree weights are raised, and `scoreRange` is 10.", _too_little),
)
