"""The pages of the dashboard that show plugins, rollouts, decisions, pods, groups and latencies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timezone
from typing import Annotated, Any, Final

from anyio.streams.memory import MemoryObjectReceiveStream
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from extender.admin.api.context import (
    AccessDep,
    AdminContext,
    ContextDep,
    IntentRequired,
    find_rollout,
    find_slot,
)
from extender.admin.api.decisions import NOT_ASKED, decision_view, not_known, pod_now
from extender.admin.api.event_stream import RolloutStep
from extender.admin.api.groups import GroupView, group_entries
from extender.admin.api.ledger import LedgerPodView, ledger_rows
from extender.admin.api.routes import list_plugins, list_revisions
from extender.admin.api.views import PluginView, RolloutView
from extender.admin.api.waits import list_waits
from extender.admin.auth.middleware import visitor_of
from extender.admin.dashboard.rendering import Page, render
from extender.admin.health import Health
from extender.scheduling.judgements import Judgement, Outcome, judgements, outcome
from extender.sources.signing import MAX_SIGNATURE_BYTES
from extender.telemetry.metrics import Metrics

HISTORY_ROWS: Final = 20
"""Rollouts that a plugin's page shows."""

Text = Annotated[str, Query()]
Number = Annotated[int, Query()]

SORTS: Final[dict[str, Callable[[Judgement], Any]]] = {
    "rank": lambda _: 0,
    "node": lambda each: each.node,
    "total": lambda each: -1.0 if each.total is None else each.total,
    "plugin": lambda each: each.rejection.plugin if each.rejection else "",
}
"""Keys to sort the nodes of a pod by; `rank` keeps their order, the best first."""

router = APIRouter()


def _health(request: Request) -> Health:
    health: Health = request.app.state.health
    return health


def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


async def _steps(
    request: Request, context: ContextDep, access: AccessDep
) -> AsyncIterator[MemoryObjectReceiveStream[RolloutStep]]:
    """The steps of all rollouts from now on, until the browser's session is over."""
    with context.event_stream.listen(ending=access.page_ending(visitor_of(request.scope))) as stream:
        yield stream


@router.get("/")
async def show_plugins(request: Request, context: ContextDep) -> Response:
    """The plugins, the revisions that serve, and the rollouts that are under way."""
    return render(request, "plugins.html", plugins=await list_plugins(context))


@router.get("/plugin")
async def show_plugin(request: Request, context: ContextDep, name: Text, profile: Text) -> Response:
    """A plugin, its revisions, its last rollouts, and the forms that change it."""
    slot = find_slot(context, name, profile)
    view = PluginView.of(slot, context.under_way().get((profile, name)))

    def read() -> list[RolloutView]:
        return list(map(RolloutView.of, context.rollouts.history(HISTORY_ROWS, profile, name)))

    history = await run_sync(read, limiter=context.disk)
    revisions = await list_revisions(context, slot)
    limits = {"module_limit": request.app.state.module_limit, "signature_limit": MAX_SIGNATURE_BYTES}
    return render(request, "plugin.html", plugin=view, revisions=revisions, history=history, **limits)


@router.get("/rollout")
async def show_rollout(request: Request, context: ContextDep, id: Number) -> Response:  # noqa: A002 (as in the URL)
    """How far a rollout has come, and what its probe has seen."""
    return render(request, "rollout.html", rollout=RolloutView.of(await find_rollout(context, id)))


@router.get("/decisions")
def show_decisions(
    request: Request,
    context: ContextDep,
    pod: Text = "",
    outcomes: Annotated[str, Query(alias="outcome")] = "",
    page: Number = 1,
) -> Response:
    """The last attempt to schedule each of the last pods."""
    found = [
        attempt
        for attempt in context.decisions.latest()
        if pod in attempt.pod and outcomes in {"", outcome(attempt).value}
    ]
    shown = Page.of(found, page)
    views = [decision_view(context, attempt, ()) for attempt in shown.rows]
    query = {"pod": pod, "outcome": outcomes}
    return render(request, "decisions.html", page=shown, decisions=views, query=query, outcomes=list(Outcome))


@router.get("/pod")
async def show_pod(
    request: Request,
    context: ContextDep,
    namespace: Text,
    name: Text,
    attempt: Number = 0,
    node: Text = "",
    sort: Text = "rank",
    order: Text = "asc",
    page: Number = 1,
) -> Response:
    """What each plugin said of each node in an attempt to schedule a pod; `attempt` counts back from the last one."""
    attempts = context.decisions.find(namespace, name)
    if not 0 <= attempt < len(attempts):
        raise not_known(context, f"{namespace}/{name}", "it has no such attempt" if attempts else NOT_ASKED)
    chosen = attempts[attempt]
    now = (await pod_now(context, chosen),) if attempt == 0 else ()
    query = {"namespace": namespace, "name": name, "attempt": attempt or "", "node": node, "sort": sort, "order": order}

    def rendered() -> Response:
        found = [each for each in judgements(chosen) if node in each.node]
        if sort in SORTS:
            found.sort(key=SORTS[sort], reverse=order == "desc")
        shown = Page.of(found, page)
        view = decision_view(context, chosen, shown.rows, 0, *now)
        return render(
            request, "pod.html", decision=view, page=shown, attempts=len(attempts), attempt=attempt, query=query
        )

    return await run_sync(rendered)


@router.get("/pods")
async def show_pods(request: Request, context: ContextDep, node: Text = "", page: Number = 1) -> Response:
    """The pods that wait on Permit, and those that are on nodes or expected there."""
    waits = await list_waits(context)

    def rendered() -> Response:
        shown = Page.of(list(ledger_rows(context, lambda entry: node in entry.node)), page)
        pods = list(map(LedgerPodView.of, shown.rows))
        return render(request, "pods.html", waits=Page.of(waits, 1), page=shown, pods=pods, query={"node": node})

    return await run_sync(rendered)


@router.get("/groups")
def show_groups(request: Request, context: ContextDep, name: Text = "", page: Number = 1) -> Response:
    """The groups of pods."""
    shown = Page.of([each for each in group_entries(context) if name in str(each.key)], page)
    groups = list(map(GroupView.of, shown.rows))
    return render(request, "groups.html", page=shown, groups=groups, query={"name": name})


@router.get("/latency")
def show_latency(
    request: Request,
    context: ContextDep,
    health: Annotated[Health, Depends(_health)],
    metrics: Annotated[Metrics, Depends(_metrics)],
) -> Response:
    """The durations of verbs and guests, the caches of the cluster, the ledger, and the conditions of readiness."""
    return render(
        request,
        "latency.html",
        verbs=metrics.verb_durations(),
        guests=metrics.guest_durations(),
        caches=metrics.caches(),
        ledger=_ledger_states(context),
        report=health.report()[1],
        now=datetime.now(timezone.utc),
    )


@router.get("/events", response_class=EventSourceResponse, dependencies=[IntentRequired])
async def stream_steps(
    context: ContextDep, steps: Annotated[MemoryObjectReceiveStream[RolloutStep], Depends(_steps)]
) -> AsyncIterator[ServerSentEvent]:
    """Each step of each rollout as it happens, in a sentence, until the browser's session is over."""
    async for step in context.event_stream.steps(steps, None):
        rollout = step.rollout
        text = f"Rollout {rollout.id} of {rollout.plugin} in {rollout.profile} is {rollout.stage.value}."
        yield ServerSentEvent(raw_data=json.dumps(text), id=str(step.number))


def _ledger_states(context: AdminContext) -> dict[str, int]:
    """How many pods the ledger has in each state."""
    entries = context.ledger.entries().values() if context.ledger else ()
    return Counter(entry.state.value for entry in entries)
