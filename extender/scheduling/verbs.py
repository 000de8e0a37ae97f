"""The verbs, in the order in which kube-scheduler calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from extender.scheduling.bind import BIND
from extender.scheduling.filter import FILTER
from extender.scheduling.preempt import PREEMPT
from extender.scheduling.prioritize import PRIORITIZE
from extender.scheduling.profile import Profile
from extender.scheduling.verb import JudgingVerb, JudgingVerbName, Verb

JUDGING: Final[Mapping[JudgingVerbName, JudgingVerb]] = {verb.name: verb for verb in (FILTER, PRIORITIZE, PREEMPT)}
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in (*JUDGING.values(), BIND)}


def used_verbs(profiles: Iterable[Profile]) -> set[str]:
    """The verbs that kube-scheduler has to ask for."""
    return {name for profile in profiles for name, verb in VERBS.items() if _uses(profile, verb)}


def _uses(profile: Profile, verb: Verb) -> bool:
    """Whether the plugins of a profile have a say in a verb. With topNodes, filter scores, too.

    Where plugins know pods the extender binds, so that it knows of each bind first, and Filter can look once more. It
    also binds where a pod is to get annotations at its bind.
    """
    if verb is BIND and (profile.wants_pods or profile.simulator_results):
        return True
    if profile.top_nodes and verb is FILTER:
        return True
    if profile.top_nodes == 1 and verb is PRIORITIZE:
        return False  # kube-scheduler does not ask about one node.
    return any(map(profile.runs, verb.exports))
