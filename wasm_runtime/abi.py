"""The guest ABI of kube-scheduler-wasm-extension as tables.

Source: `scheduler/plugin/guest.go` (exports), `scheduler/plugin/host.go` (imports) and
`scheduler/plugin/clusterevent.go` of kubernetes-sigs/kube-scheduler-wasm-extension.
`sdk-guest/ABI.md` tells the same to authors of guests, and a test keeps the two equal.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

MEMORY: Final = "memory"
"""The export that every guest must have: its linear memory."""

START: Final = ("_start", "_initialize")
"""The first that is exported is called once in a new instance: commands have the one, reactors the other."""

WASI: Final = "wasi_snapshot_preview1"
"""The import module of WASI preview 1, served by the engine but for `WASI_HERE`."""


class Code(IntEnum):
    """Status codes, as in the scheduling framework (`k8s.io/kube-scheduler/framework`)."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6


REJECTED: Final = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})
"""The codes by which a plugin says no without having failed (`Status.IsRejected`)."""

MIN_NODE_SCORE: Final = 0
MAX_NODE_SCORE: Final = 100
"""The range of a score after NormalizeScore, both ends included."""


class NominatingMode(IntEnum):
    """What PostFilter asks to be done with the pod's nominated node."""

    NOOP = 0
    OVERRIDE = 1


class FunctionType(NamedTuple):
    """Types of a function's parameters and results, in WebAssembly's names."""

    params: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"({', '.join(self.params)}) -> ({', '.join(self.results)})"


class Export(NamedTuple):
    """A function that the host calls in the guest."""

    extension_point: str
    """The scheduling framework's name of the point that the export serves."""
    signature: FunctionType
    result: str
    """What the result means."""
    on_node: bool = False
    """Whether a call is about one node, which the guest reads as `currentNodeName`."""


_NOTHING: Final = FunctionType()
_CODE: Final = FunctionType((), ("i32",))
_PACKED: Final = FunctionType((), ("i64",))

EXPORTS: Final[dict[str, Export]] = {
    "enqueue": Export("enqueue", _NOTHING, "cluster events through `result.cluster_events`"),
    "prefilter": Export("preFilter", _CODE, "code; node names through `result.node_names`"),
    "addpod": Export("preFilter", _CODE, "code", on_node=True),
    "removepod": Export("preFilter", _CODE, "code", on_node=True),
    "filter": Export("filter", _CODE, "code", on_node=True),
    "postfilter": Export("postFilter", _PACKED, "nominating mode << 32 | code"),
    "prescore": Export("preScore", _CODE, "code"),
    "score": Export("score", _PACKED, "score << 32 | code", on_node=True),
    "normalizescore": Export("score", _CODE, "code; scores through `result.normalized_score_list`"),
    "reserve": Export("reserve", _CODE, "code", on_node=True),
    "bindingannotations": Export("reserve", _PACKED, "address << 32 | length of annotations, see below", on_node=True),
    "unreserve": Export("reserve", _NOTHING, "", on_node=True),
    "permit": Export("permit", _PACKED, "code << 32 | timeout in milliseconds", on_node=True),
    "prebind": Export("preBind", _CODE, "code", on_node=True),
    "bind": Export("bind", _CODE, "code", on_node=True),
    "postbind": Export("postBind", _NOTHING, "", on_node=True),
}
"""Every export that serves an extension point. Others are ignored, but for those of `RESIDENT`."""

OUR_EXPORTS: Final = frozenset({"bindingannotations"})
"""Those of them that are this project's; other hosts ignore them."""

RESIDENT: Final[dict[str, FunctionType]] = {
    "nodechanged": FunctionType(("i32",)),
    "noderemoved": FunctionType(("i32",)),
    "collectgarbage": _NOTHING,
    "nodebuffer": FunctionType(("i32",), ("i32",)),
    "filternodes": FunctionType(("i32",), ("i32",)),
    "scorenodes": FunctionType(("i32",), ("i32",)),
    "podbuffer": FunctionType(("i32",), ("i32",)),
    "podschanged": FunctionType(("i32",)),
    "pendingpodschanged": FunctionType(("i32",)),
    "groupschanged": FunctionType(("i32",)),
    "memberschanged": FunctionType(("i32",)),
}
"""The exports of a guest that keeps what it needs of nodes, pods and groups. They are this project's; other hosts
ignore them."""

LISTS: Final = {"filter": "filternodes", "score": "scorenodes"}
"""What is called instead of an export if all nodes of a list are resident."""

RESIDENT_NEEDS: Final = {
    "nodechanged": ("noderemoved",),
    "noderemoved": ("nodechanged",),
    "filternodes": ("nodechanged", "nodebuffer", "filter"),
    "scorenodes": ("nodechanged", "nodebuffer", "score"),
    "podschanged": ("nodechanged", "podbuffer"),
    "pendingpodschanged": ("podbuffer",),
    "groupschanged": ("podbuffer",),
    "memberschanged": ("groupschanged",),
}
"""The exports without which an export has no sense."""

POD_STREAMS: Final = {"podschanged": True, "pendingpodschanged": False}
"""The exports that are told of pods, and whether those have a node."""

RECORD_STREAMS: Final = ("groupschanged", *POD_STREAMS, "memberschanged")
"""The exports that are told of something by records, in the order in which they are told."""


class PodState(IntEnum):
    """What a record says of a pod."""

    GONE = 0
    THERE = 1
    TENTATIVE = 2
    """The pod is expected on the node, and may not come."""
    BINDING = 3
    """The same, and a bind is under way. Members of groups alone are told so."""


class GroupSource(IntEnum):
    """How a pod names its group."""

    SCHEDULING_GROUP = 1
    """By `spec.schedulingGroup`, which names a PodGroup of scheduling.k8s.io."""
    LABEL = 2
    """By a label, which may name a PodGroup of scheduling.x-k8s.io."""


NO_NODE: Final = 0xFFFF_FFFF
"""In the place of a node's number, where a pod has no node."""

NO_GROUP: Final = 0xFFFF_FFFF
"""In the place of a group's number, where a pod is of none."""

BIND_CYCLE: Final = frozenset({"reserve", "bindingannotations", "unreserve", "permit", "prebind", "bind", "postbind"})
"""The exports that are called once a node is chosen, by the bind verb."""

EXTENSION_POINTS: Final = tuple(dict.fromkeys(export.extension_point for export in EXPORTS.values()))
"""The extension points in the order of a scheduling cycle."""


class Import(NamedTuple):
    """A function that the guest calls in the host."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}/{self.name}"


def _signature(params: int, results: int) -> FunctionType:
    return FunctionType(("i32",) * params, ("i32",) * results)


IMPORTS: Final[dict[Import, FunctionType]] = {
    Import("k8s.io/api", "node"): _signature(4, 1),
    Import("k8s.io/api", "nodeList"): _signature(2, 1),
    Import("k8s.io/klog", "log"): _signature(3, 0),
    Import("k8s.io/klog", "logs"): _signature(5, 0),
    Import("k8s.io/klog", "severity"): _signature(0, 1),
    Import("k8s.io/scheduler", "currentPod"): _signature(2, 1),
    Import("k8s.io/scheduler", "currentNodeName"): _signature(2, 1),
    Import("k8s.io/scheduler", "targetPod"): _signature(2, 1),
    Import("k8s.io/scheduler", "filteredNodeList"): _signature(2, 1),
    Import("k8s.io/scheduler", "nodeToStatusMap"): _signature(2, 1),
    Import("k8s.io/scheduler", "nodeScoreList"): _signature(2, 1),
    Import("k8s.io/scheduler", "nodeImageStates"): _signature(4, 1),
    Import("k8s.io/scheduler", "get_config"): _signature(2, 1),
    Import("k8s.io/scheduler", "result.cluster_events"): _signature(2, 0),
    Import("k8s.io/scheduler", "result.node_names"): _signature(2, 0),
    Import("k8s.io/scheduler", "result.nominated_node_name"): _signature(2, 0),
    Import("k8s.io/scheduler", "result.status_reason"): _signature(2, 0),
    Import("k8s.io/scheduler", "result.normalized_score_list"): _signature(2, 0),
    Import("k8s.io/scheduler", "handle.eventrecorder.eventf"): _signature(2, 0),
    Import("k8s.io/scheduler", "handle.reject_waiting_pod"): _signature(4, 0),
    Import("k8s.io/scheduler", "handle.get_waiting_pod"): _signature(4, 0),
}
"""Every function that a guest may import, WASI aside."""

WASI_HERE: Final[dict[Import, FunctionType]] = {
    Import(WASI, "fd_write"): _signature(4, 1),
    Import(WASI, "poll_oneoff"): _signature(4, 1),
    Import(WASI, "random_get"): _signature(2, 1),
}
"""The functions of WASI that the host answers itself.

`fd_write`, so that what a guest prints is bounded and can be quoted in errors. `poll_oneoff` and
`random_get`, because an engine sleeps or works in them where no deadline reaches it.
"""

NODE_DATA: Final = frozenset(
    {
        Import("k8s.io/api", "node"),
        Import("k8s.io/api", "nodeList"),
        Import("k8s.io/scheduler", "nodeImageStates"),
    }
)
"""The imports whose answers come from node objects: names alone cannot serve them."""


class HostDocument(IntEnum):
    """A document that the host makes when a guest asks for it, at most once in a call."""

    FILTERED_NODES = 0
    """JSON list of node names."""
    NODE_STATUSES = 1
    """JSON object: node name to status code."""
    NODE_SCORES = 2
    """JSON object: node name to score."""
    NODE_LIST = 3
    """Protobuf v1.NodeList."""
    WAITING_POD = 4
    """Protobuf v1.Pod of the pod that `handle.get_waiting_pod` asked for last."""


class GuestResult(IntEnum):
    """What a guest returns besides its status code, by an import whose name begins with `result.`."""

    CLUSTER_EVENTS = 0
    """Pairs of little-endian u32: resource and action type."""
    NODE_NAMES = 1
    """NUL-terminated strings."""
    NOMINATED_NODE_NAME = 2
    """A string."""
    NORMALIZED_SCORES = 3
    """JSON object: node name to score."""


class Severity(IntEnum):
    """klog's severities, as `logSeverity` and the klog imports number them."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    FATAL = 3


RESOURCES: Final = (
    "Pod",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodSchedulingContext",
    "ResourceClaim",
    "storage.k8s.io/StorageClass",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSIStorageCapacity",
    "*",
)
"""Resources by their number in a cluster event (`gvk` in `scheduler/plugin/clusterevent.go`)."""


class ClusterEvent(NamedTuple):
    """A change in the cluster after which a rejected pod is worth another attempt."""

    resource: str
    """One of `RESOURCES`, or the number of one that is not known."""
    action_type: int
    """A bit an action, as in the scheduling framework's ActionType."""


_CLUSTER_EVENT: Final = struct.Struct("<II")


def cluster_events(data: bytes) -> list[ClusterEvent]:
    """The pairs that a guest hands over by `result.cluster_events`. What follows the last whole one is left out.

    Source: `decodeClusterEvents` in `scheduler/plugin/clusterevent.go`.
    """
    whole = data[: len(data) // _CLUSTER_EVENT.size * _CLUSTER_EVENT.size]
    return [
        ClusterEvent(RESOURCES[resource] if resource < len(RESOURCES) else str(resource), action)
        for resource, action in _CLUSTER_EVENT.iter_unpack(whole)
    ]


def split_names(names: bytes) -> list[str]:
    """NUL-terminated strings as a list. Empty ones, and a last one without its NUL, are left out.

    Source: `fromNULTerminated` in `scheduler/plugin/cstring.go`.
    """
    return [name.decode(errors="replace") for name in names.split(b"\0")[:-1] if name]
