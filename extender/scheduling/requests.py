"""What a verb is asked: a pod, the nodes, the pods that would be evicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import MAX_NODE_NAME_CHARS
from wasm_runtime.protobuf import EncodeError
from wasm_runtime.protobuf.convert import convert_node, convert_pod

Name = Annotated[str, Meta(max_length=MAX_NODE_NAME_CHARS)]
"""What becomes a key here: a name or a UID, which Kubernetes makes of 36 characters."""


UNREADABLE: Final = (EncodeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for JSON that is malformed, not UTF-8, of the wrong types, or nested too deeply."""


class RequestError(Exception):
    """The request cannot be answered, which is the caller's fault. `str()` says what is wrong with it."""


class MetaPod(Struct, gc=False):
    """A victim by its UID."""

    UID: Name


class MetaVictims(Struct, gc=False):
    """Victims of a node by UID, as `nodeCacheCapable: true` sends them and every answer has them."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class PodRequest(NamedTuple):
    """The pod of a request."""

    pod: Pod
    scheduler_name: str
    is_in_group: bool = False
    """Whether kube-scheduler may try it together with others, as a group of which all or none fit."""
    nominated_node: str = ""
    """Where kube-scheduler has evicted pods for it."""


class Candidates(NamedTuple):
    """The nodes of a filter or prioritize request, in its order."""

    names: list[str]
    items: list[Raw] | None = None
    """The nodes themselves with `nodeCacheCapable: false`."""
    hashes: Sequence[int] = ()
    """That of each item's JSON. Who sends a node may change it without its resourceVersion."""
    metadata: Raw = Raw(b"{}")
    held: int = 0
    """Bytes that `items` keep alive: those of the request's body."""


class Preemption(NamedTuple):
    """The candidates of a preempt request and the pods that would be evicted from each."""

    victims: dict[str, MetaVictims]
    """By the node's name."""
    objects: dict[str, Raw] | None
    """The victims themselves by UID, with `nodeCacheCapable: false`."""
    held: int = 0
    """Bytes that the victims may keep alive, by a rule of thumb."""

    @property
    def names(self) -> list[str]:
        """The candidates', in the order of the request."""
        return list(self.victims)

    def uids(self, node: str) -> list[str]:
        """The victims on a node."""
        return [pod.UID for pod in self.victims[node].Pods or ()]


def encode_candidate(name: str, node: Raw) -> bytes:
    """A node that came whole, as protobuf. Raises RequestError."""
    try:
        return convert_node(bytes(node))
    except UNREADABLE as error:
        raise RequestError(f"Nodes: node {name}: {error}") from None


def encode_victim(uid: str, pod: Raw) -> bytes:
    """A victim that came whole, as protobuf. Raises RequestError."""
    try:
        return convert_pod(bytes(pod))
    except UNREADABLE as error:
        raise RequestError(f"NodeNameToVictims: the pod of UID {uid}: {error}") from None
