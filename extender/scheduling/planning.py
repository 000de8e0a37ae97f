"""Judges a pod, or reserves for it, and does so again if another pod has taken the room meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from extender.scheduling.filter import Verdict
from extender.scheduling.findings import Filtered
from extender.scheduling.ledger import PLAN_S, Ledger
from extender.scheduling.profile import Profile
from wasm_runtime.abi import Code
from wasm_runtime.guests.guest import Pod, Status
from wasm_runtime.nodes.node_table import Nodes

MAX_JUDGED: Final = 8
"""How often a pod is judged while others take the room that it would get, or make room."""


_COMMITTED: Final = "the pod is being bound to {}, or may be bound there: the watch has not shown it yet"
_RETAINED: Final = "the pod has its room on {}, where its bind was refused"


class OvertakenError(Exception):
    """Each time that a pod was judged, others had taken its room before it was expected there. `str()` says so."""


class Annotated(NamedTuple):
    """A pod with annotations that a bind is to give it."""

    annotations: Mapping[str, str]
    object: bytes
    """Protobuf v1.Pod."""


def plan(
    ledger: Ledger | None,
    profile: Profile,
    pod: Pod,
    nodes: Nodes,
    judge: Callable[[Nodes], Verdict],
    seconds: float | None = PLAN_S,
) -> Verdict:
    """What `judge` says of some nodes. If it leaves one, the pod is expected there for so many seconds from then on.

    With None for the seconds it is expected nowhere. Two pods that are judged at the same time do not get the same
    room: the second one is judged again. A pod that is rejected while room comes free is judged again, too.

    A pod that is being bound, or may be bound, gets that node without being judged: on another node it might be bound
    twice. A pod whose bind was refused gets its node as well, as long as its room there is kept and the node is among
    those asked about. Raises OvertakenError, and what `judge` raises.
    """
    if ledger is None or not ledger.is_followed:
        return judge(nodes)
    ledger.expire()
    if node := ledger.committed(pod.uid):
        verdict = _only(node, nodes, _COMMITTED)
        if not verdict.kept:
            ledger.reject(sys.maxsize)
        return verdict
    if (entry := ledger.retained(pod.uid)) and entry.node in nodes.names:
        return _only(entry.node, nodes, _RETAINED)
    left = ledger.retry(pod.uid)
    try:
        return _judge(ledger, profile, pod, partial(judge, nodes), seconds)
    finally:
        if left and ledger.node_of(pod.uid) != left:
            ledger.vacate()


def reserve(
    ledger: Ledger | None,
    profile: Profile,
    pod: Pod,
    node: str,
    choose: Callable[[], Annotated],
    undo: Callable[[], None],
) -> Mapping[str, str]:
    """The annotations that plugins `choose` for a pod that is being bound to a node. The ledger has them afterwards.

    Two pods that are bound to the node at the same time do not get the same devices, say: the second one has to `undo`
    its choice and to choose again. Raises OvertakenError, and what `choose` raises.
    """
    if ledger is None or not ledger.is_followed:
        return choose().annotations
    for attempt in range(MAX_JUDGED):
        if attempt:
            undo()
        since = ledger.position if profile.wants_pods else sys.maxsize
        known = ledger.annotate(pod.uid, node, *choose(), since)
        if known is not None:
            return known
    raise OvertakenError(
        f"node {node} was given other pods each of the {MAX_JUDGED} times that annotations were chosen for pod"
        f" {pod.name}; kube-scheduler tries the pod again"
    )


def _judge(ledger: Ledger, profile: Profile, pod: Pod, judge: Callable[[], Verdict], seconds: float | None) -> Verdict:
    for _ in range(MAX_JUDGED):
        since = ledger.position if profile.wants_pods else sys.maxsize
        verdict = judge()
        if _holds(ledger, pod, verdict, since, seconds):
            return verdict
    if verdict.kept:
        raise OvertakenError(
            f"node {verdict.kept.names[0]} was given other pods each of the {MAX_JUDGED} times that pod {pod.name} was"
            " judged; kube-scheduler tries the pod again"
        )
    ledger.reject(sys.maxsize)
    ledger.vacate()  # Room comes free all the time: the pod is worth another attempt soon.
    return verdict


def _holds(ledger: Ledger, pod: Pod, verdict: Verdict, since: int, seconds: float | None) -> bool:
    """Whether a verdict is still true. If it names one node, the pod is expected there from then on."""
    names = verdict.kept.names
    if not names:
        return ledger.reject(since)
    return seconds is None or len(names) > 1 or ledger.plan(pod.uid, names[0], pod.object, since, seconds)


def _only(node: str, nodes: Nodes, why: str) -> Verdict:
    others = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, why.format(node))
    kept = nodes.select(list(map(node.__eq__, nodes.names)))
    said = Filtered("", "", 0.0, nodes.without_names(), kept.without_names(), others, b"", ())
    return Verdict(kept, {}, dict.fromkeys(filter(node.__ne__, nodes.names), others.reason), (said,))
