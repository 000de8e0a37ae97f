"""Faults of a cluster that are planted one by one, and what docs/troubleshooting.md says that shows of them."""

from __future__ import annotations

from pathlib import Path

import yaml

from bench.controlplane import ControlPlane
from tests.e2e.stack import pod
from tests.e2e.witness import PODS
from tests.extender.commands.command import Command
from tests.extender.commands.doctor.setup import ENTRY, SCHEDULER
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.troubleshooting.page import check
from tests.manifests.overlay import SERVICE


def test_a_right_is_missing(command: Command, control_plane: ControlPlane, tmp_path: Path) -> None:
    """The account is there, and nobody has bound its role."""
    kubeconfig = SERVICE.identity(control_plane)
    control_plane.kubectl("delete", "clusterrolebinding", "kwx-extender")
    section = {"mode": "kubeconfig", "kubeconfig": str(kubeconfig)}
    with Extender(tmp_path, profile("default", plugin("accelerator")), cluster=section) as extender:
        check("A right is missing", command, extender.admin_url, tmp_path)


def test_kube_scheduler_never_asks(command: Command, cluster: ControlPlane, tmp_path: Path) -> None:
    """It was not restarted after its configuration got the extender."""
    cluster.create_nodes(2)
    client = {"clientConnection": {"kubeconfig": str(cluster.kubeconfig("scheduler"))}}
    entry = {**ENTRY, "bindVerb": None, "prioritizeVerb": None, "httpTimeout": "5s"}
    profiles = [{"schedulerName": "default-scheduler"}]
    wanted = {**SCHEDULER, **client, "leaderElection": {"leaderElect": False}, "profiles": profiles}
    (tmp_path / "scheduler.yaml").write_text(yaml.safe_dump(wanted | {"extenders": [entry]}))
    (tmp_path / "silent.yaml").write_text(yaml.safe_dump(wanted | {"extenders": []}))
    section = {"mode": "kubeconfig", "kubeconfig": str(SERVICE.identity(cluster))}
    spread = plugin("filter_by_digit", "72no sevens", name="spread")
    with Extender(tmp_path, profile("default-scheduler", spread), cluster=section) as extender:
        scheduler = cluster.start_scheduler(tmp_path / "silent.yaml")
        try:
            cluster.client.post(PODS, json=pod("web-7")).raise_for_status()
            admin = f"--kubeconfig={cluster.kubeconfig()}"
            check("kube-scheduler never asks", command, extender.admin_url, tmp_path, admin)
        finally:
            scheduler.stop()
