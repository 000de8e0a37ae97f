"""Who looks for devices that are given away twice finds them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.e2e.devices import DEVICES, FRACTION, MEMORY, MEMORY_LABEL, NUMBER, RESOURCE, Devices, Node

NODES = [Node("large", 4, 8000), Node("small", 2, 4000), Node("silent", 1, 0)]


def pod(
    name: str, node: str = "", devices: str = "", *, whole: int = 0, phase: str = "Running", **asked: str
) -> dict[str, Any]:
    """A v1.Pod. `asked` are annotations: fraction, memory, number."""
    keys = {"fraction": FRACTION, "memory": MEMORY, "number": NUMBER}
    annotations = {keys[key]: value for key, value in asked.items()} | ({DEVICES: devices} if devices else {})
    resources = {"requests": {RESOURCE: str(whole)}} if whole else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"resources": resources}]} | ({"nodeName": node} if node else {}),
        "status": {"phase": phase},
    }


SOUND = [
    pod("whole", "large", "0,2", whole=2),
    pod("half", "large", "1", fraction="0.5"),
    pod("other-half", "large", "1,3", fraction="0.5", number="2"),
    pod("third", "small", "0", memory="1333"),
    pod("thirds", "small", "0", memory="2667"),
    pod("other", "silent"),
    pod("waiting", whole=9),
    pod("over", "large", "0,1,2,3", whole=4, phase="Succeeded"),
]


def test_nothing_is_wrong_where_each_device_is_given_away_once_at_most() -> None:
    devices = Devices(NODES, SOUND)
    assert devices.violations() == []
    assert {node.name: devices.used(node.name) for node in NODES} == {
        "large": [1, 1, 1, Fraction(1, 2)],
        "small": [1, 0],
        "silent": [0],
    }


@pytest.mark.parametrize(
    ("planted", "violations"),
    [
        (
            [pod("late", "large", "3", fraction="0.501")],
            ["device 3 of large is given away 1001/1000 times: late 501/1000, other-half 1/2"],
        ),
        (
            [pod("late", "large", "3", whole=1)],
            ["device 3 of large is given away 3/2 times: late 1, other-half 1/2"],
        ),
        (
            [pod("late", "small", "0", memory="1")],
            ["device 0 of small is given away 4001/4000 times: late 1/4000, third 1333/4000, thirds 2667/4000"],
        ),
        (
            [pod("late", "silent", "0", memory="1")],
            ["device 0 of silent is given away 2 times: late 2"],
        ),
        (
            [pod("late", "small", "1", fraction="0.1"), pod("later", "small", "1", whole=1)],
            ["device 1 of small is given away 11/10 times: late 1/10, later 1"],
        ),
        (
            [pod("late", "silent", "1", whole=1)],
            ["pod late has device 1 of silent, which has 1"],
        ),
        (
            [pod("late", "small", "-1", fraction="0.5")],
            ["pod late has device -1 of small, which has 2"],
        ),
        (
            [pod("late", "small", fraction="0.5")],
            ["pod late asks for 1 devices and has [] of small"],
        ),
        (
            [pod("late", "small", "1,1", fraction="0.25", number="2")],
            ["pod late asks for 2 devices and has [1, 1] of small"],
        ),
        (
            [pod("late", "small", "1")],
            ["pod late asks for 0 devices and has [1] of small"],
        ),
        (
            [pod("late", "small", "1", whole=3)],
            [
                "pod late asks for 3 devices and has [1] of small",
                "pods on small request 3 nvidia.com/gpu, of which it has 2",
            ],
        ),
    ],
)
def test_what_is_given_away_twice_is_told(planted: list[dict[str, Any]], violations: list[str]) -> None:
    assert Devices(NODES, [*SOUND, *planted]).violations() == violations


@pytest.mark.parametrize(
    ("asking", "places"),
    [
        (pod("new", whole=1), ["small", "silent"]),
        (pod("new", whole=2), []),
        (pod("new", fraction="0.5"), ["large", "small", "silent"]),
        (pod("new", fraction="0.51"), ["small", "silent"]),
        (pod("new", fraction="0.5", number="2"), []),
        (pod("new", memory="4000"), ["large", "small"]),
        (pod("new", memory="4001"), []),
        (pod("new"), ["large", "small", "silent"]),
    ],
)
def test_where_a_pod_has_room_is_known(asking: dict[str, Any], places: list[str]) -> None:
    assert Devices(NODES, SOUND).places(asking) == places


def test_a_node_is_read_as_the_api_server_has_it() -> None:
    metadata: dict[str, Any] = {"name": "gpu-0", "labels": {MEMORY_LABEL: "81559"}}
    read = Node.of({"metadata": metadata, "status": {"allocatable": {"cpu": "8", RESOURCE: "8"}}})
    assert read == Node("gpu-0", 8, 81559)
    assert Node.of({"metadata": {"name": "cpu-0"}, "status": {"allocatable": {"cpu": "8"}}}) == Node("cpu-0", 0, 0)
