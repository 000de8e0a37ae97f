"""The admin API's part for decisions: what each plugin said of each node for the last pods, and how each pod ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Annotated, Final, NamedTuple

from anyio.to_thread import run_sync
from fastapi import APIRouter, HTTPException, Path, Query

from extender.admin.api.context import AdminContext, ContextDep
from extender.admin.api.decision_views import (
    MAX_NODES_SHOWN,
    BindView,
    DecisionView,
    NodeDecisionView,
    PermitView,
    PluginCallView,
    PreemptionView,
    RejectionView,
)
from extender.admin.api.views import time_of_epoch
from extender.cluster import ClusterError, PodKey
from extender.scheduling.decisions import Attempt
from extender.scheduling.judgements import Judgement, Outcome, judgement, judgements, outcome, rejections
from wasm_runtime.protobuf.errors import DecodeError
from wasm_runtime.protobuf.pod import node_name, not_scheduled

router = APIRouter(prefix="/decisions")

MAX_PODS_SHOWN: Final = 1000
"""Pods of an answer."""

NOT_ASKED: Final = (
    "it was not asked about here: kube-scheduler's own filters may have left no node for it, which kubectl describe pod"
    " tells"
)


class PodNow(NamedTuple):
    """The pod as the API server has it; all fields are empty for a pod that is gone or cannot be read."""

    node: str = ""
    """The name of the node; empty while the pod has none."""
    message: str = ""
    """The message of the pod's condition PodScheduled, while the pod has no node."""


_UNKNOWN: Final = PodNow()


def decision_view(
    context: AdminContext, attempt: Attempt, nodes: Iterable[Judgement], left_out: int = 0, now: PodNow = _UNKNOWN
) -> DecisionView:
    """The view of an attempt with `nodes`, some of its nodes; `left_out` counts the others."""
    namespace, _, name = attempt.pod.partition("/")
    bound, waited, preempted, failure = attempt.bound, attempt.waited, attempt.preempted, attempt.failure
    return DecisionView(
        namespace=namespace,
        name=name,
        uid=attempt.uid,
        profile=attempt.profile,
        time=time_of_epoch(attempt.time),
        outcome=Outcome.BOUND if now.node else outcome(attempt),
        node=now.node or _node(context, attempt),
        scheduler_message=now.message,
        message=(bound and bound.error) or (failure and f"{failure.verb}: {failure.message}") or "",
        nodes_known=attempt.known,
        nodes_asked=len(attempt.asked or ()),
        nodes_answered=len(attempt.kept or ()),
        rejections=[RejectionView.model_validate(each) for each in rejections(attempt)],
        calls=list(_calls(attempt)),
        preemption=preempted
        and PreemptionView(
            time=time_of_epoch(preempted.time), candidates=list(preempted.candidates), kept=list(preempted.kept)
        ),
        permit=waited and PermitView(time=time_of_epoch(waited.time), node=waited.node, plugins=dict(waited.plugins)),
        bind=bound
        and BindView(
            time=time_of_epoch(bound.time),
            node=bound.node,
            milliseconds=_milliseconds(bound.seconds),
            error=bound.error,
        ),
        nodes=list(map(NodeDecisionView.of, nodes)),
        nodes_left_out=left_out,
    )


def _node(context: AdminContext, attempt: Attempt) -> str:
    if attempt.bound and not attempt.bound.error:
        return attempt.bound.node
    return (context.ledger and context.ledger.node_of(attempt.uid)) or (attempt.waited and attempt.waited.node) or ""


def _calls(attempt: Attempt) -> Iterator[PluginCallView]:
    for point, calls in (("filter", attempt.filtered), ("score", attempt.totals.scored if attempt.totals else ())):
        for each in calls:
            if each.plugin:
                ms = _milliseconds(each.seconds)
                yield PluginCallView(plugin=each.plugin, digest=each.digest, point=point, milliseconds=ms)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


@router.get("")
def list_decisions(
    context: ContextDep,
    namespace: Annotated[str | None, Query(description="Only pods of this namespace.")] = None,
    node: Annotated[str | None, Query(description="Only those about this node, with what was said of it.")] = None,
    state: Annotated[Outcome | None, Query(alias="outcome", description="Only pods of which this became.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PODS_SHOWN, description="How many.")] = 100,
) -> list[DecisionView]:
    """The last attempt to schedule each pod, the latest first; without nodes, or with the node that is asked for."""
    chosen = (
        attempt
        for attempt in context.decisions.latest()
        if namespace in {None, attempt.pod.partition("/")[0]} and state in {None, outcome(attempt)}
    )
    return list(islice(_views(context, chosen, node), limit))


def _views(context: AdminContext, attempts: Iterable[Attempt], node: str | None) -> Iterator[DecisionView]:
    """The attempts without nodes; with `node`, the attempts that filter was asked about this node, with it alone."""
    for attempt in attempts:
        if node is None:
            yield decision_view(context, attempt, (), len(attempt.asked or ()))
        elif of_node := _of_node(attempt, node):
            yield decision_view(context, attempt, of_node)


@router.get("/{namespace}/{pod}")
async def show_decisions(
    context: ContextDep,
    namespace: Annotated[str, Path(description="The pod's namespace.")],
    pod: Annotated[str, Path(description="The pod's name.")],
    node: Annotated[str | None, Query(description="Only what was said of this node.")] = None,
    limit: Annotated[int, Query(ge=0, le=MAX_NODES_SHOWN, description="How many nodes of each attempt.")] = 100,
) -> list[DecisionView]:
    """The last attempts to schedule a pod, the latest first: what each plugin said of each node, and how it ended.

    A deleted pod is remembered, too, until later pods take its place.
    """
    attempts = context.decisions.find(namespace, pod)
    if not attempts:
        raise not_known(context, f"{namespace}/{pod}", NOT_ASKED)

    def view(attempt: Attempt, now: PodNow = _UNKNOWN) -> DecisionView:
        nodes = judgements(attempt) if node is None else _of_node(attempt, node)
        return decision_view(context, attempt, nodes[:limit], max(0, len(nodes) - limit), now)

    now = await pod_now(context, attempts[0])
    return await run_sync(lambda: [view(attempts[0], now), *map(view, attempts[1:])])


def _of_node(attempt: Attempt, node: str) -> list[Judgement]:
    """What the plugins said of one node; empty if filter was not asked about the node."""
    found = judgement(attempt, node)
    return [found] if found else []


def not_known(context: AdminContext, pod: str, reason: str) -> HTTPException:
    """The answer with status 404 about an attempt that is not remembered. `pod` is `namespace/name`."""
    kept = f"the last {context.decisions.most} pods since the extender has started are remembered"
    return HTTPException(404, f"nothing is known of pod {pod}: {reason}; {kept}")


async def pod_now(context: AdminContext, attempt: Attempt) -> PodNow:
    """The pod of an attempt, read from the API server now."""
    if context.read_pod:
        namespace, _, name = attempt.pod.partition("/")
        with suppress(ClusterError, DecodeError):
            pod = await context.read_pod(PodKey(namespace, name, attempt.uid))
            return PodNow(node_name(pod), not_scheduled(pod))
    return _UNKNOWN
