"""The requests of the webhook: decodes their JSON. Nodes and victims that come whole are converted later.

Names are those of `k8s.io/kube-scheduler/extender/v1` (types.go), whose types carry no JSON tags, so
that the wire says `NodeNames` and not `nodeNames`. Go's decoder takes names in any case, and so do we.
Source of what is sent and expected: `pkg/scheduler/extender.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import compress, repeat
from operator import eq, itemgetter, not_
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

from extender.scheduling.requests import (
    UNREADABLE,
    Candidates,
    MetaPod,
    MetaVictims,
    Name,
    PodRequest,
    Preemption,
    RequestError,
)
from extender.webhook.limits import MAX_UNCOUNTED_BYTES, MAX_VICTIMS, require_few, require_size
from wasm_runtime.guests.guest import Pod
from wasm_runtime.protobuf.convert import convert_pod

T = TypeVar("T")

MAX_CACHED_PODS: Final = 256
"""Pods whose protobuf is kept, so that it is made once for all verbs of a cycle."""

MAX_CACHED_POD_BYTES: Final = 65_536
"""Bytes of JSON of a pod that is kept; together with `MAX_CACHED_PODS` it bounds what they take."""

MAX_CACHED_NODES_BYTES: Final = 64 * 1024 * 1024
"""Bytes that nodes take whose JSON is kept, to see which of them come unchanged; beyond it they are forgotten."""

KEY_BYTES: Final = 256
"""First bytes of a node's JSON by which the same node is looked for: Go writes name, UID and version there."""

NAMED_VICTIMS_FACTOR: Final = 3
"""Victims that came by UID take so many times the memory of their JSON."""

HEAD_OVERHEAD_BYTES: Final = 384
"""What the head of a node takes beside its JSON: its objects, the key, the place in a dictionary."""

FindPod = Callable[[str, str], bytes | None]
"""Finds a pod by UID and resourceVersion, a protobuf v1.Pod."""


def find_no_pod(_: str, __: str) -> bytes | None:
    """Finds none: nothing keeps pods."""
    return None


class NodeList(Struct):
    """A v1.NodeList of which each node is kept as it came."""

    items: list[Raw] | None = None
    metadata: Raw = Raw(b"{}")


class ExtenderArgs(Struct):
    """Asks for filter and prioritize."""

    Pod: Raw = Raw()
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


class Victims(Struct):
    """Victims of a node as whole pods, as `nodeCacheCapable: false` sends them."""

    Pods: list[Raw] | None = None
    NumPDBViolations: int = 0


class ExtenderPreemptionArgs(Struct):
    """Asks for preempt."""

    Pod: Raw = Raw()
    NodeNameToVictims: dict[Name, Victims] | None = None
    NodeNameToMetaVictims: dict[Name, MetaVictims] | None = None


class ExtenderBindingArgs(Struct):
    """Asks for bind."""

    PodName: Name = ""
    PodNamespace: Name = ""
    PodUID: Name = ""
    Node: Name = ""


class _ObjectMeta(Struct):
    name: Name | None = None
    namespace: Name | None = None
    uid: Name | None = None
    resourceVersion: Name | None = None  # noqa: N815 - the API's name


class _SchedulingGroup(Struct):
    podGroupName: Name | None = None  # noqa: N815 - the API's name


class _PodSpec(Struct):
    schedulerName: Name | None = None  # noqa: N815 - the API's name
    schedulingGroup: _SchedulingGroup | None = None  # noqa: N815 - the API's name


class _PodStatus(Struct):
    nominatedNodeName: Name | None = None  # noqa: N815 - the API's name


class _PodHead(Struct):
    metadata: _ObjectMeta
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Named(Struct):
    metadata: _ObjectMeta


def _has_victims(args: ExtenderPreemptionArgs) -> bool:
    victims = args.NodeNameToMetaVictims if args.NodeNameToVictims is None else args.NodeNameToVictims
    return bool(args.Pod) and victims is not None and all(each.Pods is not None for each in victims.values())


def decode_binding(body: bytes) -> ExtenderBindingArgs:
    """Reads the body of bind. Raises RequestError."""
    args = _decode(body, ExtenderBindingArgs)
    if args is None or _missing(args):
        args = _decode_in_any_case(body, ExtenderBindingArgs)
    if missing := _missing(args):
        raise RequestError(f"the request has no {', '.join(missing)}")
    return args


def _missing(args: ExtenderBindingArgs) -> list[str]:
    return [name for name in args.__struct_fields__ if not getattr(args, name)]


def _decode(body: bytes, kind: type[T]) -> T | None:
    """Decodes names as the wire has them; None for JSON of another shape. Raises RequestError."""
    if not body or body.isspace():
        raise RequestError("the request has no body")
    if len(body) > MAX_UNCOUNTED_BYTES:
        require_size(body)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        return None
    except UNREADABLE as error:
        raise _no_such(kind, error) from None


def _decode_in_any_case(body: bytes, kind: type[T]) -> T:
    """Decodes names in any case, as Go does: where something that must be there is not as the wire has it.

    Raises RequestError.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(_fold(Raw(body), kind)), type=kind)
    except UNREADABLE as error:
        raise _no_such(kind, error) from None


def _no_such(kind: type[Any], error: Exception) -> RequestError:
    return RequestError(f"the body is no {kind.__name__}: {error}")


def _fold(json: Raw, kind: Any) -> Any:
    """The same JSON with the names of fields as `kind` has them, and without those that it has not.

    JSON of another type than `kind` stays as it is, for the decoder to refuse.
    """
    if get_origin(kind) in {Union, UnionType}:
        kind = next(each for each in get_args(kind) if each is not NoneType)
    try:
        if get_origin(kind) is list and get_args(kind) not in _LEAVES:
            return [_fold(item, *get_args(kind)) for item in msgspec.json.decode(json, type=list[Raw])]
        if get_origin(kind) is dict:
            values = msgspec.json.decode(json, type=dict[str, Raw])
            require_few("nodes", len(values))
            return {name: _fold(value, get_args(kind)[1]) for name, value in values.items()}
        if isinstance(kind, type) and issubclass(kind, Struct):
            values = msgspec.json.decode(json, type=dict[str, Raw])
            known = {field.encode_name.lower(): field for field in _fields(kind)}
            named = [(known[name.lower()], value) for name, value in values.items() if name.lower() in known]
            return {field.encode_name: _fold(value, field.type) for field, value in named}
    except msgspec.ValidationError:
        pass
    return json


_LEAVES: Final = ((str,), (Raw,))
"""Items without fields whose names could be in another case."""


@lru_cache
def _fields(kind: type[Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _read_pod(find_pod: FindPod, json: bytes) -> PodRequest:
    try:
        head = msgspec.json.decode(json, type=_PodHead)
        meta = head.metadata
        name = f"{meta.namespace or 'default'}/{meta.name or ''}"
        # An object of the same version is the same object.
        known = find_pod(meta.uid, meta.resourceVersion) if meta.uid and meta.resourceVersion else None
        pod = Pod(meta.uid or name, name, known or convert_pod(json))
    except UNREADABLE as error:
        raise RequestError(f"Pod: {error}") from None
    spec, status = head.spec or _PodSpec(), head.status or _PodStatus()
    return PodRequest(pod, spec.schedulerName or "", spec.schedulingGroup is not None, status.nominatedNodeName or "")


class _Head(NamedTuple):
    """What is read of a node that came whole, and the JSON that it was read from."""

    name: str
    hash: int
    json: Raw


_NAME, _HASH, _JSON = map(itemgetter, range(len(_Head._fields)))
_UNREAD: Final = _Head("", 0, Raw())


class _Heads:
    """Reads the heads of nodes. A node whose JSON came before is not read again: comparing costs less."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Head] = {}
        self._bytes = 0

    def read(self, nodes: list[Raw]) -> list[_Head]:
        """Raises RequestError."""
        keys = list(map(itemgetter(slice(KEY_BYTES)), map(bytes, nodes)))
        heads = list(map(self._known.get, keys, repeat(_UNREAD)))
        known = list(map(eq, nodes, map(_JSON, heads)))
        if not all(known):
            for at in compress(range(len(nodes)), map(not_, known)):
                heads[at] = self._keep(keys[at], _head(at, nodes[at].copy()))
        return heads

    def _keep(self, key: bytes, head: _Head) -> _Head:
        size = _size(head)
        self._bytes += size - (_size(self._known[key]) if key in self._known else 0)
        if self._bytes > MAX_CACHED_NODES_BYTES:
            self._known.clear()
            self._bytes = size
        self._known[key] = head
        return head


def _size(head: _Head) -> int:
    """Bytes that a head takes with its JSON, of which the key is a copy."""
    length = len(memoryview(head.json))
    return HEAD_OVERHEAD_BYTES + length + min(length, KEY_BYTES) + len(head.name)


def _head(at: int, json: Raw) -> _Head:
    try:
        meta = msgspec.json.decode(json, type=_Named).metadata
    except UNREADABLE as error:
        raise RequestError(f"Nodes.items[{at}]: {error}") from None
    if not meta.name:
        raise RequestError(f"Nodes.items[{at}]: the node has no metadata.name")
    return _Head(meta.name, hash(bytes(json)), json)


def _victim(node: str, at: int, pod: Raw) -> str:
    where = f"NodeNameToVictims[{node!r}].Pods[{at}]"
    try:
        meta = msgspec.json.decode(pod, type=_Named).metadata
    except UNREADABLE as error:
        raise RequestError(f"{where}: {error}") from None
    if not meta.uid:
        raise RequestError(f"{where}: the pod has no metadata.uid")
    return meta.uid


class RequestDecoder:
    """Decodes requests. Keeps the pods and the nodes that it has read last: both come again, mostly unchanged.

    For the serving thread only.
    """

    def __init__(self, find_pod: FindPod = find_no_pod) -> None:
        """`find_pod` spares the conversion of a pod."""
        self._read_pod = partial(_read_pod, find_pod)
        self._read_pod_once = lru_cache(maxsize=MAX_CACHED_PODS)(self._read_pod)
        self._heads = _Heads()

    def decode_args(self, body: bytes) -> tuple[PodRequest, Candidates]:
        """Reads the body of filter or prioritize. Raises RequestError."""
        args = _decode(body, ExtenderArgs)
        if (
            args is None
            or not args.Pod
            or (args.NodeNames is None and (args.Nodes is None or args.Nodes.items is None))
        ):
            args = _decode_in_any_case(body, ExtenderArgs)
        pod = self._pod(args.Pod)
        if args.NodeNames is not None:
            require_few("NodeNames", len(args.NodeNames))
            return pod, Candidates(args.NodeNames)
        if args.Nodes is None:
            raise RequestError(
                "the request has neither NodeNames (nodeCacheCapable: true) nor Nodes (nodeCacheCapable: false)"
            )
        items = args.Nodes.items or []
        require_few("Nodes.items", len(items))
        heads = self._heads.read(items)
        names, hashes = list(map(_NAME, heads)), list(map(_HASH, heads))
        return pod, Candidates(names, items, hashes, args.Nodes.metadata, len(body))

    def decode_preemption(self, body: bytes) -> tuple[PodRequest, Preemption]:
        """Reads the body of preempt. Raises RequestError."""
        args = _decode(body, ExtenderPreemptionArgs)
        if args is None or not _has_victims(args):
            args = _decode_in_any_case(body, ExtenderPreemptionArgs)
        found = args.NodeNameToMetaVictims or args.NodeNameToVictims or {}
        require_few("nodes with victims", len(found))
        require_few("victims", sum([len(each.Pods or ()) for each in found.values()]), MAX_VICTIMS)
        pod = self._pod(args.Pod)
        if args.NodeNameToMetaVictims is not None:
            return pod, Preemption(args.NodeNameToMetaVictims, None, len(body) * NAMED_VICTIMS_FACTOR)
        if args.NodeNameToVictims is None:
            raise RequestError("the request has neither NodeNameToMetaVictims nor NodeNameToVictims")
        objects: dict[str, Raw] = {}
        meta: dict[str, MetaVictims] = {}
        for node, victims in args.NodeNameToVictims.items():
            pods = {_victim(node, at, pod): pod for at, pod in enumerate(victims.Pods or ())}
            objects |= pods
            meta[node] = MetaVictims(list(map(MetaPod, pods)), victims.NumPDBViolations)
        return pod, Preemption(meta, objects, len(body))

    def _pod(self, json: Raw) -> PodRequest:
        pod = bytes(json)
        if pod in {b"", b"null"}:
            raise RequestError("the request has no Pod")
        read = self._read_pod_once if len(pod) <= MAX_CACHED_POD_BYTES else self._read_pod
        return read(pod)
