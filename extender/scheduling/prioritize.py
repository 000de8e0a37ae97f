"""prioritize: PreScore, Score on each node and NormalizeScore, plugin after plugin."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from operator import add
from typing import Final, NamedTuple

from extender.scheduling.findings import Scored
from extender.scheduling.profile import Profile
from extender.scheduling.verb import JudgingVerb, Question
from wasm_runtime.abi import MAX_NODE_SCORE
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeSet

MAX_TABULATED: Final = 10_000
"""Totals whose answers are looked up, which takes a quarter of finding them. More would take long to make."""


class Totals(NamedTuple):
    """The plugins' scores of some nodes, each times the plugin's weight, added up."""

    nodes: NodeSet
    scores: Sequence[int]
    """One a node; those of a plugin that has scored alone as they are, in bytes."""
    weights: int
    """The weights of the plugins, added up; 1 for one plugin."""
    score_range: int
    scored: tuple[Scored, ...]
    """What each plugin said, as it came."""

    def mean(self, score: int) -> int:
        """What prioritize answers for one of the scores: the mean of the plugins' scores, in 0..`score_range`."""
        return _scale(self.weights, self.score_range)(score)

    def means(self) -> Sequence[int]:
        """What prioritize answers for each node."""
        if isinstance(self.scores, bytes):
            return self.scores.translate(_scaled(self.score_range))
        return list(map(_scale(self.weights, self.score_range), self.scores))


def run(profile: Profile, pod: Pod, nodes: Nodes) -> Totals:
    """The scores of all plugins together.

    A plugin that skips the pod or whose failure is ignored has no part in them. If none has, all nodes score 0. Raises
    PluginFailedError.
    """
    scored: tuple[Scored, ...] = ()
    for profile_plugin in profile.plugins:
        if nodes.names and profile_plugin.plugin.runs("score"):
            said = profile_plugin.attempt("prioritize", score, pod, nodes, profile_plugin.weight)
            if said is not None:
                scored += (said,)
    if len(scored) <= 1:
        scores = scored[0].scores if scored else bytes(len(nodes.names))
        return Totals(nodes.without_names(), scores, 1, profile.score_range, scored)
    totals: Sequence[int] = [0] * len(nodes.names)
    for each in scored:
        totals = list(map(add, totals, map(each.weight.__mul__, each.scores)))
    weights = sum(each.weight for each in scored)
    return Totals(nodes.without_names(), totals, weights, profile.score_range, scored)


def score(plugin: Plugin, pod: Pod, nodes: Nodes, weight: int = 1) -> Scored | None:
    """A plugin's scores in 0..100, one a node; None if it skips the pod. Raises GuestError."""
    begun = time.perf_counter()
    with plugin.guest(pod, nodes, "score") as (guest, deadline):
        scores = guest.score(nodes, deadline)
        raw = guest.raw_scores
    if scores is None:
        return None
    return Scored(plugin.name, plugin.digest, time.perf_counter() - begun, weight, scores, raw)


def _decide(plugin: Plugin, question: Question) -> bytes | None:
    said = score(plugin, question.pod, question.nodes) if plugin.runs("score") else None
    return said and said.scores


def _describe(scores: bytes | None, names: Sequence[str]) -> Sequence[str | int]:
    return ["skipped"] * len(names) if scores is None else scores


PRIORITIZE: Final = JudgingVerb("prioritize", "prioritizeVerb", ("score",), _decide, _describe)


@lru_cache(maxsize=64)
def _scale(weights: int, score_range: int) -> Callable[[int], int]:
    """Makes the answer of a total of weighted scores, rounded to the nearest, halves up."""
    whole = weights * MAX_NODE_SCORE
    least = [-(-whole * (2 * answer - 1) // (2 * score_range)) for answer in range(1, score_range + 1)]
    find = partial(bisect_right, least)  # So many answers have a least total that is not above this one.
    return list(map(find, range(whole + 1))).__getitem__ if whole <= MAX_TABULATED else find


@cache
def _scaled(score_range: int) -> bytes:
    """The answer of each of a plugin's own scores, for `bytes.translate`."""
    return bytes(map(_scale(1, score_range), range(MAX_NODE_SCORE + 1))).ljust(256, b"\0")
