"""What the example plugins decide, written a second time: the guests of every language must answer the same."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

Object = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
WISHED_ZONE: Final = "example.com/zone"
WISHED_INSTANCE_TYPE: Final = "example.com/instance-type"

_SUFFIXES: Final[Mapping[str, Fraction]] = {
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{letter: Fraction(1, 1000) ** power for power, letter in enumerate("mun", 1)},
}

_ZONES: Final = ("region-1a", "region-1b", "region-1c")
_TYPES: Final = ("large", "xlarge")
_CPU: Final = ("0", "1", "0.1", "100m", "1500m", "2.5", "1500001u", "999999999n", "3e0", "12e-1", "1E1", "0.0001", "4")
_MEMORY: Final = (
    "0", "1", "0.5", "1Ki", "1.5Gi", "4Gi", "16293872Ki", "1e9", "128974848", "129e6", "129M", "123Mi",
    "0.1Gi", "2G", "128974848000m", "1Ti", "0.05Ei", "33554433",
)  # fmt: skip


class Answer(NamedTuple):
    """What Filter and Score say of a pod on a node."""

    code: int
    reason: str
    score: int


def headroom(pod: Object, node: Object) -> Answer:
    """The policy of the example `headroom`."""
    wishes = _labels(pod)
    labels = _labels(node)
    requests = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
    allocatable = node.get("status", {}).get("allocatable", {})
    cpu = (
        sum(_rounded_up(each.get("cpu", "0"), 1000) for each in requests),
        _rounded_up(allocatable.get("cpu", "0"), 1000),
    )
    memory = sum(_rounded_up(each.get("memory", "0")) for each in requests), _rounded_up(allocatable.get("memory", "0"))

    score = min(_percent_free(*cpu), _percent_free(*memory))
    if wishes.get(WISHED_INSTANCE_TYPE) and wishes[WISHED_INSTANCE_TYPE] != labels.get(INSTANCE_TYPE, ""):
        score //= 2

    if wishes.get(WISHED_ZONE) and wishes[WISHED_ZONE] != labels.get(ZONE, ""):
        return Answer(3, "node(s) in another zone", score)
    if cpu[0] > cpu[1]:
        return Answer(2, "Insufficient cpu", score)
    if memory[0] > memory[1]:
        return Answer(2, "Insufficient memory", score)
    return Answer(0, "", score)


def nodenumber(pod: str, node: str, *, reverse: bool = False) -> int:
    """The score of the example `nodenumber`, by the names of pod and node."""
    if pod[-1:] not in set("0123456789"):
        return 0
    return 100 if (pod[-1:] == node[-1:]) != reverse else 0


def random_node(source: random.Random, name: str) -> Object:
    """A v1.Node of which any part may be missing."""
    labels = {ZONE: source.choice(["", *_ZONES]), INSTANCE_TYPE: source.choice(["", *_TYPES])}
    return {
        "metadata": {"name": name, "labels": _some(source, labels)},
        "status": {"allocatable": _some(source, _resources(source))},
    }


def random_pod(source: random.Random, name: str) -> Object:
    """A v1.Pod with none to three containers, of which any part may be missing."""
    labels = {WISHED_ZONE: source.choice(["", *_ZONES]), WISHED_INSTANCE_TYPE: source.choice(["", *_TYPES])}
    containers = [
        {"name": f"c{at}", "image": "i", "resources": {"requests": _some(source, _resources(source))}}
        for at in range(source.randrange(4))
    ]
    return {"metadata": {"name": name, "labels": _some(source, labels)}, "spec": {"containers": containers}}


def _resources(source: random.Random) -> dict[str, str]:
    return {"cpu": source.choice(_CPU), "memory": source.choice(_MEMORY), "pods": "110"}


def _some(source: random.Random, items: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in items.items() if source.random() < 0.85}


def _labels(thing: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = thing["metadata"].get("labels", {})
    return labels


def _percent_free(request: int, allocatable: int) -> int:
    return 0 if allocatable == 0 or request > allocatable else 100 * (allocatable - request) // allocatable


def value(quantity: str) -> Fraction:
    """A quantity as a number."""
    suffix = next((each for each in _SUFFIXES if quantity.endswith(each)), "")
    return Fraction(Decimal(quantity.removesuffix(suffix))) * _SUFFIXES.get(suffix, 1)


def _rounded_up(quantity: str, scale: int = 1) -> int:
    """A quantity as a whole number of 1/scale."""
    return math.ceil(value(quantity) * scale)
