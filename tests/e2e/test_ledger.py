"""Two stock kube-schedulers, one extender, and a plugin that takes two pods on a node."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import yaml

from bench.controlplane import ControlPlane
from tests.e2e.stack import Stack, guest
from tests.manifests.overlay import WAKE_PODS

NODES = 8
PODS = 3 * NODES
"""Of which two thirds fit."""
SECOND = "second-scheduler"


def second_scheduler(stack: Stack, cluster: ControlPlane, folder: Path) -> ExitStack:
    """Another kube-scheduler, for pods that name it; the same extender."""
    configuration = yaml.safe_load(stack.scheduler_config.read_text())
    configuration["profiles"] = [{"schedulerName": SECOND}]
    file = folder / "second.yaml"
    file.write_text(yaml.safe_dump(configuration))
    ending = ExitStack()
    ending.callback(cluster.start_scheduler(file).stop)
    return ending


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
        with WAKE_PODS.applied(cluster), second_scheduler(stack, cluster, tmp_path):
            for at in range(PODS):
                stack.create_pod(f"pod-{at}", **({"schedulerName": SECOND} if at % 2 else {}))
            stack.wait_until(lambda: load(stack).total() >= NODES // 2, "placement of the first pods")
            os.kill(stack.extender.pid, signal.SIGKILL)
            stack.start_extender()
            stack.wait_until(lambda: load(stack).total() == 2 * NODES, "placement of all that fit", 120)
            left = [name for name in stack.pods() if name not in stack.placements()]
            stack.wait_until(lambda: all(is_full(stack, name) for name in left), "what is said of the others")
            bound = [name for name in stack.placements() if name.startswith("pod-")]
            stack.wait_until(lambda: states(stack) == dict.fromkeys(bound, "observed"), "the ledger")
            victim = bound[0]
            cluster.client.delete(f"/api/v1/namespaces/default/pods/{victim}").raise_for_status()
            stack.wait_until(lambda: len(set(stack.placements()) - set(bound)) == 1, "who takes the room", 120)
            assert load(stack).total() == 2 * NODES


def is_full(stack: Stack, name: str) -> bool:
    """Whether a pod's events say why it is on no node."""
    return any("2 pods are there" in message for message in stack.events(name, "FailedScheduling"))


def states(stack: Stack) -> dict[str, str]:
    """The state of each pod of the ledger."""
    pods = httpx.get(f"{stack.admin_url}/api/v1/ledger", trust_env=False).json()
    return {pod["name"]: pod["state"] for pod in pods}
