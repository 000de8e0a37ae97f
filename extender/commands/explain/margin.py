"""By how much a score would have to differ for the second node to win."""

from __future__ import annotations

from collections.abc import Iterator

from extender.admin.api.decision_views import NodeDecisionView
from wasm_runtime.abi import MAX_NODE_SCORE


def margins(winner: NodeDecisionView, second: NodeDecisionView) -> Iterator[str]:
    """For each plugin whose score alone could let the second node win: by how many points it would have to differ."""
    pairs = list(zip(winner.scores, second.scores, strict=True))
    lead = sum(first.weight * (first.score - other.score) for first, other in pairs)
    for first, other in pairs:
        points = lead // first.weight + 1
        if first.score >= points:
            yield f"{first.plugin} gave {winner.name} {first.score - points} in place of {first.score}"
        elif other.score + points <= MAX_NODE_SCORE:
            yield f"{first.plugin} gave {second.name} {other.score + points} in place of {other.score}"
