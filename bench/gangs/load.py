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
"""For which members may wait for each other: no gang that is measured takes so long."""


class Gang(NamedTuple):
    """A gang whose members are created together."""

    members: Sequence[str]
    """Names of pods."""
    group: bytes
    """The body of the request that creates its PodGroup, in JSON."""
    pods: Sequence[bytes]
    """The same of each pod, in protobuf."""


class Kind(NamedTuple):
    """An API that has PodGroups."""

    version: str
    """Its group and version."""
    spec: Callable[[int], Mapping[str, Any]]
    """That of a PodGroup of so many members, all of which are needed."""
    label: Callable[[str], Mapping[str, Any]]
    """What the metadata of the members has of it, by the PodGroup's name."""
    member: Callable[[str], Mapping[str, Any]]
    """The same of their specs."""

    @property
    def path(self) -> str:
        """Where PodGroups are created."""
        return f"/apis/{self.version}/namespaces/{NAMESPACE}/podgroups"

    def gang(self, name: str, size: int) -> Gang:
        """A gang of so many members."""
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
"""Those of scheduler-plugins, which coscheduling reads and the extender as well."""
NATIVE: Final = Kind(
    version="scheduling.k8s.io/v1beta1",
    spec=lambda size: {"schedulingPolicy": {"gang": {"minCount": size}}},
    label=lambda _: {},
    member=lambda group: {"schedulingGroup": {"podGroupName": group}},
)
"""Those of Kubernetes itself."""
