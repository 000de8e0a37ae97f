"""What PodGroups say, in the APIs that have such a kind; no I/O."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from wasm_runtime.abi import GroupSource

_Count = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
_Priority = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
"""Kubernetes' int32."""


class GroupObject(NamedTuple):
    """What a PodGroup says."""

    minimum: int = 0
    """How many pods have to have a node before any may run, 1 where they need not wait for each other; 0 where the
    object cannot be read."""
    timeout: int = 0
    """Seconds for which pods may wait for each other; 0 where it does not say."""
    priority: int | None = None
    """None where the pods' own counts."""
    created: int = 0
    """When the object was created, in seconds of Unix time; 0 where it does not say."""
    problem: str = ""
    """Why it cannot be read."""


class GroupApi(NamedTuple):
    """An API that has PodGroups."""

    source: GroupSource
    """How pods name them."""
    group: str
    versions: tuple[str, ...]
    """The newest first. Those that can be read are read in the same way."""
    decode: Callable[[bytes], GroupObject]
    """Reads an object's JSON. Raises nothing: what cannot be read says so."""


class _Gang(Struct):
    min_count: _Count = field(default=0, name="minCount")


class _Policy(Struct):
    gang: _Gang | None = None


class _Spec(Struct):
    policy: _Policy = field(default_factory=_Policy, name="schedulingPolicy")
    priority: _Priority | None = None


class _Metadata(Struct):
    created: datetime | None = field(default=None, name="creationTimestamp")


class _PodGroup(Struct):
    """https://github.com/kubernetes/kubernetes/blob/v1.37.0/staging/src/k8s.io/api/scheduling/v1beta1/types.go."""

    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _Spec = field(default_factory=_Spec)


class _LabelledSpec(Struct):
    min_member: _Count = field(default=0, name="minMember")
    timeout: _Count | None = field(default=None, name="scheduleTimeoutSeconds")


class _LabelledPodGroup(Struct):
    """https://github.com/kubernetes-sigs/scheduler-plugins/blob/v0.33.5/apis/scheduling/v1alpha1/types.go."""

    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _LabelledSpec = field(default_factory=_LabelledSpec)


_POD_GROUP: Final = msgspec.json.Decoder(_PodGroup)
_LABELLED: Final = msgspec.json.Decoder(_LabelledPodGroup)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _pod_group(content: bytes) -> GroupObject:
    """Reads a PodGroup of scheduling.k8s.io."""
    try:
        found = _POD_GROUP.decode(content)
    except _UNREADABLE as error:
        return _wrong(error)
    gang = found.spec.policy.gang
    minimum = max(gang.min_count, 1) if gang else 1
    return GroupObject(minimum, 0, found.spec.priority, _created(found.metadata))


def _labelled_pod_group(content: bytes) -> GroupObject:
    """Reads a PodGroup of scheduling.x-k8s.io."""
    try:
        found = _LABELLED.decode(content)
    except _UNREADABLE as error:
        return _wrong(error)
    spec = found.spec
    return GroupObject(max(spec.min_member, 1), spec.timeout or 0, created=_created(found.metadata))


def _created(metadata: _Metadata) -> int:
    return max(int(metadata.created.timestamp()), 0) if metadata.created else 0


def _wrong(error: Exception) -> GroupObject:
    return GroupObject(problem=f"the PodGroup cannot be read: {error}")


GROUP_APIS: Final = (
    GroupApi(GroupSource.SCHEDULING_GROUP, "scheduling.k8s.io", ("v1beta1", "v1alpha3", "v1alpha2"), _pod_group),
    GroupApi(GroupSource.LABEL, "scheduling.x-k8s.io", ("v1alpha1",), _labelled_pod_group),
)
"""In the order in which a pod's group is looked for."""
