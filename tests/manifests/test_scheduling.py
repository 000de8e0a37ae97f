"""The KubeSchedulerConfiguration of each overlay fits its extender, and both work under its identities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bench.controlplane import ControlPlane
from tests.e2e.stack import pod

from .overlay import NAMESPACE, SERVICE, SIDECAR, Overlay
from .pair import Pair

ACCELERATOR = "kwx.dev/accelerator"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane without leftovers."""
    control_plane.clear()
    yield control_plane
    control_plane.clear()


def test_the_scheduler_accepts_its_configuration(control_plane: ControlPlane, overlay: Overlay, tmp_path: Path) -> None:
    content = overlay.load("scheduler.yaml")
    content["clientConnection"] = {"kubeconfig": str(control_plane.kubeconfig("scheduler"))}
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(content))
    assert control_plane.scheduler_config_errors(file) == ""
    content["extenders"][0]["filterverb"] = "filter"
    file.write_text(yaml.safe_dump(content))
    assert "strict decoding error: unknown field" in control_plane.scheduler_config_errors(file)


def test_the_configuration_is_what_the_command_line_prints(
    control_plane: ControlPlane, overlay: Overlay, tmp_path: Path
) -> None:
    printed = Pair(overlay, control_plane, tmp_path).print_scheduler_config()
    written = overlay.load("scheduler.yaml")
    # Where the extender is, whose lease it is, and what follows an outage: the overlay's own decisions.
    for content in printed, written:
        del content["extenders"][0]["urlPrefix"], content["extenders"][0]["ignorable"]
        assert content.pop("leaderElection")["leaderElect"]
    assert written == printed


def test_the_scheduler_finds_the_extender(overlay: Overlay) -> None:
    (extender,) = overlay.load("scheduler.yaml")["extenders"]
    host = "127.0.0.1" if overlay is SIDECAR else f"kwx-extender.{NAMESPACE}.svc"
    assert extender["urlPrefix"] == f"http://{host}:8888"
    # A scheduler that must place the extender's own pod has to do without it.
    assert extender["ignorable"] is (overlay is SERVICE)


def test_a_pod_is_scheduled_where_a_guest_says(cluster: ControlPlane, overlay: Overlay, tmp_path: Path) -> None:
    cluster.create_nodes(3)
    labels = {"metadata": {"labels": {ACCELERATOR: "h100"}}}
    patch = {"Content-Type": "application/merge-patch+json"}
    cluster.client.patch("/api/v1/nodes/node-1", json=labels, headers=patch).raise_for_status()
    wish = pod("web-0", annotations={ACCELERATOR: "h100"})
    wish["spec"]["schedulerName"] = overlay.load("scheduler.yaml")["profiles"][0]["schedulerName"]
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
