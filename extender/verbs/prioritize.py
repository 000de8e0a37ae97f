"""prioritize: PreScore, Score on each node and NormalizeScore, plugin after plugin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import add

from extender.profile import Profile
from wasm_runtime.abi import MAX_NODE_SCORE
from wasm_runtime.guest import Pod
from wasm_runtime.plugin import Plugin
from wasm_runtime.snapshot import Nodes


def run(profile: Profile, pod: Pod, nodes: Nodes) -> Sequence[int]:
    """The score of each node: the mean of the plugins' by weight, in 0..`profile.score_range`.

    A plugin that skips the pod or whose failure is ignored has no part in the mean. Raises PluginFailedError.
    """
    totals: Sequence[int] = ()
    weights = 0
    for entry in profile.entries:
        if not nodes.names or not entry.plugin.runs("score"):
            continue
        scores = entry.attempt("prioritize", score, pod, nodes)
        if scores is not None:
            weighted = scores if entry.weight == 1 else list(map(entry.weight.__mul__, scores))
            totals = list(map(add, totals, weighted)) if weights else weighted
            weights += entry.weight
    if not weights:
        return [0] * len(nodes)
    return list(map(_scale(weights, profile.score_range).__getitem__, totals))


def score(plugin: Plugin, pod: Pod, nodes: Nodes) -> list[int] | None:
    """A plugin's scores in 0..100; None if it skips the pod. Raises GuestError."""
    with plugin.guest(pod, nodes, "score") as (guest, deadline):
        return guest.score(nodes, deadline)


@lru_cache(maxsize=64)
def _scale(weights: int, score_range: int) -> Sequence[int]:
    """The answer for each possible total of weighted scores, rounded to the nearest, halves up."""
    whole = weights * MAX_NODE_SCORE
    return [(2 * total * score_range + whole) // (2 * whole) for total in range(whole + 1)]
