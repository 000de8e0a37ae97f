"""The answers of the webhook: their JSON is encoded here and nowhere else.

Names are those of `k8s.io/kube-scheduler/extender/v1` (types.go). Source of what is expected:
`pkg/scheduler/extender.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import msgspec
from msgspec import Raw, Struct

from extender.scheduling.requests import Candidates, MetaVictims


class _FilteredNodes(Struct):
    metadata: Raw
    items: list[Raw]


class _ExtenderFilterResult(Struct):
    Nodes: _FilteredNodes | None
    NodeNames: Sequence[str] | None
    FailedNodes: dict[str, str]
    FailedAndUnresolvableNodes: dict[str, str]
    Error: str


class HostPriority(Struct, gc=False):
    """A node's score. Thousands are made for an answer, and none can be part of a cycle."""

    Host: str
    Score: int


class _ExtenderPreemptionResult(Struct):
    NodeNameToMetaVictims: dict[str, MetaVictims]


class _ExtenderBindingResult(Struct):
    Error: str


class _Problem(Struct):
    error: str


_encode = msgspec.json.Encoder().encode


def encode_filtered(
    candidates: Candidates, kept: Sequence[str], failed: dict[str, str], unresolvable: dict[str, str]
) -> bytes:
    """The answer of filter, in the shape of its request: the names of the nodes that pass, or the nodes byte for byte.

    `failed` and `unresolvable` have the reason of each node that preemption might help, or cannot.
    """
    if candidates.items is None:
        return _encode(_ExtenderFilterResult(None, kept, failed, unresolvable, ""))
    passes = map(set(kept).__contains__, candidates.names)
    nodes = _FilteredNodes(candidates.metadata, list(compress(candidates.items, passes)))
    return _encode(_ExtenderFilterResult(nodes, None, failed, unresolvable, ""))


def encode_filter_error(error: str) -> bytes:
    """The answer of a filter that failed as a whole."""
    return _encode(_ExtenderFilterResult(None, None, {}, {}, error))


def encode_priorities(names: Sequence[str], scores: Sequence[int], *, zeros: bool = False) -> bytes:
    """The answer of prioritize, a HostPriorityList. A node that is not in it has the score 0 for kube-scheduler.

    Most policies give most nodes 0, so leaving those out is less to encode, to send and to decode.
    Source: `prioritizeNodes` in `pkg/scheduler/schedule_one.go` of Kubernetes.
    """
    if not zeros:
        names, scores = list(compress(names, scores)), list(filter(None, scores))
    return _encode(list(map(HostPriority, names, scores)))


def encode_victims(victims: dict[str, MetaVictims]) -> bytes:
    """The answer of preempt."""
    return _encode(_ExtenderPreemptionResult(victims))


def encode_bound(error: str = "") -> bytes:
    """The answer of bind."""
    return _encode(_ExtenderBindingResult(error))


def encode_problem(error: str) -> bytes:
    """The body of an answer that is not 200: for people, kube-scheduler does not read it."""
    return _encode(_Problem(error))
