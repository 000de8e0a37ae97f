"""The webhook's JSON: decoded and encoded here and nowhere else.

Names are those of `k8s.io/kube-scheduler/extender/v1` (types.go), whose types carry no JSON tags, so
that the wire says `NodeNames` and not `nodeNames`. Go's decoder takes names in any case, and so do we.
Source of what is sent and expected: `pkg/scheduler/extender.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from wasm_runtime.guest import Pod
from wasm_runtime.protobuf import EncodeError, encode_node, encode_pod

T = TypeVar("T")

PODS_KEPT = 256
"""Pods whose protobuf is kept, so that it is made once for all verbs of a cycle."""


class RequestError(Exception):
    """The caller's request is none that can be answered. `str()` says what is wrong with it."""


# -- what comes in ---------------------------------------------------------------------------------


class NodeList(Struct):
    """A v1.NodeList of which each node is kept as it came."""

    items: list[Raw] | None = None
    metadata: Raw = Raw(b"{}")


class ExtenderArgs(Struct):
    """Asks for filter and prioritize."""

    Pod: Raw = Raw()
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


class MetaPod(Struct):
    """A victim by its UID."""

    UID: str


class MetaVictims(Struct):
    """Victims of a node by UID, as `nodeCacheCapable: true` sends them and every answer has them."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class Victims(Struct):
    """Victims of a node as whole pods, as `nodeCacheCapable: false` sends them."""

    Pods: list[Raw] | None = None
    NumPDBViolations: int = 0


class ExtenderPreemptionArgs(Struct):
    """Asks for preempt."""

    Pod: Raw = Raw()
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None


class ExtenderBindingArgs(Struct):
    """Asks for bind."""

    PodName: str = ""
    PodNamespace: str = ""
    PodUID: str = ""
    Node: str = ""


class _ObjectMeta(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's name


class _PodSpec(Struct):
    schedulerName: str = ""  # noqa: N815 - the API's name


class _PodHead(Struct):
    metadata: _ObjectMeta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _Named(Struct):
    metadata: _ObjectMeta


class PodRequest(NamedTuple):
    """The pod of a request."""

    pod: Pod
    scheduler_name: str


class NodeItem(NamedTuple):
    """A node that came whole."""

    name: str
    version: str
    """Its resourceVersion; empty where it has none."""
    json: Raw

    def to_protobuf(self) -> bytes:
        """Raises RequestError."""
        try:
            return encode_node(msgspec.json.decode(self.json))
        except (EncodeError, msgspec.DecodeError) as error:
            raise RequestError(f"Nodes: node {self.name}: {error}") from None


class Candidates(NamedTuple):
    """The nodes of a filter or prioritize request, in its order."""

    names: list[str]
    items: list[NodeItem] | None
    """The nodes themselves with `nodeCacheCapable: false`."""
    metadata: Raw = Raw(b"{}")


def decode_args(body: bytes) -> tuple[PodRequest, Candidates]:
    """Reads the body of filter or prioritize. Raises RequestError."""
    args = _decode(body, ExtenderArgs, lambda found: found.Nodes is None and found.NodeNames is None)
    pod = _pod(args.Pod)
    if args.NodeNames is not None:
        return pod, Candidates(args.NodeNames, None)
    if args.Nodes is None:
        raise RequestError(
            "the request has neither NodeNames (nodeCacheCapable: true) nor Nodes (nodeCacheCapable: false)"
        )
    items = [_node(at, item) for at, item in enumerate(args.Nodes.items or ())]
    return pod, Candidates([item.name for item in items], items, args.Nodes.metadata)


def decode_preemption(body: bytes) -> tuple[PodRequest, dict[str, MetaVictims]]:
    """Reads the body of preempt: the victims of each candidate node by UID. Raises RequestError."""
    args = _decode(
        body,
        ExtenderPreemptionArgs,
        lambda found: found.NodeNameToVictims is None and found.NodeNameToMetaVictims is None,
    )
    pod = _pod(args.Pod)
    if args.NodeNameToMetaVictims is not None:
        return pod, args.NodeNameToMetaVictims
    if args.NodeNameToVictims is None:
        raise RequestError("the request has neither NodeNameToMetaVictims nor NodeNameToVictims")
    return pod, {
        node: MetaVictims([_victim(node, pod) for pod in victims.Pods or ()], victims.NumPDBViolations)
        for node, victims in args.NodeNameToVictims.items()
    }


def decode_binding(body: bytes) -> ExtenderBindingArgs:
    """Reads the body of bind. Raises RequestError."""
    args = _decode(body, ExtenderBindingArgs, lambda found: not (found.PodName and found.Node))
    missing = [name for name in ("PodName", "PodNamespace", "PodUID", "Node") if not getattr(args, name)]
    if missing:
        raise RequestError(f"the request has no {', '.join(missing)}")
    return args


def _decode(body: bytes, kind: type[T], incomplete: Any) -> T:
    """Decodes names as the wire has them; in any case only if something that must be there is not."""
    if not body:
        raise RequestError("the request has no body")
    try:
        args = msgspec.json.decode(body, type=kind)
        if incomplete(args):
            args = msgspec.convert(_fold(msgspec.json.decode(body, type=dict[str, Raw]), kind), kind)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is no {kind.__name__}: {error}") from None
    return args


def _fold(fields: dict[str, Raw], kind: Any) -> dict[str, Any]:
    known = {name.lower(): (name, type_) for name, type_ in _field_types(kind)}
    return {
        known[name.lower()][0]: _fold_value(value, known[name.lower()][1])
        for name, value in fields.items()
        if name.lower() in known
    }


@lru_cache
def _field_types(kind: Any) -> list[tuple[str, Any]]:
    return [(field.encode_name, field.type) for field in msgspec.structs.fields(kind)]


def _fold_value(value: Raw, kind: Any) -> Any:
    if kind is Raw:
        return value
    if kind in _FOLDED_MAPS and bytes(value).lstrip()[:1] == b"{":
        inner = _FOLDED_MAPS[kind]
        victims = msgspec.json.decode(value, type=dict[str, dict[str, Raw] | None])
        return {node: _fold(fields or {}, inner) for node, fields in victims.items()}
    return msgspec.json.decode(value, type=kind)


_FOLDED_MAPS: dict[Any, Any] = {
    dict[str, Victims] | None: Victims,
    dict[str, MetaVictims] | None: MetaVictims,
}


def _pod(json: Raw) -> PodRequest:
    if not json or json == b"null":
        raise RequestError("the request has no Pod")
    return _convert_pod(bytes(json))


@lru_cache(maxsize=PODS_KEPT)
def _convert_pod(json: bytes) -> PodRequest:
    try:
        head = msgspec.json.decode(json, type=_PodHead)
        meta = head.metadata
        name = f"{meta.namespace or 'default'}/{meta.name}"
        pod = Pod(meta.uid or name, name, encode_pod(msgspec.json.decode(json)))
    except (EncodeError, msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise RequestError(f"Pod: {error}") from None
    return PodRequest(pod, head.spec.schedulerName)


def _node(at: int, json: Raw) -> NodeItem:
    try:
        meta = msgspec.json.decode(json, type=_Named).metadata
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RequestError(f"Nodes.items[{at}]: {error}") from None
    if not meta.name:
        raise RequestError(f"Nodes.items[{at}]: the node has no metadata.name")
    return NodeItem(meta.name, meta.resourceVersion, json)


def _victim(node: str, pod: Raw) -> MetaPod:
    try:
        return MetaPod(msgspec.json.decode(pod, type=_Named).metadata.uid)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RequestError(f"NodeNameToVictims[{node!r}]: {error}") from None


# -- what goes out ---------------------------------------------------------------------------------


class _FilteredNodes(Struct):
    metadata: Raw
    items: list[Raw]


class _ExtenderFilterResult(Struct):
    Nodes: _FilteredNodes | None
    NodeNames: Sequence[str] | None
    FailedNodes: dict[str, str]
    FailedAndUnresolvableNodes: dict[str, str]
    Error: str


class HostPriority(Struct):
    """A node's score."""

    Host: str
    Score: int


class _ExtenderPreemptionResult(Struct):
    NodeNameToMetaVictims: dict[str, MetaVictims]


class _ExtenderBindingResult(Struct):
    Error: str


class _Problem(Struct):
    error: str


class Filtered(NamedTuple):
    """What filter decided."""

    kept: Sequence[str]
    """Names of the nodes that pass, in the order of the request."""
    failed: dict[str, str]
    """Why each node that preemption might help does not pass."""
    unresolvable: dict[str, str]
    """Why each node that preemption cannot help does not pass."""


_encode = msgspec.json.Encoder().encode


def encode_filtered(candidates: Candidates, filtered: Filtered) -> bytes:
    """The answer of filter, in the shape of its request: names, or the nodes byte for byte."""
    if candidates.items is None:
        nodes, names = None, filtered.kept
    else:
        kept = set(filtered.kept)
        nodes = _FilteredNodes(candidates.metadata, [item.json for item in candidates.items if item.name in kept])
        names = None
    return _encode(_ExtenderFilterResult(nodes, names, filtered.failed, filtered.unresolvable, ""))


def encode_filter_error(error: str) -> bytes:
    """The answer of a filter that failed as a whole."""
    return _encode(_ExtenderFilterResult(None, None, {}, {}, error))


def encode_priorities(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """The answer of prioritize, a HostPriorityList."""
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
