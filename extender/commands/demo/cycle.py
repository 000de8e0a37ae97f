"""A captured scheduling cycle, played against a running extender."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from statistics import median
from typing import Any, Final

import msgspec

from extender.commands.demo.client import SchedulerClient

VERBS: Final = ("filter", "prioritize", "preempt", "bind")
REPEATS: Final = 50
"""How often each request is repeated to measure its latency."""


class VerbLatency(msgspec.Struct):
    """The latency of one verb."""

    verb: str
    pod: str
    first_ms: float
    """Milliseconds of the first request."""
    p50_ms: float
    """Milliseconds of the median of `REPEATS` further requests."""


class NodeReport(msgspec.Struct):
    """What the verbs of the cycle say of one node."""

    node: str
    passes: bool
    reason: str
    score: int | None
    """The score of prioritize in 0..10; None where filter rejected the node, so that prioritize was not asked."""
    preemption: bool
    """Whether the node stays a candidate when the second pod preempts."""
    bound: bool


class CycleReport(msgspec.Struct):
    """What the extender answered in the cycle."""

    verbs: list[VerbLatency]
    nodes: list[NodeReport]


def captured() -> Mapping[str, bytes]:
    """The body of each verb, as a real kube-scheduler with `nodeCacheCapable: false` sent it."""
    folder = resources.files("extender") / "examples" / "cycle"
    return {verb: (folder / f"{verb}.json").read_bytes() for verb in VERBS}


def play(client: SchedulerClient, bodies: Mapping[str, bytes]) -> CycleReport:
    """Plays filter, prioritize, preempt and bind in the scheduler's order."""
    requests = {verb: msgspec.json.decode(body) for verb, body in bodies.items()}
    replies = {verb: client.post(verb, bodies[verb]) for verb in VERBS}
    reports = [
        VerbLatency(
            verb,
            _pod(requests[verb]),
            replies[verb].seconds * 1e3,
            median(_repeated(client, bodies, verb)) * 1e3,
        )
        for verb in VERBS
    ]
    filtered, candidates = replies["filter"].body, replies["preempt"].body["NodeNameToMetaVictims"]
    reasons = {**filtered["FailedNodes"], **filtered["FailedAndUnresolvableNodes"]}
    scores = scores_of(requests["prioritize"], replies["prioritize"].body)
    bound = "" if replies["bind"].body["Error"] else requests["bind"]["Node"]
    names = [item["metadata"]["name"] for item in requests["filter"]["Nodes"]["items"]]
    nodes = [
        NodeReport(
            node=name,
            passes=name not in reasons,
            reason=reasons.get(name, ""),
            score=scores.get(name),
            preemption=name in candidates,
            bound=name == bound,
        )
        for name in names
    ]
    return CycleReport(reports, nodes)


def _repeated(client: SchedulerClient, bodies: Mapping[str, bytes], verb: str) -> Iterator[float]:
    """Seconds of each of `REPEATS` requests. Each bind follows a filter, without which the extender refuses it."""
    for _ in range(REPEATS):
        if verb == "bind":
            client.post("filter", bodies["filter"])
        yield client.post(verb, bodies[verb]).seconds


def scores_of(request: Any, answer: Any) -> dict[str, int]:
    """The score of each node of a prioritize request: 0 for one that the answer leaves out."""
    zeros = {node["metadata"]["name"]: 0 for node in request["Nodes"]["items"]}
    return zeros | {priority["Host"]: priority["Score"] for priority in answer}


def _pod(request: Mapping[str, Any]) -> str:
    return str(request["PodName"] if "PodName" in request else request["Pod"]["metadata"]["name"])
