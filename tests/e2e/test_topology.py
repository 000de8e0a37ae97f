"""Stock kube-schedulers place groups of pods by topology: in one rack, or in as few as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from bench.controlplane import ControlPlane
from tests.e2e import pod_groups
from tests.e2e.gangs import SERVER
from tests.e2e.gpu_pods import gpu_pack
from tests.e2e.stack import Stack
from tests.e2e.witness import Pods, Witness, has_node
from tests.manifests.overlay import WAKE_PODS

POLICIES: Final = Path(__file__).parents[2] / "extender" / "policies"
PLANS: Final = {"topNodes": 1}
GROUP: Final = "scheduling.x-k8s.io/pod-group"
MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"

CPUS: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
DEVICES: Final = {**CPUS, "nvidia.com/gpu": "4"}


def topology(**more: Any) -> dict[str, Any]:
    """The plugin, with racks in blocks."""
    settings = {"levels": ["block", "rack"], **more.pop("settings", {})}
    return {"name": "topology", "guestURL": f"file://{POLICIES}/topology.wasm", "guestConfig": settings, **more}


def create_racks(cluster: ControlPlane, allocatable: dict[str, str], **racks: int) -> None:
    """Racks of so many nodes, all in one block."""
    for rack, count in racks.items():
        labels = {"block": "x", "rack": rack}
        cluster.create_nodes(count, name=f"{rack}-{{}}", labels=labels, allocatable=allocatable)


def rack_of(pod: dict[str, Any]) -> str:
    """Where a pod is that has a node."""
    return str(pod["spec"]["nodeName"].partition("-")[0])


def racks(pods: Pods, group: str) -> Counter[str]:
    """How many pods of a group are in each rack."""
    return Counter(rack_of(pod) for name, pod in pods.items() if name.startswith(f"{group}-") and has_node(pod))


def torn(pods: Pods) -> list[str]:
    """The groups that are in several racks and asked for one."""
    groups = {name.rpartition("-")[0] for name, pod in pods.items() if REQUIRED in pod["metadata"]["annotations"]}
    return [f"{group} is in several racks: {found}" for group in groups if len(found := racks(pods, group)) > 1]


def members(stack: Stack, group: str, count: int, asks: str, requests: dict[str, str], **spec: Any) -> list[str]:
    """Creates all pods of a group, which ask for a rack; their names."""
    named = {} if "schedulingGroup" in spec else {GROUP: group, MINIMUM: str(count)}
    names = [f"{group}-{at}" for at in range(count)]
    for name in names:
        stack.create_pod(name, labels=named, annotations={asks: "rack"}, requests=requests, limits=requests, **spec)
    return names


def rejected(stack: Stack, name: str, reason: str) -> bool:
    """Whether kube-scheduler has said so of a pod."""
    return any(reason in said for said in stack.events(name, "FailedScheduling"))


def delete(cluster: ControlPlane, names: list[str]) -> None:
    """Ends pods."""
    for name in names:
        path, query = f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0}
        cluster.client.delete(path, params=query).raise_for_status()


@pytest.fixture
def witness(cluster: ControlPlane) -> Iterator[Witness]:
    """Sees that no group is torn that requires a rack."""
    yield Witness(cluster, torn)


@pytest.mark.oldest
def test_a_gang_gets_the_fullest_rack_that_fits_or_waits_as_a_whole_or_takes_the_fewest(
    cluster: ControlPlane, identity: Path, tmp_path: Path, witness: Witness
) -> None:
    """Racks have room for 16, 24 and 8 pods."""
    create_racks(cluster, CPUS, a=2, b=3, c=1)
    cpu = {"cpu": "1"}
    with Stack(cluster, tmp_path, [topology()], identity, profile=PLANS) as stack, witness.watching():
        first = members(stack, "first", 16, REQUIRED, cpu)
        witness.wait_until(lambda pods: racks(pods, "first") == {"a": 16}, "the first gang in rack a", 60)
        members(stack, "second", 16, REQUIRED, cpu)
        witness.wait_until(lambda pods: racks(pods, "second") == {"b": 16}, "the second gang in rack b", 60)

        third = members(stack, "third", 16, REQUIRED, cpu)
        reason = "no rack has room for the 16 pods that the group needs; the most is 8"
        stack.wait_until(lambda: all(rejected(stack, name, reason) for name in third), "rejections of the third gang")
        assert racks(witness.pods, "third") == {}
        members(stack, "fourth", 14, PREFERRED, cpu)
        spread = {"b": 8, "c": 6}
        witness.wait_until(lambda pods: racks(pods, "fourth") in (spread, {"c": 8, "b": 6}), "the fourth in two", 60)

        delete(cluster, first)
        witness.wait_until(lambda pods: racks(pods, "third") == {"a": 16}, "the third gang where the first was", 90)
    assert witness.judged == 62


@pytest.mark.oldest
def test_topology_chooses_the_rack_and_gpu_pack_the_node(
    cluster: ControlPlane, identity: Path, tmp_path: Path, witness: Witness
) -> None:
    create_racks(cluster, DEVICES, a=2, b=2)
    plugins = [gpu_pack(), topology(settings={"nodePolicy": "none"}, weight=5)]
    with Stack(cluster, tmp_path, plugins, identity, profile=PLANS) as stack, witness.watching():
        members(stack, "six", 6, REQUIRED, {"nvidia.com/gpu": "1"})
        witness.wait_until(lambda pods: racks(pods, "six") == {"a": 6}, "the larger gang in rack a", 60)
        members(stack, "four", 4, REQUIRED, {"nvidia.com/gpu": "1"})
        witness.wait_until(lambda pods: racks(pods, "four") == {"b": 4}, "the smaller gang in rack b", 60)
    nodes = Counter(pod["spec"]["nodeName"] for pod in witness.pods.values())
    assert sorted(nodes.values()) == [2, 4, 4]


@pytest.mark.oldest
def test_a_gang_that_finds_no_rack_begins_when_one_is_free(
    cluster: ControlPlane, identity: Path, tmp_path: Path, witness: Witness
) -> None:
    """Racks have room for 8 pods of one GPU each. The third gang runs as a whole when the first is gone."""
    create_racks(cluster, DEVICES, a=2, b=2)
    gang = {"name": "gang", "guestURL": f"file://{POLICIES}/gang.wasm"}
    plugins = [gpu_pack(), topology(settings={"nodePolicy": "none"}, weight=8), gang]
    gpu = {"nvidia.com/gpu": "1"}
    with (
        Stack(cluster, tmp_path, plugins, identity, profile=PLANS, server=SERVER) as stack,
        WAKE_PODS.applied(cluster),
        witness.watching(),
    ):
        first = members(stack, "first", 6, REQUIRED, gpu)
        witness.wait_until(lambda pods: racks(pods, "first") == {"a": 6}, "the first gang in rack a", 60)
        members(stack, "second", 6, REQUIRED, gpu)
        witness.wait_until(lambda pods: racks(pods, "second") == {"b": 6}, "the second gang in rack b", 60)
        third = members(stack, "third", 6, REQUIRED, gpu)
        reason = "no rack has room for the 6 pods that the group needs; the most is 2"
        stack.wait_until(lambda: all(rejected(stack, name, reason) for name in third), "rejections of the third gang")
        delete(cluster, first)
        witness.wait_until(lambda pods: racks(pods, "third") == {"a": 6}, "the third gang where the first was", 90)
    assert witness.judged == 18


@pytest.mark.newest
def test_a_gang_that_kube_scheduler_places_as_a_whole_gets_one_rack(
    cluster: ControlPlane, identity: Path, tmp_path: Path, witness: Witness
) -> None:
    create_racks(cluster, CPUS, a=1, b=2)
    flags = pod_groups.SCHEDULER_FLAGS
    with (
        Stack(cluster, tmp_path, [topology()], identity, profile=PLANS, scheduler_flags=flags) as stack,
        witness.watching(),
        pod_groups.created(cluster, "large", 12) as large,
        pod_groups.created(cluster, "larger", 12) as larger,
    ):
        members(stack, "large", 12, REQUIRED, {"cpu": "1"}, **large)
        witness.wait_until(lambda pods: racks(pods, "large") == {"b": 12}, "the gang in rack b", 60)
        names = members(stack, "larger", 12, REQUIRED, {"cpu": "1"}, **larger)
        stack.wait_until(lambda: pod_groups.verdict(cluster, "larger") == ("False", "Unschedulable"), "a verdict")
        assert not any(has_node(witness.pods[name]) for name in names)
