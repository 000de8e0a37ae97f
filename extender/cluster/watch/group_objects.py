"""What PodGroups say, in the APIs that have such a kind; no I/O."""

from __future__ import annotations

from collections.abc import Callable
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


class _PodGroup(Struct):
    """https://github.com/kubernetes/kubernetes/blob/v1.37.0/staging/src/k8s.io/api/scheduling/v1beta1/types.go."""

    spec: _Spec = field(default_factory=_Spec)


class _LabelledSpec(Struct):
    min_member: _Count = field(default=0, name="minMember")
    timeout: _Count | None = field(default=None, name="scheduleTimeoutSeconds")


class _LabelledPodGroup(Struct):
    """https://github.com/kubernetes-sigs/scheduler-plugins/blob/v0.33.5/apis/scheduling/v1alpha1/types.go."""

    spec: _LabelledSpec = field(default_factory=_LabelledSpec)


_POD_GROUP: Final = msgspec.json.Decoder(_PodGroup)
_LABELLED: Final = msgspec.json.Decoder(_LabelledPodGroup)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _pod_group(content: bytes) -> GroupObject:
    """Reads a PodGroup of scheduling.k8s.io."""
    try:
        spec = _POD_GROUP.decode(content).spec
    except _UNREADABLE as error:
        return _wrong(error)
    gang = spec.policy.gang
    return GroupObject(max(gang.min_count, 1) if gang else 1, 0, spec.priority)


def _labelled_pod_group(content: bytes) -> GroupObject:
    """Reads a PodGroup of scheduling.x-k8s.io."""
    try:
        spec = _LABELLED.decode(content).spec
    except _UNREADABLE as error:
        return _wrong(error)
    return GroupObject(max(spec.min_member, 1), spec.timeout or 0)


def _wrong(error: Exception) -> GroupObject:
    return GroupObject(problem=f"the PodGroup cannot be read: {error}")


GROUP_APIS: Final = (
    GroupApi(GroupSource.SCHEDULING_GROUP, "scheduling.k8s.io", ("v1beta1", "v1alpha3", "v1alpha2"), _pod_group),
    GroupApi(GroupSource.LABEL, "scheduling.x-k8s.io", ("v1alpha1",), _labelled_pod_group),
)
"""In the order in which a pod's group is looked for."""
