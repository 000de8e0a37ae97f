"""A stock kube-scheduler schedules pods through WebAssembly plugins."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from bench.controlplane import ControlPlane
from tests.e2e.recorder import Recorder
from tests.e2e.stack import EXAMPLES, Stack, example, guest

ACCELERATOR = "kwx.dev/accelerator"
WANTS_H100 = {ACCELERATOR: "h100"}
ALL_BUT_BIND = "aaaaafa"
"""What the guest `binding_from_config` is configured with to agree with everything and leave Bind to others."""
SMALL = {"cpu": "4", "memory": "8Gi", "pods": "10"}

both_shapes = pytest.mark.parametrize("full_nodes", [False, True], ids=["names", "full-nodes"])


@pytest.fixture(scope="module", autouse=True)
def priority_classes(control_plane: ControlPlane) -> None:
    for name, value in (("low", 10), ("urgent", 1000)):
        body = {"metadata": {"name": name}, "value": value}
        control_plane.client.post("/apis/scheduling.k8s.io/v1/priorityclasses", json=body)


def last_digit(name: str) -> str:
    return name[-1]


@pytest.mark.oldest
@both_shapes
def test_pods_land_where_the_scoring_guest_prefers(
    cluster: ControlPlane, identity: Path, tmp_path: Path, full_nodes: bool
) -> None:
    cluster.create_nodes(20)
    plugins = [example("accelerator"), example("nodenumber")]
    with Stack(cluster, tmp_path, plugins, identity, full_nodes) as stack:
        names = [f"pod-{at}" for at in range(60)]
        for name in names:
            stack.create_pod(name)
        stack.wait_until(lambda: len(stack.placements()) == len(names), "placement of 60 pods")
        misplaced = {pod: node for pod, node in stack.placements().items() if last_digit(pod) != last_digit(node)}
        assert misplaced == {}


@both_shapes
def test_a_pod_that_the_guest_rejects_everywhere_stays_pending_with_the_guests_reason(
    cluster: ControlPlane, identity: Path, tmp_path: Path, full_nodes: bool
) -> None:
    cluster.create_nodes(3)
    with Stack(cluster, tmp_path, [example("accelerator")], identity, full_nodes) as stack:
        stack.create_pod("picky", annotations=WANTS_H100)
        stack.create_pod("easy")
        stack.wait_until(lambda: bool(stack.events("picky", "FailedScheduling")), "a FailedScheduling event")
        stack.wait_until(lambda: "easy" in stack.placements(), "placement of the other pod")
        assert stack.events("picky", "FailedScheduling")[0].startswith(
            f"0/3 nodes are available: 3 node has no label {ACCELERATOR}=h100."
        )
        assert stack.pods()["picky"]["status"]["phase"] == "Pending"
        assert list(stack.placements()) == ["easy"]


@both_shapes
def test_a_high_priority_pod_preempts_on_the_only_node_that_the_guest_admits(
    cluster: ControlPlane, identity: Path, tmp_path: Path, full_nodes: bool
) -> None:
    for at in range(4):
        labels = WANTS_H100 if at == 2 else {}
        cluster.create_nodes(
            1, name=f"node-{at}", labels=labels, allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"}
        )
    with Stack(cluster, tmp_path, [example("accelerator")], identity, full_nodes) as stack:
        victims = [f"batch-{at}" for at in range(4)]
        for name in victims:
            stack.create_pod(name, requests={"cpu": "3"}, priority_class="low")
        stack.wait_until(lambda: len(stack.placements()) == len(victims), "placement of the victims")
        before = stack.placements()
        stack.create_pod("urgent", annotations=WANTS_H100, requests={"cpu": "3"}, priority_class="urgent")
        stack.wait_until(lambda: "urgent" in stack.placements(), "placement of the preemptor")
        survivors = {name: node for name, node in before.items() if node != "node-2"}
        assert stack.placements() == {**survivors, "urgent": "node-2"}


@pytest.mark.oldest
@both_shapes
def test_every_verb_goes_through_the_extender(
    cluster: ControlPlane, identity: Path, tmp_path: Path, full_nodes: bool
) -> None:
    cluster.create_nodes(2, allocatable=SMALL)
    plugins = [example("accelerator"), example("nodenumber"), guest("binding_from_config", tmp_path, ALL_BUT_BIND)]
    stack = Stack(cluster, tmp_path, plugins, identity, full_nodes)
    recorder = Recorder(stack.url)
    stack.proxy = recorder.url
    with recorder.running(), stack:
        for name in ("low-0", "low-1"):
            created = stack.create_pod(name, requests={"cpu": "3"}, priority_class="low")
        stack.wait_until(lambda: len(stack.placements()) == 2, "placement of two pods")
        stack.create_pod("urgent-1", requests={"cpu": "3"}, priority_class="urgent")
        stack.wait_until(lambda: "urgent-1" in stack.placements(), "placement of the preemptor")
        binding = [msgspec.json.decode(body) for body in recorder.bodies("bind", "low-1")]
        assert binding == [
            {
                "PodName": "low-1",
                "PodNamespace": "default",
                "PodUID": created["metadata"]["uid"],
                "Node": "node-1",
            }
        ]
        seen = {verb: len(recorder.bodies(verb, "low-0")) for verb in ("filter", "prioritize", "bind")}
        assert seen == {"filter": 1, "prioritize": 1, "bind": 1}
        assert recorder.bodies("preempt", "urgent-1")
        request = msgspec.json.decode(recorder.bodies("filter", "low-1")[0])
        assert (request["Nodes"] is None, request["NodeNames"] is None) == (not full_nodes, full_nodes)


@both_shapes
def test_no_pod_is_lost_while_the_extender_is_away(
    cluster: ControlPlane, identity: Path, tmp_path: Path, full_nodes: bool
) -> None:
    cluster.create_nodes(10)
    with Stack(cluster, tmp_path, [example("accelerator"), example("nodenumber")], identity, full_nodes) as stack:
        for at in range(10):
            stack.create_pod(f"early-{at}")
        # kube-scheduler does without prioritize where it has no answer, so that a pod between two verbs goes anywhere.
        stack.wait_until(lambda: len(stack.placements()) == 10, "placement of the early pods")
        stack.extender.stop()
        for at in range(10):
            stack.create_pod(f"late-{at}")
        stack.wait_until(lambda: bool(stack.events("late-0", "FailedScheduling")), "a failed attempt")
        assert not any(name.startswith("late") for name in stack.placements())
        stack.start_extender()
        stack.wait_until(lambda: len(stack.placements()) == 20, "placement of all pods", timeout=120)
        assert {pod: last_digit(node) for pod, node in stack.placements().items()} == {
            pod: last_digit(pod) for pod in stack.pods()
        }


@pytest.mark.oldest
def test_a_swapped_module_decides_over_the_next_pod(cluster: ControlPlane, identity: Path, tmp_path: Path) -> None:
    cluster.create_nodes(2)
    module = tmp_path / "policy.wasm"
    shutil.copyfile(EXAMPLES / "nodenumber.wasm", module)
    with Stack(cluster, tmp_path, [{"name": "policy", "guestURL": "file://./policy.wasm"}], identity) as stack:
        stack.create_pod("before-1")
        stack.wait_until(lambda: "before-1" in stack.placements(), "placement before the swap")
        old = stack.live()
        beside = tmp_path / "new.wasm"
        shutil.copyfile(EXAMPLES / "nodenumber_reversed.wasm", beside)
        beside.replace(module)
        stack.wait_until(lambda: stack.live() != old, "the swap")
        stack.create_pod("after-1")
        stack.wait_until(lambda: "after-1" in stack.placements(), "placement after the swap")
        assert stack.placements() == {"before-1": "node-1", "after-1": "node-0"}
