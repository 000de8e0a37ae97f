"""Which pods have which devices of which nodes, by what the API server has, and whether any has more than there is.

It is written after the promises of gpu-pack alone: exact fractions, nothing remembered from one look to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Object = Mapping[str, Any]

RESOURCE = "nvidia.com/gpu"
MEMORY_LABEL = "nvidia.com/gpu.memory"
DEVICES = "gpu-pack.kwx.dev/devices"
FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
NUMBER = "gpu-fraction-num-devices"

FINISHED = {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class Node:
    """The devices of a node."""

    name: str
    devices: int
    memory: int
    """MiB of each device, 0 if the node does not say."""

    @classmethod
    def of(cls, node: Object) -> Node:
        """Reads a v1.Node."""
        labels = node["metadata"].get("labels", {})
        devices = int(node["status"]["allocatable"].get(RESOURCE, 0))
        return cls(node["metadata"]["name"], devices, int(labels.get(MEMORY_LABEL, 0)))


@dataclass(frozen=True, slots=True)
class Ask:
    """The devices that a pod asks for: the same share of each of them."""

    devices: int
    fraction: Fraction
    """The share of each device; 0 if the pod asks for memory."""
    memory: int
    """MiB of each device; 0 if the pod asks for a fraction."""

    @classmethod
    def of(cls, pod: Object) -> Ask:
        """Reads a v1.Pod of containers that all run at once."""
        requests = [container["resources"].get("requests", {}) for container in pod["spec"]["containers"]]
        if whole := sum(int(each.get(RESOURCE, 0)) for each in requests):
            return cls(whole, Fraction(1), 0)
        annotations = pod["metadata"].get("annotations", {})
        fraction, memory = Fraction(annotations.get(FRACTION, 0)), int(annotations.get(MEMORY, 0))
        return cls(int(annotations.get(NUMBER, 1)) if fraction or memory else 0, fraction, memory)

    @property
    def is_whole(self) -> bool:
        """Whether the pod asks for whole devices."""
        return self.fraction == 1

    def share(self, node: Node) -> Fraction:
        """The share of each device that the pod takes on a node; more than 1 if the devices' memory is unknown."""
        if not self.memory:
            return self.fraction
        return Fraction(self.memory, node.memory) if node.memory else Fraction(2)


class Devices:
    """The devices of some nodes, and the pods that have them, at one moment."""

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Object]) -> None:
        """`pods` are v1.Pods. Those without a node, and those that have ended, have no devices."""
        self._nodes = {node.name: node for node in nodes}
        self._pods = [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"].get("phase") not in FINISHED]
        self._shares: dict[tuple[str, int], dict[str, Fraction]] = defaultdict(dict)
        """The share of each pod, by its name, for each device by node and index."""
        for pod in self._pods:
            node = self._nodes[pod["spec"]["nodeName"]]
            for device in indices(pod):
                self._shares[node.name, device][pod["metadata"]["name"]] = Ask.of(pod).share(node)

    def used(self, node: str) -> list[Fraction]:
        """The share of each device of a node that pods have."""
        return [sum(self._shares.get((node, at), {}).values(), Fraction(0)) for at in range(self._nodes[node].devices)]

    def violations(self) -> list[str]:
        """Sentences on the pods, devices and nodes that are wrong; none if nothing is given away twice."""
        return [*self._wrong_pods(), *self._wrong_devices(), *self._wrong_nodes()]

    def places(self, pod: Object) -> list[str]:
        """The nodes with room for one more pod."""
        ask = Ask.of(pod)
        return [
            name
            for name, node in self._nodes.items()
            if sum(used + ask.share(node) <= 1 for used in self.used(name)) >= ask.devices
        ]

    def _wrong_pods(self) -> Iterator[str]:
        for pod in self._pods:
            name, node = pod["metadata"]["name"], self._nodes[pod["spec"]["nodeName"]]
            found, expected = indices(pod), Ask.of(pod).devices
            if len(found) != expected or len(set(found)) != expected:
                yield f"pod {name} asks for {expected} devices and has {list(found)} of {node.name}"
            for device in found:
                if not 0 <= device < node.devices:
                    yield f"pod {name} has device {device} of {node.name}, which has {node.devices}"

    def _wrong_devices(self) -> Iterator[str]:
        for (node, device), shares in sorted(self._shares.items()):
            if sum(shares.values()) > 1:
                parts = ", ".join(f"{pod} {share}" for pod, share in sorted(shares.items()))
                yield f"device {device} of {node} is given away {sum(shares.values())} times: {parts}"

    def _wrong_nodes(self) -> Iterator[str]:
        whole: dict[str, int] = defaultdict(int)
        for pod in self._pods:
            if (ask := Ask.of(pod)).is_whole:
                whole[pod["spec"]["nodeName"]] += ask.devices
        for node, number in sorted(whole.items()):
            if number > self._nodes[node].devices:
                yield f"pods on {node} request {number} {RESOURCE}, of which it has {self._nodes[node].devices}"


def indices(pod: Object) -> Sequence[int]:
    """The indices of the devices that a pod was given."""
    given = pod["metadata"].get("annotations", {}).get(DEVICES, "")
    return [int(each) for each in given.split(",") if each]
