"""Decisions as the admin API shows them; its clients read them by the same models."""

from __future__ import annotations

from typing import Final

from extender.admin.api.views import ApiModel, Time
from extender.scheduling.judgements import Judgement, Outcome

MAX_NODES_SHOWN: Final = 10_000
"""Nodes of an attempt that an answer may have."""


class RejectionView(ApiModel):
    """The nodes that one plugin rejected for one reason."""

    plugin: str
    """The name of the plugin; empty where the extender itself rejected the nodes."""
    reason: str
    is_final: bool
    """Whether preemption cannot help on these nodes."""
    nodes: int
    """Number of these nodes."""


class PluginScoreView(ApiModel):
    """The score that a plugin gave a node."""

    plugin: str
    weight: int
    raw: int | None
    """The score before NormalizeScore; null where the plugin has no NormalizeScore."""
    score: int
    """The score that counts, in 0..100."""


class NodeDecisionView(ApiModel):
    """What the plugins said of a node."""

    name: str
    rejection: RejectionView | None
    """The rejection by the first plugin that rejected the node; null if the node passed."""
    scores: list[PluginScoreView]
    total: float | None
    """The weighted mean of the scores in 0..100; null if the node was not scored."""
    answer: int | None
    """The total as prioritize answers it, rounded to the profile's `scoreRange`; null if the node was not scored."""
    is_answered: bool
    """Whether filter answered the node: with `topNodes`, filter does not answer all nodes that pass."""

    @classmethod
    def of(cls, judgement: Judgement) -> NodeDecisionView:
        """The view of a judgement."""
        rejection = judgement.rejection and RejectionView.model_validate(judgement.rejection)
        scores = list(map(PluginScoreView.model_validate, judgement.scores))
        return cls(
            name=judgement.node,
            rejection=rejection,
            scores=scores,
            total=judgement.total,
            answer=judgement.answer,
            is_answered=judgement.is_answered,
        )


class PluginCallView(ApiModel):
    """A plugin's part in filter or in scoring."""

    plugin: str
    digest: str
    """The digest of the plugin's module."""
    point: str
    """`filter` or `score`."""
    milliseconds: float
    """Duration of the call, waiting for a guest included."""


class PreemptionView(ApiModel):
    """What preempt answered."""

    time: Time
    candidates: list[str]
    """The nodes that kube-scheduler proposed."""
    kept: list[str]
    """The candidates on which the plugins would let the pod once the victims are gone."""


class PermitView(ApiModel):
    """The wait of a pod on Permit."""

    time: Time
    node: str
    plugins: dict[str, float]
    """The plugins that said Wait, and the seconds that the pod might wait for each."""


class BindView(ApiModel):
    """The result of a bind."""

    time: Time
    node: str
    milliseconds: float
    error: str
    """Empty if the pod is bound."""


class DecisionView(ApiModel):
    """An attempt to schedule a pod: a call of filter, and what followed until the next one."""

    namespace: str
    name: str
    uid: str
    profile: str
    time: Time
    outcome: Outcome
    """`bound`; `notBound`: the bind failed; `waiting`: on Permit; `failed`: a verb had no answer of the plugins;
    `rejected`: no node was left; `answered`: filter left nodes, and the extender was not asked again."""
    node: str
    """The node on which the pod is bound, waits to be bound, or is expected; empty where that is not known."""
    message: str
    """Why the attempt failed; empty if it did not."""
    scheduler_message: str
    """What kube-scheduler says of a pod that has no node, in the pod's condition PodScheduled: the reasons of its own
    filters are there. Only of the last attempt of a pod that is asked about by name, and only with a cluster."""
    nodes_known: int
    """Number of nodes that the cluster had."""
    nodes_asked: int
    """Number of nodes that filter was asked about. The others were rejected by kube-scheduler's own filters, or
    kube-scheduler had found enough nodes before it came to them."""
    nodes_answered: int
    """Number of nodes that filter answered."""
    rejections: list[RejectionView]
    """Why the plugins rejected nodes, each reason once."""
    calls: list[PluginCallView]
    preemption: PreemptionView | None
    permit: PermitView | None
    bind: BindView | None
    nodes: list[NodeDecisionView]
    """The best nodes first, the rejected nodes last; at most as many as the request asks for."""
    nodes_left_out: int
    """Number of nodes that `nodes` does not show."""


class WhatIfView(DecisionView):
    """What would be decided about a pod: all nodes that pass count as answered, also with `topNodes`."""

    ignored: list[str]
    """The failures of plugins with failurePolicy Ignore, which were left out of the decision."""
