"""Two stock kube-schedulers, one extender, and a plugin that takes two pods on a node."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from bench.controlplane import ControlPlane
from tests.e2e.faulty_binds import FaultyBinds
from tests.e2e.stack import SECOND_SCHEDULER, Stack, guest
from tests.e2e.witness import Pods, Witness, has_node
from tests.manifests.overlay import WAKE_PODS

NODES = 8
PODS = 3 * NODES
"""Of which two thirds fit."""


def load(stack: Stack) -> Counter[str]:
    """The pods of each node, as the API server has them: never more than the plugin takes."""
    pods = Counter(stack.placements().values())
    assert max(pods.values(), default=0) <= 2, pods
    return pods


@pytest.mark.oldest
@pytest.mark.parametrize("top_nodes", [1, None])
def test_no_room_is_given_away_twice_by_two_schedulers_and_over_a_restart(
    cluster: ControlPlane, identity: Path, tmp_path: Path, top_nodes: int | None
) -> None:
    cluster.create_nodes(NODES)
    profile = {"topNodes": top_nodes} if top_nodes else {}
    plugins = [guest("packs_two", tmp_path)]
    with Stack(cluster, tmp_path, plugins, identity, profile=profile) as stack:
        (extender,) = yaml.safe_load(stack.scheduler_config.read_text())["extenders"]
        assert extender["bindVerb"] == "bind"
        with WAKE_PODS.applied(cluster):
            stack.start_second_scheduler()
            for at in range(PODS):
                stack.create_pod(f"pod-{at}", **({"schedulerName": SECOND_SCHEDULER} if at % 2 else {}))
            stack.wait_until(lambda: load(stack).total() >= NODES // 2, "placement of the first pods")
            stack.crash_extender()
            stack.wait_until(lambda: load(stack).total() == 2 * NODES, "placement of all that fit", 120)
            left = [name for name in stack.pods() if name not in stack.placements()]
            stack.wait_until(lambda: all(is_full(stack, name) for name in left), "what is said of the others")
            bound = [name for name in stack.placements() if name.startswith("pod-")]
            stack.wait_until(lambda: stack.ledger() == dict.fromkeys(bound, "observed"), "the ledger")
            victim = bound[0]
            cluster.client.delete(f"/api/v1/namespaces/default/pods/{victim}").raise_for_status()
            stack.wait_until(lambda: len(set(stack.placements()) - set(bound)) == 1, "who takes the room", 120)
            assert load(stack).total() == 2 * NODES


def is_full(stack: Stack, name: str) -> bool:
    """Whether a pod's events say why it is on no node."""
    return any("2 pods are there" in message for message in stack.events(name, "FailedScheduling"))


@pytest.mark.oldest
def test_no_room_is_given_away_twice_while_binds_fail_and_the_extender_crashes(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """Half of the pods meet faults when they are bound. Those that fit are bound all the same."""
    cluster.create_nodes(3 * NODES)
    witness, binds = Witness(cluster, full_nodes), FaultyBinds(cluster, seed=1, share=0.5)
    with ExitStack() as cleanup:
        kubeconfig = cleanup.enter_context(binds.serving(identity, tmp_path))
        plugins = [guest("packs_two", tmp_path)]
        stack = cleanup.enter_context(Stack(cluster, tmp_path, plugins, kubeconfig, profile={"topNodes": 1}))
        cleanup.enter_context(WAKE_PODS.applied(cluster))
        cleanup.enter_context(witness.watching())
        stack.start_second_scheduler()
        for at in range(3 * PODS):
            stack.create_pod(f"pod-{at}", **({"schedulerName": SECOND_SCHEDULER} if at % 2 else {}))
        witness.wait_until(lambda pods: len(bound(pods)) >= NODES, "placement of the first pods", 60)
        stack.crash_extender()
        witness.wait_until(lambda pods: len(bound(pods)) == 6 * NODES, "placement of all that fit", 100)
        stack.wait_until(lambda: stack.ledger() == dict.fromkeys(bound(witness.pods), "observed"), "the ledger")
    assert witness.judged == 6 * NODES
    assert binds.met


def bound(pods: Pods) -> list[str]:
    """The pods that have a node."""
    return [name for name, pod in pods.items() if has_node(pod)]


def full_nodes(pods: Pods) -> list[str]:
    """What is wrong: the nodes with more pods than the plugin takes."""
    load = Counter(pod["spec"]["nodeName"] for pod in pods.values() if has_node(pod))
    return [f"{node} has {number} pods" for node, number in load.items() if number > 2]


DEVICE = "example.com/device"
DEVICES = ["0", "1"]


@pytest.mark.oldest
def test_devices_that_are_chosen_at_the_bind_are_on_the_pods_and_outlive_the_extender(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """Of a node's two devices each of its pods has one, by an annotation."""
    nodes = cluster.create_nodes(2)
    plugins = [guest("shares_devices", tmp_path)]
    with Stack(cluster, tmp_path, plugins, identity) as stack, WAKE_PODS.applied(cluster):
        stack.start_second_scheduler()
        for at in range(2 * len(nodes)):
            annotations = {DEVICE: "none", "example.com/kept": "yes"} if at == 0 else {}
            scheduler = {"schedulerName": SECOND_SCHEDULER} if at % 2 else {}
            stack.create_pod(f"pod-{at}", annotations=annotations, **scheduler)
        stack.wait_until(lambda: len(devices(stack)) == 2 * len(nodes), "a device for each pod", 120)
        assert sorted(devices(stack).values()) == [(node, device) for node in sorted(nodes) for device in DEVICES]
        assert stack.pods()["pod-0"]["metadata"]["annotations"]["example.com/kept"] == "yes"
        stack.crash_extender()
        freed = devices(stack)["pod-0"]
        cluster.client.delete("/api/v1/namespaces/default/pods/pod-0").raise_for_status()
        stack.create_pod("late")
        stack.wait_until(lambda: devices(stack).get("late") == freed, "the device that was freed", 120)


def devices(stack: Stack) -> dict[str, tuple[str, str]]:
    """The node and the device of each pod that is bound, as the API server has it."""
    bound = {name: pod for name, pod in stack.pods().items() if "nodeName" in pod["spec"]}
    return {name: (pod["spec"]["nodeName"], pod["metadata"]["annotations"][DEVICE]) for name, pod in bound.items()}
