"""The verbs, in the order in which kube-scheduler calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from extender.scheduling.bind import BIND
from extender.scheduling.filter import FILTER
from extender.scheduling.preempt import PREEMPT
from extender.scheduling.prioritize import PRIORITIZE
from extender.scheduling.profile import Profile
from extender.scheduling.verb import Judging, JudgingVerb, Verb

JUDGING: Final[Mapping[JudgingVerb, Judging]] = {verb.name: verb for verb in (FILTER, PRIORITIZE, PREEMPT)}
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in (*JUDGING.values(), BIND)}


def used_verbs(profiles: Iterable[Profile]) -> set[str]:
    """The verbs in which some plugin has a say."""
    runs = [profile.runs for profile in profiles]
    return {name for name, verb in VERBS.items() if any(run(export) for run in runs for export in verb.exports)}
