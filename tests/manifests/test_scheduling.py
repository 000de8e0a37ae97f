"""The KubeSchedulerConfiguration of each overlay fits its extender, and both work under its identities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.controlplane import ControlPlane
from tests.e2e.stack import guest, pod

from .overlay import BIND, MANIFESTS, NAMESPACE, SERVICE, SIDECAR, Overlay
from .pair import Pair, issue, show_certificate

ACCELERATOR = "kwx.dev/accelerator"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
SERVICE_URL = f"https://kwx-extender.{NAMESPACE}.svc:8888"
PERMIT_REJECTS = "aaa2aaa"
"""What the guest `binding_from_config` is configured with to say no in Permit, and yes elsewhere."""


@pytest.mark.oldest
def test_the_scheduler_accepts_its_configuration(cluster: ControlPlane, overlay: Overlay, tmp_path: Path) -> None:
    content = overlay.load("scheduler.yaml")
    content["clientConnection"] = {"kubeconfig": str(cluster.kubeconfig("scheduler"))}
    issue(tmp_path)
    show_certificate(content["extenders"][0], tmp_path)
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(content))
    assert cluster.scheduler_config_errors(file) == ""
    content["extenders"][0]["filterverb"] = "filter"
    file.write_text(yaml.safe_dump(content))
    assert "strict decoding error: unknown field" in cluster.scheduler_config_errors(file)


def test_the_configuration_is_what_the_command_line_prints(
    control_plane: ControlPlane, overlay: Overlay, tmp_path: Path
) -> None:
    options = ["--url=http://127.0.0.1:8888"] if overlay is SIDECAR else [f"--url={SERVICE_URL}", "--ignorable"]
    printed = Pair(overlay, control_plane, tmp_path).print_scheduler_config(*options)
    if overlay is SIDECAR:
        printed["leaderElection"] |= {"resourceNamespace": NAMESPACE, "resourceName": "kwx-scheduler"}
        printed["extenders"][0]["bindVerb"] = "bind"  # For what a swap may bring.
    assert overlay.load("scheduler.yaml") == printed


def test_no_configuration_lets_the_scheduler_bind_what_the_extender_refuses_to_bind() -> None:
    configurations = [
        content
        for file in MANIFESTS.rglob("*.yaml")
        for content in yaml.safe_load_all(file.read_text())
        if isinstance(content, dict) and content["kind"] == "KubeSchedulerConfiguration"
    ]
    assert len(configurations) == len([SERVICE, SIDECAR])
    extenders = [extender for content in configurations for extender in content["extenders"]]
    assert [extender for extender in extenders if extender["ignorable"] and "bindVerb" in extender] == []


def pod_of(overlay: Overlay, **changes: Any) -> dict[str, Any]:
    """A pod that the overlay's scheduler is to place."""
    wish = pod("web-0", **changes)
    wish["spec"]["schedulerName"] = overlay.load("scheduler.yaml")["profiles"][0]["schedulerName"]
    return wish


@pytest.mark.oldest
def test_a_pod_is_scheduled_where_a_guest_says(cluster: ControlPlane, overlay: Overlay, tmp_path: Path) -> None:
    cluster.create_nodes(3)
    labels = {"metadata": {"labels": {ACCELERATOR: "h100"}}}
    patch = {"Content-Type": "application/merge-patch+json"}
    cluster.client.patch("/api/v1/nodes/node-1", json=labels, headers=patch).raise_for_status()
    wish = pod_of(overlay, annotations={ACCELERATOR: "h100"})
    with Pair(overlay, cluster, tmp_path) as pair:
        cluster.client.post(PODS, json=wish).raise_for_status()
        cluster.wait_until(
            lambda: "nodeName" in cluster.client.get(f"{PODS}/web-0").json()["spec"], "placement of a pod"
        )
        assert cluster.client.get(f"{PODS}/web-0").json()["spec"]["nodeName"] == "node-1"
        assert "forbidden" not in pair.scheduler.log.read_text()
        if overlay is SIDECAR:
            lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kwx-scheduler"
            assert cluster.client.get(lease).json()["spec"]["holderIdentity"]


def test_a_pod_that_permit_rejects_stays_pending(cluster: ControlPlane, overlay: Overlay, tmp_path: Path) -> None:
    """The scheduler does not bind it by itself, whatever the overlay says of an extender that fails."""
    cluster.create_nodes(2)
    gate = guest("binding_from_config", tmp_path, PERMIT_REJECTS)
    with BIND.applied(cluster), Pair(overlay, cluster, tmp_path, [gate]):
        cluster.client.post(PODS, json=pod_of(overlay)).raise_for_status()

        def failures() -> list[str]:
            found = cluster.client.get(EVENTS, params={"fieldSelector": "reason=FailedScheduling"}).json()["items"]
            return [event["message"] for event in found]

        def spec() -> dict[str, Any]:
            found: dict[str, Any] = cluster.client.get(f"{PODS}/web-0").json()["spec"]
            return found

        cluster.wait_until(lambda: bool(failures()) or "nodeName" in spec(), "an attempt to schedule the pod")
        assert "nodeName" not in spec()
        assert failures()[0] == "plugin binding_from_config: permit: Unschedulable: not today"
