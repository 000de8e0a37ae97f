"""Decisions as the admin API shows them; its clients read them by the same models."""

from __future__ import annotations

from typing import Final

from extender.admin.api.views import ApiModel, Time
from extender.scheduling.judgements import Judgement, Outcome

MAX_NODES_SHOWN: Final = 10_000


class RejectionView(ApiModel):
    """Nodes that were taken out for one reason."""

    plugin: str
    """Empty where the extender itself has decided."""
    reason: str
    is_final: bool
    """Whether preemption cannot help there."""
    nodes: int
    """How many."""


class PluginScoreView(ApiModel):
    """What a plugin gave a node."""

    plugin: str
    weight: int
    raw: int | None
    """Before NormalizeScore; null where the plugin has none."""
    score: int
    """In 0..100."""


class NodeDecisionView(ApiModel):
    """What was said of a node."""

    name: str
    rejection: RejectionView | None
    """By the first plugin that took it out; null if it passed."""
    scores: list[PluginScoreView]
    total: float | None
    """The weighted mean of the scores in 0..100; null if it was not scored."""
    answer: int | None
    """The same as prioritize answers it, rounded to the profile's `scoreRange`."""
    is_answered: bool
    """Whether filter answered it: with `topNodes` not all that pass are."""

    @classmethod
    def of(cls, judgement: Judgement) -> NodeDecisionView:
        """Shows a node."""
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
    """Of its module."""
    point: str
    """`filter` or `score`."""
    milliseconds: float
    """How long it took, waiting for a guest included."""


class PreemptionView(ApiModel):
    """What preempt answered."""

    time: Time
    candidates: list[str]
    """The nodes that kube-scheduler proposed."""
    kept: list[str]
    """Those on which the plugins would let the pod once its victims are gone."""


class PermitView(ApiModel):
    """That the pod had to wait on Permit."""

    time: Time
    node: str
    plugins: dict[str, float]
    """Those that said Wait, and the seconds that the pod might wait for each."""


class BindView(ApiModel):
    """What bind came to."""

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
    `rejected`: no node was left; `answered`: there were nodes for it, and the extender was asked no more."""
    node: str
    """Where the pod is bound, waits to be bound, or is expected; empty where that is not known."""
    message: str
    """Why it failed, if it did."""
    scheduler_message: str
    """What kube-scheduler says of a pod that has no node, in the pod's condition PodScheduled: the reasons of its own
    filters are there. Only of the last attempt of a pod that is asked about by name, and only with a cluster."""
    nodes_known: int
    """Nodes that the cluster had."""
    nodes_asked: int
    """Those that filter was asked about: kube-scheduler's own filters had taken out the others, or it had found enough
    before it came to them."""
    nodes_answered: int
    """Those that filter answered."""
    rejections: list[RejectionView]
    """Why the plugins took nodes out, each reason once."""
    calls: list[PluginCallView]
    preemption: PreemptionView | None
    permit: PermitView | None
    bind: BindView | None
    nodes: list[NodeDecisionView]
    """The best first, those that were rejected last, as many as were asked for."""
    nodes_left_out: int
    """How many more there are."""


class WhatIfView(DecisionView):
    """What would be decided about a pod: all nodes that pass count as answered, also with `topNodes`."""

    ignored: list[str]
    """Why plugins have no say that fail, and whose failurePolicy is Ignore."""
