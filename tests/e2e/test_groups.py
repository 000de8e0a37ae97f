"""Groups of pods as a real API server has them: its own PodGroups, those of scheduler-plugins, labels alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.controlplane import ControlPlane
from extender.cluster.watch.groups import DISCOVERY_INTERVAL_S
from extender.scheduling.group_claim import LABEL, MINIMUM, OLD_LABEL
from tests.e2e.pod_groups import GROUPS
from tests.e2e.stack import Stack, guest

LABELLED = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
DEFINITION = Path(__file__).with_name("podgroup_crd.yaml").read_text()
FOUND_BY_S = 2 * DISCOVERY_INTERVAL_S
"""Seconds until the extender has looked again which APIs there are, on a busy machine too."""


@pytest.fixture
def stack(cluster: ControlPlane, identity: Path, tmp_path: Path) -> Iterator[Stack]:
    """An extender with the least rights, whose plugin wants to know groups."""
    cluster.create_nodes(2)
    with Stack(cluster, tmp_path, [guest("tell_groups", tmp_path)], identity) as running:
        yield running


def group(stack: Stack, name: str) -> dict[str, Any]:
    """What the admin API says of a group, its pods by name and state; nothing if there is none."""
    found: list[dict[str, Any]] = httpx.get(
        f"{stack.admin_url}/api/v1/groups", params={"name": name}, trust_env=False
    ).json()["items"]
    return {**found[0], "pods": {pod["name"]: pod["state"] for pod in found[0]["pods"]}} if found else {}


def described(stack: Stack, name: str) -> tuple[Any, ...]:
    """What names it, whether it has an object, minimum, timeout, priority and pods of a group."""
    keys = ("namedBy", "hasObject", "minimum", "timeoutSeconds", "priority", "pods")
    found = group(stack, name)
    return tuple(found[key] for key in keys) if found else ()


def has_logged(stack: Stack, line: str) -> bool:
    """Whether the guest has said so."""
    return line in stack.extender.log.read_text()


@pytest.mark.newest
def test_pod_groups_of_kubernetes(stack: Stack) -> None:
    client = stack.control_plane.client
    made = {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    stack.create_pod("train-0", schedulingGroup={"podGroupName": "train"})
    early = ("schedulingGroup", False, None, None, 0, {"train-0": "bound"})
    stack.wait_until(lambda: described(stack, "train") == early, "a pod whose PodGroup is not there yet")
    client.post(GROUPS, json=made).raise_for_status()
    known = ("schedulingGroup", True, 3, None, 0, {"train-0": "bound"})
    stack.wait_until(lambda: described(stack, "train") == known, "the PodGroup")
    stack.wait_until(lambda: has_logged(stack, "group of 3"), "what the guest was told of the group")
    stack.wait_until(lambda: has_logged(stack, "member is 1"), "what the guest was told of the pod")
    patch = {"Content-Type": "application/merge-patch+json"}
    smaller = b'{"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}'
    client.patch(f"{GROUPS}/train", content=smaller, headers=patch).raise_for_status()
    stack.wait_until(lambda: described(stack, "train")[2] == 2, "a smaller minimum")
    stack.wait_until(lambda: has_logged(stack, "group of 2"), "what the guest was told of that")
    client.delete(f"{GROUPS}/train").raise_for_status()
    stack.wait_until(lambda: described(stack, "train") == early, "the end of the PodGroup")
    client.delete("/api/v1/namespaces/default/pods/train-0", params={"gracePeriodSeconds": 0}).raise_for_status()
    stack.wait_until(lambda: described(stack, "train") == (), "the end of the group")


@pytest.mark.newest
@pytest.mark.timeout(300)  # A definition is looked for every DISCOVERY_INTERVAL_S.
def test_pod_groups_of_scheduler_plugins_whose_definition_comes_and_goes(stack: Stack) -> None:
    cluster = stack.control_plane
    stack.create_pod("batch-0", labels={LABEL: "batch", MINIMUM: "2"})
    stack.create_pod("batch-1", labels={OLD_LABEL: "batch"}, priority_class="system-node-critical")
    pods = {"batch-0": "bound", "batch-1": "bound"}
    alone = ("label", False, 2, None, 2_000_001_000, pods)
    stack.wait_until(lambda: described(stack, "batch") == alone, "a group that labels name")
    cluster.kubectl("apply", "-f", "-", stdin=DEFINITION)
    made = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "batch"},
        "spec": {"minMember": 4, "scheduleTimeoutSeconds": 60},
    }
    cluster.wait_until(lambda: cluster.client.post(LABELLED, json=made).is_success, "the definition")
    known = ("label", True, 4, 60, 2_000_001_000, pods)
    stack.wait_until(lambda: described(stack, "batch") == known, "the PodGroup", FOUND_BY_S)
    stack.wait_until(lambda: has_logged(stack, "group of 4"), "what the guest was told of the group")
    cluster.kubectl("delete", "-f", "-", stdin=DEFINITION)
    stack.wait_until(lambda: described(stack, "batch") == alone, "the end of the definition", FOUND_BY_S)
