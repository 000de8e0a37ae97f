"""The control plane starts, schedules, reports its dead, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from bench.controlplane import ControlPlane, ControlPlaneError
from bench.controlplane.binaries import CONTROL_PLANE
from tests.patience import Beside, wait_until

CHECKOUT = Path(__file__).parents[2]
PODS = "/api/v1/namespaces/default/pods"

START_AND_SLEEP = """
import time
from bench.controlplane import ControlPlane

with ControlPlane() as control_plane:
    print(*(process.pid for process in control_plane.processes), flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """A control plane with three nodes, of this module alone."""
    with ControlPlane() as running:
        running.create_nodes(3)
        yield running


def test_a_stock_scheduler_binds_a_pod_and_kwok_runs_it() -> None:
    """Nodes become Ready, a pod is bound to one of them and Running, and the exit ends every process."""
    with ControlPlane() as cluster:
        nodes = cluster.create_nodes(3)
        cluster.start_scheduler(scheduler_config(cluster))
        create_pod(cluster, "first")
        cluster.wait_until(lambda: pod(cluster, "first")["status"]["phase"] == "Running", "running pod")
        assert pod(cluster, "first")["spec"]["nodeName"] in nodes
        processes = cluster.processes
        assert all(process.alive for process in processes)
    assert [process.name for process in processes if process.alive] == []
    assert not any(is_alive(process.pid) for process in processes)
    assert not cluster.directory.exists()


def test_a_scheduler_can_be_stopped_and_replaced(cluster: ControlPlane) -> None:
    """A pod that comes while no scheduler runs is bound by the next one."""
    cluster.start_scheduler(scheduler_config(cluster)).stop()
    create_pod(cluster, "waiting")
    cluster.check()
    assert "nodeName" not in pod(cluster, "waiting")["spec"]
    scheduler = cluster.start_scheduler(scheduler_config(cluster))
    cluster.wait_until(lambda: "nodeName" in pod(cluster, "waiting")["spec"], "bound pod")
    scheduler.stop()


def test_a_scheduler_configuration_is_checked_strictly(cluster: ControlPlane) -> None:
    """A good configuration has no errors; an unknown field is named."""
    config = scheduler_config(cluster)
    assert cluster.scheduler_config_errors(config) == ""
    config.write_text(f"{config.read_text()}percentage: 1\n")
    assert r"unknown field \"percentage\"" in cluster.scheduler_config_errors(config)


def test_a_refused_scheduler_configuration_shows_the_log(cluster: ControlPlane) -> None:
    """A scheduler that ends at once is an error with its own words, and no part of the control plane."""
    config = scheduler_config(cluster)
    config.write_text(f"{config.read_text()}percentage: 1\n")
    with pytest.raises(ControlPlaneError, match=r'ended with status 1(.|\n)*unknown field \\"percentage'):
        cluster.start_scheduler(config)
    cluster.check()


def test_another_program_may_be_the_scheduler(cluster: ControlPlane) -> None:
    """What starts is that program: kubectl knows no such flag."""
    with pytest.raises(ControlPlaneError, match=r"ended with status 1:\nerror: unknown flag: --config"):
        cluster.start_scheduler(scheduler_config(cluster), program=cluster.binaries.kubectl)
    cluster.check()


def test_identities_have_their_own_rights(cluster: ControlPlane) -> None:
    """RBAC is on: the scheduler may list nodes but not secrets; a fresh service account may do neither."""
    assert "node-0" in cluster.kubectl("get", "nodes", user="scheduler")
    with pytest.raises(ControlPlaneError, match='User "system:kube-scheduler" cannot list resource "secrets"'):
        cluster.kubectl("get", "secrets", user="scheduler")
    account = {"metadata": {"name": "extender"}}
    cluster.client.post("/api/v1/namespaces/default/serviceaccounts", json=account).raise_for_status()
    kubeconfig = cluster.service_account_kubeconfig("default", "extender")
    with pytest.raises(ControlPlaneError, match='User "system:serviceaccount:default:extender" cannot list'):
        cluster.kubectl(f"--kubeconfig={kubeconfig}", "get", "nodes")


def test_a_token_needs_a_service_account(cluster: ControlPlane) -> None:
    """Asking for an account that does not exist gives the API server's own message."""
    with pytest.raises(httpx.HTTPStatusError, match="nobody"):
        cluster.service_account_kubeconfig("default", "nobody")


def test_versions_are_the_releases(cluster: ControlPlane) -> None:
    """The programs report what they were built from."""
    versions = {program.name: program.version for program in CONTROL_PLANE}
    reported = cluster.kubectl("version")
    assert f"Client Version: v{versions['kubectl']}\n" in reported
    assert f"Server Version: v{versions['kube-apiserver']}\n" in reported


def test_clear_leaves_neither_pods_nor_nodes() -> None:
    """After `clear` nodes of the same names can be made again, and become Ready again."""
    with ControlPlane() as cluster:
        cluster.create_nodes(2, name="worker-{}", labels={"zone": "a"}, allocatable={"cpu": "1", "pods": "3"})
        create_pod(cluster, "first")
        cluster.clear()
        assert cluster.client.get(PODS).json()["items"] == []
        assert cluster.client.get("/api/v1/nodes").json()["items"] == []
        assert cluster.create_nodes(2, name="worker-{}", labels={"zone": "b"}) == ["worker-0", "worker-1"]


def test_without_kwok_nodes_stay_and_pods_are_bound_but_do_not_run() -> None:
    """Its end is no failure, and a scheduler goes on with the nodes that it made Ready."""
    with ControlPlane() as cluster:
        (node,) = cluster.create_nodes(1)
        cluster.end_kwok()
        assert [process.name for process in cluster.processes if process.alive] == ["etcd", "kube-apiserver"]
        cluster.start_scheduler(scheduler_config(cluster))
        create_pod(cluster, "first")
        cluster.wait_until(lambda: "nodeName" in pod(cluster, "first")["spec"], "bound pod")
        bound = pod(cluster, "first")
        assert (bound["spec"]["nodeName"], bound["status"]["phase"]) == (node, "Pending")


def test_a_part_that_dies_is_reported() -> None:
    """Waiting for what can no longer come ends at once and names the dead part."""
    with ControlPlane() as cluster:
        kwok = cluster.processes[-1]
        os.kill(kwok.pid, signal.SIGKILL)
        with pytest.raises(ControlPlaneError, match="kwok ended with status -9"):
            cluster.create_nodes(1)


def test_a_call_to_a_dead_api_server_tells_how_it_died() -> None:
    """The error is the API server's end, not the refused connection that it leads to."""
    with ControlPlane() as cluster:
        api_server = next(process for process in cluster.processes if process.name == "kube-apiserver")
        os.kill(api_server.pid, signal.SIGKILL)
        wait_until(lambda: not api_server.alive, "kube-apiserver is alive")
        with pytest.raises(ControlPlaneError, match="kube-apiserver ended with status -9"):
            cluster.client.get(PODS)


def test_a_condition_that_does_not_come_is_named(cluster: ControlPlane) -> None:
    """Waiting is bounded."""
    with pytest.raises(ControlPlaneError, match=r"no miracle in 0\.1 s"):
        cluster.wait_until(lambda: False, "miracle", timeout=0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="no child learns that its parent is killed: run the tests on Linux")
def test_children_die_with_a_killed_parent() -> None:
    """Nothing survives a parent that is killed before it can clean up."""
    with TemporaryDirectory() as directory:
        for pid in start_and_kill(directory):
            wait_until_dead(pid)


def start_and_kill(temporary: str) -> list[int]:
    """Kill a Python that has a control plane in `temporary`; returns the processes that it had started."""
    parent = subprocess.Popen(
        [sys.executable, "-c", START_AND_SLEEP],
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": temporary},
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        children = [int(pid) for pid in Beside(parent.stdout.readline).end().split()]
        assert len(children) == 3
        assert all(is_alive(pid) for pid in children)
        parent.kill()
    return children


def wait_until_dead(pid: int) -> None:
    wait_until(lambda: not is_alive(pid), f"{pid} is alive")


def scheduler_config(cluster: ControlPlane) -> Path:
    """A configuration of a stock scheduler, freshly written."""
    path = cluster.directory / "scheduler.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\n"
        f"clientConnection: {{kubeconfig: {cluster.kubeconfig('scheduler')}}}\n"
    )
    return path


def create_pod(cluster: ControlPlane, name: str) -> None:
    """A pod that any node can take."""
    manifest = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    cluster.client.post(PODS, json=manifest).raise_for_status()


def pod(cluster: ControlPlane, name: str) -> Any:
    """The pod as the API server has it now."""
    return cluster.client.get(f"{PODS}/{name}").raise_for_status().json()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has reaped yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
