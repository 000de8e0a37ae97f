"""Groups of pods of which a minimum has to run, or none at all, and nodes that have room for so many pods each.

What runs is judged by what the API server has, nothing else: pods on nodes, counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from extender.scheduling.group_claim import LABEL, MINIMUM
from tests.e2e.quiet import wait_until_quiet
from tests.e2e.stack import Stack
from tests.e2e.witness import PODS, Pods, has_node

MODULE = Path(__file__).parents[2] / "extender" / "policies" / "gang.wasm"
PROFILE = {"topNodes": 1}
SERVER = {"bindTimeout": "2m"}
"""Keys of `server` that the policy's README recommends."""
REQUEST = {"cpu": "1"}
"""The request of each pod: a node has room for as many pods as it has cores."""
NAME_LABEL = "example.com/gang"
"""The label by which a test finds the pods of a gang, however the gang is described."""


def gang_policy(**settings: Any) -> dict[str, Any]:
    """The plugin gang as the configuration has it."""
    return {"name": "gang", "guestURL": f"file://{MODULE}", "guestConfig": settings}


def allocatable(room: int) -> Mapping[str, str]:
    """What is allocatable on a node with room for so many pods."""
    return {"cpu": str(room), "memory": "256Gi", "pods": "110"}


@dataclass(frozen=True)
class Gang:
    """A group of pods."""

    name: str
    size: int
    minimum: int

    @property
    def members(self) -> Sequence[str]:
        """The names of its pods."""
        return [f"{self.name}-{at}" for at in range(self.size)]

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the gang's pods, as scheduler-plugins' coscheduling reads them."""
        return {LABEL: self.name, MINIMUM: str(self.minimum)}

    def bound(self, pods: Pods) -> int:
        """How many of its pods have a node."""
        return sum(has_node(pods[name]) for name in self.members if name in pods)

    def runs(self, pods: Pods) -> bool:
        """Whether the minimum of its pods have a node."""
        return self.bound(pods) >= self.minimum

    def is_half(self, pods: Pods) -> bool:
        """Whether some of its pods have a node, and fewer than the minimum."""
        return 0 < self.bound(pods) < self.minimum

    def create(self, stack: Stack, members: Iterable[str] = (), **changes: Any) -> None:
        """Creates its pods, or some of them. If `changes` say which `schedulingGroup` it is, labels do not."""
        labels = {NAME_LABEL: self.name, **({} if "schedulingGroup" in changes else self.labels)}
        for name in members or self.members:
            stack.create_pod(name, **{"requests": REQUEST, **changes, "labels": labels})

    def delete(self, stack: Stack) -> None:
        """Deletes its pods, as those of a job that has run."""
        query = {"gracePeriodSeconds": "0", "labelSelector": f"{NAME_LABEL}={self.name}"}
        stack.control_plane.client.delete(PODS, params=query).raise_for_status()


def settle(stack: Stack, gangs: Sequence[Gang], condition: Callable[[Pods], object]) -> Pods:
    """The pods, once a condition holds for them while all is quiet. Raises AssertionError if a gang is half then."""

    def holds(pods: Pods) -> bool:
        assert not any(gang.is_half(pods) for gang in gangs), told(gangs, pods)
        return bool(condition(pods))

    return wait_until_quiet(stack, holds, partial(told, gangs))


def told(gangs: Iterable[Gang], pods: Pods) -> str:
    """How many pods of each gang have a node."""
    return ", ".join(f"{gang.name}: {gang.bound(pods)} of {gang.size}, {gang.minimum} needed" for gang in gangs)


def draw(count: int, sizes: range, seed: int) -> Sequence[Gang]:
    """So many gangs of different sizes. A third of them has more pods than it needs."""
    drawn = random.Random(seed)

    def gang(at: int) -> Gang:
        size = drawn.choice(sizes)
        return Gang(f"gang-{at}", size, size - drawn.choice([0, 0, 1]))

    return [gang(at) for at in range(count)]


def crowded(pods: Pods, room: int) -> list[str]:
    """Sentences on the nodes with more pods than they have room for."""
    load = Counter(pod["spec"]["nodeName"] for pod in pods.values() if has_node(pod))
    return [f"{node} has {number} pods and room for {room}" for node, number in load.items() if number > room]
