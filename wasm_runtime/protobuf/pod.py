"""What a v1.Pod, given as a bare protobuf message, says of where it is to run and of what it asks for."""

from __future__ import annotations

from typing import Final

from wasm_runtime.protobuf.read import as_bytes, as_text, fields
from wasm_runtime.protobuf.varint import BYTES
from wasm_runtime.protobuf.write import field

_METADATA: Final = 1
_LABELS: Final = 11
_ANNOTATIONS: Final = 12
_SPEC: Final = 2
_NODE_NAME: Final = 10
_SCHEDULER_NAME: Final = 19
_STATUS: Final = 3
_CONDITIONS: Final = 2
_TYPE: Final = 1
_CONDITION_STATUS: Final = 2
_MESSAGE: Final = 6
"""Field numbers of Pod, ObjectMeta, PodSpec, PodStatus and PodCondition (generated.proto of k8s.io/api/core/v1 and
k8s.io/apimachinery/pkg/apis/meta/v1)."""


def scheduler_name(pod: bytes) -> str:
    """Read `spec.schedulerName`; "" where it is absent.

    Raises:
        DecodeError: *pod* is no message, or none with a PodSpec in field 2.
    """
    return _in_spec(pod, _SCHEDULER_NAME)


def node_name(pod: bytes) -> str:
    """Read `spec.nodeName`, as `scheduler_name` does."""
    return _in_spec(pod, _NODE_NAME)


def not_scheduled(pod: bytes) -> str:
    """Read why the scheduler found no node for the pod: the message of its condition PodScheduled.

    "" where there is none, or the pod is scheduled. Raises DecodeError as `scheduler_name` does.
    """
    for number, wire_type, status in fields(pod):
        if number == _STATUS:
            for inner, inner_type, condition in fields(as_bytes(number, wire_type, status)):
                if inner == _CONDITIONS:
                    found = {at: value for at, _, value in fields(as_bytes(inner, inner_type, condition))}
                    if (found.get(_TYPE), found.get(_CONDITION_STATUS)) == (b"PodScheduled", b"False"):
                        return as_text(_MESSAGE, BYTES, found.get(_MESSAGE, b""))
    return ""


def asks_alike(pod: bytes, other: bytes) -> bool:
    """Whether two pods ask for the same, be it on different nodes.

    What a pod asks for is in its labels, annotations and spec. Its status never takes more than its spec asks for.

    Raises:
        DecodeError: One is no message, as far as it has to be read.
    """
    (metadata, spec), (other_metadata, other_spec) = _metadata_and_spec(pod), _metadata_and_spec(other)
    if spec != other_spec and _without_node_name(spec) != _without_node_name(other_spec):
        return False
    return metadata == other_metadata or _labels_and_annotations(metadata) == _labels_and_annotations(other_metadata)


def unplaced(pod: bytes) -> bytes:
    """The pod without `spec.nodeName`, as it was before it had a node. Raises DecodeError if it is no message."""
    return b"".join(
        field(number, wire_type, _unplaced_spec(value) if number == _SPEC and isinstance(value, bytes) else value)
        for number, wire_type, value in fields(pod)
    )


def _in_spec(pod: bytes, wanted: int) -> str:
    found = ""
    for number, wire_type, spec in fields(pod):
        if number == _SPEC:
            for inner, inner_type, value in fields(as_bytes(number, wire_type, spec)):
                if inner == wanted:
                    found = as_text(inner, inner_type, value)
    return found


def _metadata_and_spec(pod: bytes) -> tuple[list[bytes], list[bytes]]:
    """The bytes of each ObjectMeta and of each PodSpec in the message: a field may be there more than once."""
    metadata, spec = [], []
    for number, wire_type, value in fields(pod):
        if number == _METADATA:
            metadata.append(as_bytes(number, wire_type, value))
        elif number == _SPEC:
            spec.append(as_bytes(number, wire_type, value))
    return metadata, spec


def _labels_and_annotations(metadata: list[bytes]) -> list[tuple[int, int, int | bytes]]:
    return [each for part in metadata for each in fields(part) if each[0] in {_LABELS, _ANNOTATIONS}]


def _without_node_name(spec: list[bytes]) -> list[tuple[int, int, int | bytes]]:
    return [each for part in spec for each in fields(part) if each[0] != _NODE_NAME]


def _unplaced_spec(spec: bytes) -> bytes:
    return b"".join(field(*each) for each in _without_node_name([spec]))
