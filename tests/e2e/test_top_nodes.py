"""A stock kube-scheduler gets the best nodes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.controlplane import ControlPlane
from tests.e2e.stack import Stack, guest

BEST = {"topNodes": 1}
HOST = "kubernetes.io/hostname"
APP = {"app": "web"}
SELECTOR = {"matchLabels": APP}
ROOM = {"cpu": "64", "memory": "256Gi", "pods": "21"}


def equal(folder: Path) -> dict[str, Any]:
    """A plugin for which all nodes are equally good."""
    return guest("score_from_config", folder, "50")


@pytest.mark.parametrize(
    "node_count",
    [
        pytest.param(10, id="short"),
        pytest.param(100, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(1800)]),
    ],
)
def test_pods_fill_nodes_evenly_and_none_is_refused(
    cluster: ControlPlane, identity: Path, tmp_path: Path, node_count: int
) -> None:
    """There are 20 pods for each node, of which each takes 21."""
    nodes = cluster.create_nodes(node_count, allocatable=ROOM, timeout=120)
    pods = [f"pod-{at}" for at in range(20 * node_count)]
    with Stack(cluster, tmp_path, [equal(tmp_path)], identity, profile=BEST) as stack:
        (extender,) = yaml.safe_load(stack.scheduler_config.read_text())["extenders"]
        assert {key for key in extender if key.endswith("Verb")} == {"filterVerb"}
        for name in pods:
            stack.create_pod(name)
        stack.wait_until(lambda: len(stack.placements()) == len(pods), "placement of all pods", 900)
        load = Counter(stack.placements().values())
        assert set(load) == set(nodes)
        assert max(load.values()) <= 1.1 * min(load.values()), load
        assert Counter(item["status"]["phase"] for item in stack.pods().values()).keys() <= {"Pending", "Running"}
        assert [message for name in pods for message in stack.events(name, "FailedScheduling")] == []


REQUIRED: Mapping[str, tuple[dict[str, Any], set[str]]] = {
    "anti-affinity": (
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": SELECTOR, "topologyKey": HOST}]
                }
            }
        },
        {"node-0", "node-1", "node-2", "node-3"},
    ),
    "topology-spread": (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
            ]
        },
        {"node-0", "node-1", "node-2", "node-3"},
    ),
}
"""What pods require, and the nodes onto which one of as many pods goes each, though the plugin prefers node-9."""


@pytest.mark.parametrize("name", REQUIRED)
def test_what_in_tree_plugins_require_holds(cluster: ControlPlane, identity: Path, tmp_path: Path, name: str) -> None:
    required, nodes = REQUIRED[name]
    cluster.create_nodes(len(nodes))
    with Stack(cluster, tmp_path, [guest("score_by_digit", tmp_path)], identity, profile=BEST) as stack:
        pods = [f"web-{at}" for at in range(len(nodes))]
        for pod in pods:
            stack.create_pod(pod, labels=APP, **required)
        stack.wait_until(lambda: len(stack.placements()) == len(pods), "placement of all pods")
        assert sorted(stack.placements().values()) == sorted(nodes)


def test_a_taint_keeps_pods_off_the_best_node(cluster: ControlPlane, identity: Path, tmp_path: Path) -> None:
    *_, best = cluster.create_nodes(5)
    taint = {"spec": {"taints": [{"key": "reserved", "effect": "NoSchedule"}]}}
    cluster.client.patch(
        f"/api/v1/nodes/{best}", json=taint, headers={"Content-Type": "application/merge-patch+json"}
    ).raise_for_status()
    with Stack(cluster, tmp_path, [guest("score_by_digit", tmp_path)], identity, profile=BEST) as stack:
        stack.create_pod("off")
        stack.create_pod("on", tolerations=[{"key": "reserved", "operator": "Exists"}])
        stack.wait_until(lambda: len(stack.placements()) == 2, "placement of both pods")
        assert stack.placements() == {"off": "node-3", "on": "node-4"}


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@pytest.fixture
def closed(cluster: ControlPlane) -> Iterator[str]:
    """A node to which the API server binds no pod, which kube-scheduler does not know."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    expression = {"expression": "object.target.name != 'node-9'", "message": "node-9 is closed"}
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [expression]}
    client, metadata = cluster.client, {"name": "closed"}
    client.post(POLICIES, json={"metadata": metadata, "spec": policy}).raise_for_status()
    binding = {"policyName": "closed", "validationActions": ["Deny"]}
    client.post(BINDINGS, json={"metadata": metadata, "spec": binding}).raise_for_status()
    yield "node-9"
    client.delete(f"{BINDINGS}/closed").raise_for_status()
    client.delete(f"{POLICIES}/closed").raise_for_status()


@pytest.mark.oldest
def test_a_pod_is_not_sent_for_ever_to_a_node_that_refuses_it(
    cluster: ControlPlane, closed: str, identity: Path, tmp_path: Path
) -> None:
    cluster.create_nodes(10)
    cluster.wait_until(lambda: is_closed(cluster, closed), "the policy")
    with Stack(cluster, tmp_path, [guest("score_by_digit", tmp_path)], identity, profile=BEST) as stack:
        stack.create_pod("refused")
        stack.wait_until(lambda: "refused" in stack.placements(), "placement")
        assert stack.placements() == {"refused": "node-8"}
        assert any(f"{closed} is closed" in message for message in stack.events("refused", "FailedScheduling"))


def is_closed(cluster: ControlPlane, node: str) -> bool:
    """Policies come into force some time after they are made."""
    binding = {"metadata": {"name": "nobody"}, "target": {"kind": "Node", "name": node}}
    answer = cluster.client.post("/api/v1/namespaces/default/pods/nobody/binding", json=binding)
    return f"{node} is closed" in answer.text


def test_with_more_nodes_in_tree_scores_decide_among_them(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """The plugin likes node-3 best and node-0 least; the pod prefers node-0 to node-1, and both to all others."""
    cluster.create_nodes(4)
    preferred = [prefer("node-0", 100), prefer("node-1", 50)]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    plugins = [guest("score_by_digit", tmp_path)]
    with Stack(cluster, tmp_path, plugins, identity, weight=1, profile={"topNodes": 3}) as stack:
        (extender,) = yaml.safe_load(stack.scheduler_config.read_text())["extenders"]
        assert {key for key in extender if key.endswith("Verb")} == {"filterVerb", "prioritizeVerb"}
        stack.create_pod("picky", affinity=affinity)
        stack.create_pod("easy")
        stack.wait_until(lambda: len(stack.placements()) == 2, "placement of both pods")
        assert stack.placements() == {"picky": "node-1", "easy": "node-3"}


def prefer(node: str, weight: int) -> dict[str, Any]:
    """A preference of a pod for a node."""
    expression = {"key": HOST, "operator": "In", "values": [node]}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}
