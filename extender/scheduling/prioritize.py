"""prioritize: PreScore, Score on each node and NormalizeScore, plugin after plugin."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import add
from typing import Final, NamedTuple

from extender.scheduling.profile import Profile
from extender.scheduling.verb import JudgingVerb, Question
from wasm_runtime.abi import MAX_NODE_SCORE
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes

MAX_TABULATED: Final = 10_000
"""Totals whose answers are looked up, which takes a quarter of finding them. More would take long to make."""


class Totals(NamedTuple):
    """The plugins' scores of some nodes, each times the plugin's weight, added up."""

    scores: Sequence[int]
    """One a node."""
    mean: Callable[[int], int]
    """Makes of one of these what prioritize answers: the mean of the plugins' scores, in 0..`profile.score_range`."""


def run(profile: Profile, pod: Pod, nodes: Nodes) -> Totals:
    """The scores of all plugins together.

    A plugin that skips the pod or whose failure is ignored has no part in them. If none has, all nodes score 0. Raises
    PluginFailedError.
    """
    totals: Sequence[int] = ()
    weights = 0
    for profile_plugin in profile.plugins:
        if not nodes.names or not profile_plugin.plugin.runs("score"):
            continue
        scores = profile_plugin.attempt("prioritize", score, pod, nodes)
        if scores is not None:
            weighted = scores if profile_plugin.weight == 1 else list(map(profile_plugin.weight.__mul__, scores))
            totals = list(map(add, totals, weighted)) if weights else weighted
            weights += profile_plugin.weight
    if not weights:
        totals = [0] * len(nodes.names)
    return Totals(totals, _scale(weights or 1, profile.score_range))


def score(plugin: Plugin, pod: Pod, nodes: Nodes) -> list[int] | None:
    """A plugin's scores in 0..100; None if it skips the pod. Raises GuestError."""
    with plugin.guest(pod, nodes, "score") as (guest, deadline):
        return guest.score(nodes, deadline)


def _decide(plugin: Plugin, question: Question) -> list[int] | None:
    return score(plugin, question.pod, question.nodes) if plugin.runs("score") else None


def _describe(scores: list[int] | None, names: Sequence[str]) -> Sequence[str | int]:
    return ["skipped"] * len(names) if scores is None else scores


PRIORITIZE: Final = JudgingVerb("prioritize", "prioritizeVerb", ("score",), _decide, _describe)


@lru_cache(maxsize=64)
def _scale(weights: int, score_range: int) -> Callable[[int], int]:
    """Makes the answer of a total of weighted scores, rounded to the nearest, halves up."""
    whole = weights * MAX_NODE_SCORE
    least = [-(-whole * (2 * answer - 1) // (2 * score_range)) for answer in range(1, score_range + 1)]
    find = partial(bisect_right, least)  # So many answers have a least total that is not above this one.
    return list(map(find, range(whole + 1))).__getitem__ if whole <= MAX_TABULATED else find
