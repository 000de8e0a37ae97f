"""The component that runs two pods of an overlay, and two pods of the sidecar that elect a leader."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import yaml

from bench.controlplane import ControlPlane
from tests.patience import PATIENCE_S

from .overlay import NAMESPACE, REPLICAS, SIDECAR, Overlay
from .pair import Pair
from .test_scheduling import PODS, pod_of

REPLICATED = {"kwx.dev/replicated": "true"}
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kwx-scheduler"


def test_it_runs_two_pods_and_never_takes_both_away(
    control_plane: ControlPlane, overlay: Overlay, tmp_path: Path
) -> None:
    overlay.identity(control_plane)  # Makes the namespace.
    objects = {each["kind"]: each for each in overlay.with_component(REPLICAS, control_plane, tmp_path)}
    deployment, budget = objects["Deployment"]["spec"], objects["PodDisruptionBudget"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert deployment["template"]["metadata"]["labels"].items() >= REPLICATED.items()
    assert budget["metadata"]["namespace"] == NAMESPACE
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": REPLICATED}}
    apply = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    for each in (objects["Deployment"], budget):
        answer = control_plane.kubectl(*apply, stdin=yaml.safe_dump(each))
        assert (answer.count("server dry run"), "Warning" in answer) == (1, False)


@pytest.mark.oldest
def test_the_second_pod_of_the_sidecar_goes_on_when_the_first_is_taken_away(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """As in a rolling update: the first gives its Lease back at its end."""
    cluster.create_nodes(2)
    cluster.client.delete(LEASE)
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = (Pair(SIDECAR, cluster, folder, server={"replicas": "standby"}) for folder in folders)
    with ExitStack() as until_then, ExitStack() as always:
        until_then.enter_context(first)
        cluster.wait_until(lambda: bool(holder(cluster)), "a leader", PATIENCE_S)
        always.enter_context(second)
        leader = holder(cluster)
        assert served(first) == served(second) != ""
        schedule(cluster, "web-0")
        assert holder(cluster) == leader
        until_then.close()
        cluster.wait_until(lambda: holder(cluster) not in {"", leader}, "another leader", PATIENCE_S)
        schedule(cluster, "web-1")


def holder(cluster: ControlPlane) -> str:
    """Who has the Lease."""
    return str(cluster.client.get(LEASE).json().get("spec", {}).get("holderIdentity") or "")


def served(pair: Pair) -> str:
    """Which revisions a replica says that it serves."""
    lines = httpx.get(f"{pair.admin_url}/readyz", params={"verbose": ""}, trust_env=False).text.splitlines()
    return next(line for line in lines if line.startswith("[+]replicas ok: standby; "))


def schedule(cluster: ControlPlane, name: str) -> None:
    """Returns when a pod has a node."""
    wish = pod_of(SIDECAR)
    wish["metadata"]["name"] = name
    cluster.client.post(PODS, json=wish).raise_for_status()
    cluster.wait_until(
        lambda: "nodeName" in cluster.client.get(f"{PODS}/{name}").json()["spec"], f"a node for {name}", PATIENCE_S
    )
