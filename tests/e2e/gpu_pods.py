"""Pods that ask for devices: whole ones, or shares of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.e2e.devices import FRACTION, MEMORY, MEMORY_LABEL, NUMBER, RESOURCE, Ask, Node
from tests.e2e.stack import pod

GPUS = 8
"""Devices of a node."""
GPU_MEMORY = 81559
"""MiB of a device: an H100, as the GPU feature discovery labels its node."""
LABELS = {MEMORY_LABEL: str(GPU_MEMORY)}
GPU_PACK = Path(__file__).parents[2] / "extender" / "policies" / "gpu_pack.wasm"

PodChanges = Mapping[str, Any]
"""The arguments of `Stack.create_pod` beside the name."""


def gpu_pack(**settings: str) -> dict[str, Any]:
    """The plugin gpu-pack as the configuration has it."""
    return {"name": "gpu-pack", "guestURL": f"file://{GPU_PACK}", "guestConfig": settings}


def allocatable(devices: int = GPUS) -> Mapping[str, str]:
    """What is allocatable on a node with so many devices."""
    return {"cpu": "128", "memory": "1Ti", "pods": "500", RESOURCE: str(devices)}


def whole(devices: int) -> PodChanges:
    """A pod with devices of its own."""
    amount = {RESOURCE: str(devices)}
    return {"requests": amount, "limits": amount}


def share(annotation: str, amount: object, devices: int = 1) -> PodChanges:
    """A pod with as much of each of some devices."""
    return {"annotations": {annotation: str(amount)} | ({NUMBER: str(devices)} if devices > 1 else {})}


def mixture(count: int, seed: int) -> dict[str, PodChanges]:
    """So many pods, by name: half ask for fractions, a fourth for memory, a fourth for whole devices."""
    drawn = random.Random(seed)

    def draw() -> PodChanges:
        kind, devices = drawn.random(), drawn.choice([1, 1, 1, 2])
        if kind < 0.5:
            return share(FRACTION, drawn.choice(["0.1", "0.2", "0.25", "0.3", "0.333", "0.5", "0.7", "0.999"]), devices)
        if kind < 0.75:
            return share(MEMORY, drawn.randrange(1000, GPU_MEMORY), devices)
        return whole(devices)

    return {f"pod-{at}": draw() for at in range(count)}


def demand(pods: Mapping[str, PodChanges]) -> Fraction:
    """How many devices they ask for together."""
    node = Node("any", GPUS, GPU_MEMORY)
    asks = [Ask.of(pod(name, **changes)) for name, changes in pods.items()]
    return sum((ask.devices * ask.share(node) for ask in asks), Fraction(0))
