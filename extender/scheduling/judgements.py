"""What an attempt to schedule a pod came to, by node and by reason. It is computed from what `Decisions` keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from extender.scheduling.decisions import Attempt
from extender.scheduling.prioritize import Totals
from wasm_runtime.abi import Code
from wasm_runtime.guests.guest import Status
from wasm_runtime.nodes.node_table import NodeSet


class Outcome(str, Enum):
    """What became of a pod in an attempt, as far as the extender has seen."""

    BOUND = "bound"
    NOT_BOUND = "notBound"
    """The bind failed."""
    WAITING = "waiting"
    """On Permit."""
    FAILED = "failed"
    """A verb had no answer of the plugins."""
    REJECTED = "rejected"
    """No node was left."""
    ANSWERED = "answered"
    """There were nodes for it; the extender was asked no more."""


class Rejection(NamedTuple):
    """Nodes that were taken out for one reason."""

    plugin: str
    """Empty where the extender itself has decided."""
    reason: str
    is_final: bool
    """Whether preemption cannot help there."""
    nodes: int


class PluginScore(NamedTuple):
    """What a plugin gave a node."""

    plugin: str
    weight: int
    raw: int | None
    """Before NormalizeScore; None where the plugin has none."""
    score: int


class Judgement(NamedTuple):
    """What was said of a node."""

    node: str
    rejection: Rejection | None
    """None if it passed."""
    scores: Sequence[PluginScore]
    total: float | None
    """The weighted mean of the scores, in 0..100; None if it was not scored."""
    answer: int | None
    """The same as prioritize answers it."""
    is_answered: bool
    """Whether filter answered it: with `topNodes` not all that pass are."""


def outcome(attempt: Attempt) -> Outcome:
    """What became of the pod."""
    if attempt.bound:
        return Outcome.NOT_BOUND if attempt.bound.error else Outcome.BOUND
    if attempt.failure:
        return Outcome.FAILED
    if attempt.waited:
        return Outcome.WAITING
    if attempt.kept is not None and not len(attempt.kept):
        return Outcome.REJECTED
    return Outcome.ANSWERED


def rejections(attempt: Attempt) -> list[Rejection]:
    """Why nodes were taken out in filter, in the order of the plugins; of each the reason of most nodes first."""
    found: list[Rejection] = []
    for each in attempt.filtered:
        counts: Counter[tuple[int, str]] = Counter(zip(filter(None, each.codes), each.reasons, strict=True))
        if left_out := len(each.asked) - len(each.named):
            counts[int(each.left_out.code), each.left_out.reason] += left_out
        found += [
            Rejection(each.plugin, reason, code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE, nodes)
            for (code, reason), nodes in counts.most_common()
        ]
    return found


def judgements(attempt: Attempt) -> list[Judgement]:
    """What was said of each node: the best first, then those without a score, then those that were rejected.

    Nodes whose names are not known any more are left out.
    """
    rejected, scored = _rejected(attempt), _scored(attempt.totals) if attempt.totals else {}
    answered = set(_names(attempt.kept)) if attempt.asked else scored.keys()
    found: list[Judgement] = []
    for name in dict.fromkeys((*_names(attempt.asked), *scored)):
        if name:
            scores, total, answer = scored.get(name, ((), None, None))
            found.append(Judgement(name, rejected.get(name), scores, total, answer, name in answered))
    return sorted(found, key=_rank)


def judgement(attempt: Attempt, node: str) -> Judgement | None:
    """What was said of one node, without a look at the others; None if nobody was asked about it."""
    totals = attempt.totals
    at = totals.nodes.position(node) if totals else None
    was_asked = attempt.asked is not None and node in attempt.asked
    if not was_asked and at is None:
        return None
    statuses = ((each.plugin, each.status(node)) for each in attempt.filtered)
    rejection = next((_rejection(plugin, status) for plugin, status in statuses if status.code), None)
    is_answered = attempt.kept is not None and node in attempt.kept if attempt.asked else True
    if totals is None or at is None:
        return Judgement(node, rejection, (), None, None, is_answered)
    scores = tuple(
        PluginScore(each.plugin, each.weight, each.raw[at] if each.raw else None, each.scores[at])
        for each in totals.scored
    )
    return Judgement(
        node, rejection, scores, totals.scores[at] / totals.weights, totals.mean(totals.scores[at]), is_answered
    )


def _rank(judgement: Judgement) -> tuple[bool, bool, float]:
    unscored = judgement.total is None
    return judgement.rejection is not None, not judgement.is_answered and unscored, -(judgement.total or 0.0)


def _rejected(attempt: Attempt) -> Mapping[str, Rejection]:
    """The one by the first plugin that rejected the node, by its name."""
    found: dict[str, Rejection] = {}
    for each in attempt.filtered:
        for name, status in each.statuses():
            if status.code is not Code.SUCCESS:
                found.setdefault(name, _rejection(each.plugin, status))
    return found


def _rejection(plugin: str, status: Status) -> Rejection:
    return Rejection(plugin, status.reason, status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 1)


def _scored(totals: Totals) -> Mapping[str, tuple[Sequence[PluginScore], float, int]]:
    """The scores, the total and the answer of each node, by its name."""
    columns: list[list[PluginScore]] = []
    for each in totals.scored:
        raws: Sequence[int | None] = each.raw or [None] * len(each.scores)
        pairs = zip(raws, each.scores, strict=True)
        columns.append([PluginScore(each.plugin, each.weight, raw, score) for raw, score in pairs])
    rows = zip(*columns, strict=True) if columns else [()] * len(totals.scores)
    means = [total / totals.weights for total in totals.scores]
    return dict(zip(totals.nodes.names(), zip(rows, means, totals.means(), strict=True), strict=True))


def _names(nodes: NodeSet | None) -> list[str]:
    return nodes.names() if nodes else []
