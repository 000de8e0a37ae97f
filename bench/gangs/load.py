"""A gang, as the bodies of the requests that create it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bench.peers import objects
from bench.peers.protobuf import enveloped
from bench.scheduler.load import CPU_REQUESTS, MEMORY_REQUESTS, NAMESPACE
from wasm_runtime.protobuf import encode_pod

LABEL: Final = "scheduling.x-k8s.io/pod-group"
TIMEOUT_S: Final = 60
"""Seconds for which members may wait for each other: no gang that is measured takes so long."""


class Gang(NamedTuple):
    """A gang whose members are created together."""

    members: Sequence[str]
    """The names of the member pods."""
    group: bytes
    """The body of the request that creates its PodGroup, in JSON."""
    pods: Sequence[bytes]
    """The body of the request that creates each pod, in protobuf."""


class Kind(NamedTuple):
    """How one of the APIs with PodGroups describes a gang."""

    version: str
    """The API's group and version."""
    spec: Callable[[int], Mapping[str, Any]]
    """Makes the spec of a PodGroup that needs all of so many members."""
    label: Callable[[str], Mapping[str, Any]]
    """Makes the metadata by which members name a PodGroup."""
    member: Callable[[str], Mapping[str, Any]]
    """Makes the part of the spec by which members name a PodGroup."""

    @property
    def path(self) -> str:
        """The path of the API server at which PodGroups are created."""
        return f"/apis/{self.version}/namespaces/{NAMESPACE}/podgroups"

    def gang(self, name: str, size: int) -> Gang:
        """A gang of `size` members, whose PodGroup has this name."""
        group = {"apiVersion": self.version, "kind": "PodGroup", "metadata": {"name": name}, "spec": self.spec(size)}
        members = [f"{name}-{at}" for at in range(size)]
        return Gang(members, msgspec.json.encode(group), [self._pod(member, name) for member in members])

    def _pod(self, name: str, group: str) -> bytes:
        manifest = objects.requesting(0, f"{CPU_REQUESTS[0]}m", f"{MEMORY_REQUESTS[0]}Mi", {})
        metadata = {"name": name, "namespace": NAMESPACE, **self.label(group)}
        spec = {**manifest["spec"], **self.member(group)}
        return enveloped(encode_pod({**manifest, "metadata": metadata, "spec": spec, "status": {}}), "Pod")


LABELLED: Final = Kind(
    version="scheduling.x-k8s.io/v1alpha1",
    spec=lambda size: {"minMember": size, "scheduleTimeoutSeconds": TIMEOUT_S},
    label=lambda group: {"labels": {LABEL: group}},
    member=lambda _: {},
)
"""PodGroups of scheduler-plugins, which coscheduling and the extender read."""
NATIVE: Final = Kind(
    version="scheduling.k8s.io/v1beta1",
    spec=lambda size: {"schedulingPolicy": {"gang": {"minCount": size}}},
    label=lambda _: {},
    member=lambda group: {"schedulingGroup": {"podGroupName": group}},
)
"""PodGroups of Kubernetes itself."""
