"""`kwx doctor` about the manifests as shipped on a real control plane, and about faults that are planted there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.controlplane import ControlPlane
from tests.e2e.stack import KWX, pod

from .overlay import NAMESPACE, SERVICE, SIDECAR, Overlay
from .pair import Pair

PODS = "/api/v1/namespaces/default/pods"
NEEDLESS = {
    "check": "verb-needless",
    "severity": "info",
    "message": "extenders[0].bindVerb is set, and no plugin has a say in bind: each call is in vain",
    "mend": "leave out bindVerb, unless a swap may bring a plugin that needs it",
}
"""The sidecar asks for bind, for plugins that a swap may bring."""

Edit = Callable[[dict[str, Any]], object]


@contextmanager
def applied(cluster: ControlPlane, overlay: Overlay, scheduler: Mapping[str, Any], edit: Edit) -> Iterator[None]:
    """All objects of an overlay are there, with this KubeSchedulerConfiguration in the ConfigMap that has one."""
    objects = [each for each in overlay.objects(cluster) if each["kind"] != "Namespace"]
    for each in objects:
        if "scheduler.yaml" in each.get("data", ()):
            each["data"]["scheduler.yaml"] = yaml.safe_dump(scheduler)
        edit(each)
    stdin = yaml.safe_dump_all(objects)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=stdin)
    try:
        yield
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=stdin)


def doctor(cluster: ControlPlane, pair: Pair, *options: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit status and report of the command, as an administrator of the cluster runs it."""
    command: list[str | Path] = [KWX, "doctor", "--output=json", f"--server={pair.admin_url}"]
    command += [f"--kubeconfig={cluster.kubeconfig()}", *options]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert answer.stderr == ""
    report: dict[str, Any] = json.loads(answer.stdout)
    return answer.returncode, report


def ids(report: Mapping[str, Any], severity: str) -> list[str]:
    """The checks that found something."""
    return [each["check"] for each in report["findings"] if each["severity"] == severity]


def scheduler_of(folder: Path) -> dict[str, Any]:
    """The configuration that a pair's kube-scheduler has."""
    content: dict[str, Any] = yaml.safe_load((folder / "scheduler.yaml").read_text())
    return content


def schedule(cluster: ControlPlane, name: str, scheduler: str) -> None:
    """Has a pod scheduled."""
    wish = pod(name)
    wish["spec"]["schedulerName"] = scheduler
    cluster.client.post(PODS, json=wish).raise_for_status()
    cluster.wait_until(lambda: "nodeName" in cluster.client.get(f"{PODS}/{name}").json()["spec"], "placement of a pod")


def unchanged(_: Mapping[str, Any]) -> None:
    """Plants nothing."""


@pytest.mark.timeout(300)
def test_the_sidecar_is_healthy_until_something_is_broken(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.create_nodes(3)
    with Pair(SIDECAR, cluster, tmp_path) as pair:
        schedule(cluster, "web-0", "kwx-scheduler")
        with applied(cluster, SIDECAR, scheduler_of(tmp_path), unchanged):
            status, report = doctor(cluster, pair)
            assert (status, report["findings"], report["leftOut"]) == (0, [NEEDLESS], [])

        broken = scheduler_of(tmp_path)
        broken["extenders"][0] |= {"ignorable": True, "httpTimeout": "500ms", "nodeCacheCapable": False}

        def place_itself(each: dict[str, Any]) -> None:
            if each["kind"] == "Deployment":
                each["spec"]["template"]["spec"]["schedulerName"] = "kwx-scheduler"

        with applied(cluster, SIDECAR, broken, place_itself):
            status, report = doctor(cluster, pair)
            errors = ["bind-ignorable", "timeout-verbs", "timeout-bind", "own-pod-scheduler"]
            assert (status, ids(report, "error")) == (1, errors)
            assert (ids(report, "warning"), report["leftOut"]) == (["nodes-whole"], [])


@pytest.mark.timeout(300)
def test_the_service_is_healthy_until_it_loses_its_role(cluster: ControlPlane, tmp_path: Path) -> None:
    """The cluster's own scheduler is no pod here: its configuration is named, and what concerns its pod is left out."""
    cluster.create_nodes(2)
    file = tmp_path / "scheduler.yaml"
    with Pair(SERVICE, cluster, tmp_path) as pair, applied(cluster, SERVICE, {}, unchanged):
        status, report = doctor(cluster, pair, f"--scheduler-config={file}")
        assert (status, report["findings"]) == (0, [])
        unread = {name: reason for each in report["leftOut"] for name, reason in each["unread"].items()}
        nowhere = f"nothing in the namespaces {NAMESPACE} and kube-system runs this kube-scheduler"
        told = f"{nowhere}; --scheduler-config names its configuration"
        assert unread == {"kube-scheduler's workload": told, "kube-scheduler's version": told}

        cluster.kubectl("delete", "clusterrolebinding", "kwx-extender")
        cluster.wait_until(
            lambda: ids(doctor(cluster, pair, f"--scheduler-config={file}")[1], "error") == ["right-nodes"],
            "the finding about rights",
        )
        status, report = doctor(cluster, pair, f"--scheduler-config={file}")
        found = {each["check"]: each["message"] for each in report["findings"]}
        account = f"ServiceAccount {NAMESPACE}/kwx-extender"
        assert (status, found["right-nodes"]) == (
            1,
            f"{account} may not list nodes, watch nodes: guests have no nodes, and verbs fail",
        )
        assert found["right-events"] == (
            f"{account} may not create events.events.k8s.io, patch events.events.k8s.io: nobody sees at the pod why a"
            " plugin failed"
        )


@pytest.mark.timeout(300)
def test_a_scheduler_that_asks_nobody_is_found_by_the_pods_that_it_schedules(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    cluster.create_nodes(2)
    with Pair(SIDECAR, cluster, tmp_path) as pair:
        configured = scheduler_of(tmp_path)
        pair.scheduler.stop()
        silent = tmp_path / "silent.yaml"
        silent.write_text(yaml.safe_dump(configured | {"extenders": [], "leaderElection": {"leaderElect": False}}))
        cluster.start_scheduler(silent)
        schedule(cluster, "web-0", "kwx-scheduler")
        with applied(cluster, SIDECAR, configured, unchanged):
            cluster.wait_until(lambda: ids(doctor(cluster, pair)[1], "error") == ["asked-never"], "the finding")
            status, report = doctor(cluster, pair)
            assert (status, ids(report, "warning"), report["leftOut"]) == (1, [], [])


def static_pod(cluster: ControlPlane) -> None:
    """The cluster's own kube-scheduler, as kubeadm runs it."""
    container = {
        "name": "kube-scheduler",
        "image": "registry.k8s.io/kube-scheduler:v1.37.0",
        "command": ["kube-scheduler", "--config=/etc/kubernetes/scheduler-config.yaml"],
    }
    spec = {"hostNetwork": True, "nodeName": "node-0", "containers": [container]}
    meta = {"name": "kube-scheduler-node-0", "labels": {"component": "kube-scheduler"}}
    cluster.client.post("/api/v1/namespaces/kube-system/pods", json={"metadata": meta, "spec": spec}).raise_for_status()


@pytest.mark.timeout(300)
def test_the_scheduler_of_the_cluster_and_a_second_one_are_told_apart(cluster: ControlPlane, tmp_path: Path) -> None:
    """What the second one has is looked at first. The other's configuration is a file of its node."""
    cluster.create_nodes(1)
    static_pod(cluster)
    second, first = tmp_path / "second", tmp_path / "first"
    second.mkdir()
    first.mkdir()
    behind_service = first / "behind-service.yaml"
    behind_service.write_text(yaml.safe_dump(SERVICE.load("scheduler.yaml")))
    with (
        Pair(SIDECAR, cluster, second) as sidecar,
        Pair(SERVICE, cluster, first) as service,
        applied(cluster, SIDECAR, scheduler_of(second), unchanged),
        applied(cluster, SERVICE, {}, unchanged),
    ):
        (name,) = [
            each["metadata"]["name"]
            for each in cluster.client.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps").json()["items"]
            if "scheduler.yaml" in each["data"]
        ]
        for options in (
            [],
            [f"--scheduler-config=configmap/{name}"],
            [f"--scheduler-config=configmap/{NAMESPACE}/{name}"],
        ):
            status, report = doctor(cluster, sidecar, *options)
            assert (status, report["findings"], report["leftOut"]) == (0, [NEEDLESS], [])

        status, report = doctor(cluster, service, f"--scheduler-config={behind_service}")
        found = [(each["check"], each["message"]) for each in report["findings"]]
        assert (status, report["leftOut"]) == (1, [])
        assert found == [
            (
                "url-loopback",
                "extenders[0].urlPrefix is https://kwx-extender.kwx-system.svc:8888, and the extender listens on"
                " 127.0.0.1 alone (server.address), which nobody reaches from elsewhere",
            ),
            (
                "service-dns",
                "Pod kube-system/kube-scheduler-node-0 is in the network of its host and does not resolve"
                " kwx-extender.kwx-system.svc, the name of a Service",
            ),
            (
                "tls-host",
                "extenders[0].urlPrefix names kwx-extender.kwx-system.svc, and the extender's certificate is for"
                " DNS:localhost, IP:127.0.0.1: kube-scheduler refuses it, and each request fails",
            ),
        ]


@pytest.mark.timeout(300)
def test_what_the_user_may_not_read_is_told(cluster: ControlPlane, tmp_path: Path) -> None:
    """The extender's own account may read next to nothing."""
    cluster.create_nodes(1)
    with Pair(SERVICE, cluster, tmp_path) as pair, applied(cluster, SERVICE, {}, unchanged):
        kubeconfig = SERVICE.identity(cluster)
        file = tmp_path / "scheduler.yaml"
        status, report = doctor(cluster, pair, f"--scheduler-config={file}", f"--kubeconfig={kubeconfig}")
        assert (status, report["findings"]) == (0, [])
        unread = {name: reason for each in report["leftOut"] for name, reason in each["unread"].items()}
        assert set(unread) == {
            "kube-scheduler's workload",
            "kube-scheduler's version",
            "the extender's workload",
            "the account's rights",
            "the object that wakes pods",
            "Events about scheduled pods",
        }
        assert "RBAC must allow the verb list on deployments.apps" in unread["the extender's workload"]
        assert "RBAC must allow the verb list on events.events.k8s.io" in unread["Events about scheduled pods"]
