"""`kubectl kwx` with a real API server and a real extender; the kubelet between them is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click import unstyle
from typer.testing import CliRunner

from bench.controlplane import ControlPlane
from bench.controlplane.ports import free_port
from bench.controlplane.process import isolated_environment
from extender.commands.kubectl import completion
from extender.commands.kubectl.cli import app
from extender.commands.plugin import names
from tests.certificates import Authority
from tests.extender import guests
from tests.extender.commands.kubectl.kubelet import LOOPBACK, Kubelet
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import NODE_NAMES, names_args, node, pod
from tests.manifests.overlay import CHECKOUT
from tests.patience import PATIENCE_S

NAMESPACE, NAME = "kwx-system", "kwx-extender-7d4b9-x2x9p"
ADMIN, DEAD = 8889, 8890
ROOT = f"/api/v1/namespaces/{NAMESPACE}"
PATH = f"/portForward/{NAMESPACE}/{NAME}"


class Site(NamedTuple):
    """A cluster with an extender in it."""

    control_plane: ControlPlane
    extender: Extender
    kubelet: Kubelet

    def run(self, *arguments: str | Path, kubeconfig: Path | None = None) -> tuple[int, str, str]:
        """What `kubectl kwx` says: status, standard output and standard error."""
        command, *options = map(str, arguments)
        given = [command, "--kubeconfig", str(kubeconfig or self.control_plane.kubeconfig()), *options]
        ended = CliRunner().invoke(app, given, prog_name="kubectl kwx", env={"COLUMNS": "200"})
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return ended.exit_code, ended.stdout, unstyle(ended.stderr)


def extender_pod(name: str, port: int = ADMIN, node: str = "edge") -> dict[str, Any]:
    """A pod as the overlay service makes it."""
    ports = [{"name": "verbs", "containerPort": 8888}, {"name": "admin", "containerPort": port}]
    container = {
        "name": "extender",
        "image": "kwx",
        "args": ["serve", "--config=/etc/kwx/extender.yaml"],
        "ports": ports,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "kwx-extender"}},
        "spec": {"nodeName": node, "containers": [container]},
    }


def run_kubectl(site: Site, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """kubectl with the programs of the package in a folder that is on PATH."""
    entries = {"kubectl-kwx": "kubectl", "kubectl_complete-kwx": "kubectl.completion"}
    for name, module in entries.items():
        assert f'{name} = "extender.commands.{module}:main"' in (CHECKOUT / "pyproject.toml").read_text()
        script = folder / name
        script.write_text(f"#!{sys.executable}\nfrom extender.commands.{module} import main\nmain()\n")
        script.chmod(0o755)
    environment = isolated_environment(folder) | {"KUBECONFIG": str(site.control_plane.kubeconfig())}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    command = [str(site.control_plane.binaries.kubectl), *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env=environment, cwd=CHECKOUT
    )


def create(control_plane: ControlPlane, path: str, content: dict[str, Any], status: dict[str, Any]) -> None:
    """Creates an object with a status, which its own controller would write."""
    answer = control_plane.client.post(path, json=content)
    assert answer.is_success, answer.text
    headers = {"Content-Type": "application/merge-patch+json"}
    path = f"{path}/{content['metadata']['name']}/status"
    answer = control_plane.client.patch(path, content=json.dumps({"status": status}), headers=headers)
    assert answer.is_success, answer.text


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("kubectl")
    plugins = profile("default", plugin("filter_by_digit", "72no sevens", name="sevens"), plugin("score_by_digit"))
    control_plane.clear()
    control_plane.kubectl(
        "apply",
        "-f",
        "-",
        stdin=yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    )
    with (
        Extender(folder, plugins, cluster={"mode": "dry-run"}) as extender,
        Kubelet(Authority(folder).server(), {ADMIN: extender.admin.base_url.port or 0, DEAD: free_port()}) as kubelet,
    ):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge"}}
        address = {"type": "InternalIP", "address": LOOPBACK}
        endpoints = {"kubeletEndpoint": {"Port": kubelet.server_port}}
        create(control_plane, "/api/v1/nodes", node, {"addresses": [address], "daemonEndpoints": endpoints})
        create(control_plane, f"{ROOT}/pods", extender_pod(NAME), {"phase": "Running"})
        extender.post("/filter", names_args(NODE_NAMES, pod("web")))
        yield Site(control_plane, extender, kubelet)
    control_plane.clear()


def test_plugins_are_found_by_themselves(site: Site) -> None:
    status, output, error = site.run("plugins", "-o", "json")
    assert (status, error) == (0, "")
    assert [each["name"] for each in json.loads(output)] == ["sevens", "score_by_digit"]
    assert site.kubelet.asked[-1] == PATH
    assert site.run("plugins", "-A", "-o", "json") == (0, output, "")


def test_pods_are_judged_by_what_serves(site: Site, tmp_path: Path) -> None:
    file, nodes = tmp_path / "pod.json", tmp_path / "nodes.json"
    file.write_text(json.dumps({"kind": "Pod", **pod("wish")}))
    nodes.write_text(json.dumps({"items": [node("node-1"), node("node-7")]}))
    status, output, error = site.run("call", "filter", "active", file, "--nodes", nodes)
    assert (status, error) == (0, "")
    assert output.startswith("filter of pod default/wish by profile default: 1 of 2 nodes pass\n")
    assert site.run("call", "filter", "active", "wish", "-n", "other", "--nodes", nodes) == (
        1,
        "",
        "kwx: podName: there is no API server to read it from (cluster.mode); give the pod itself\n",
    )


def test_kubectl_runs_it(site: Site, tmp_path: Path) -> None:
    """By its name on PATH, with kubectl's own way to the cluster."""
    ended = run_kubectl(site, tmp_path, "kwx", "explain", "web", "--node", "node-7")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Pod default/web on node node-7" in ended.stdout
    assert "taken out by sevens: no sevens" in ended.stdout


def test_kubectl_completes_commands_options_and_values(site: Site, tmp_path: Path) -> None:
    """`kubectl __complete` is what kubectl's completion runs in every shell."""
    commands = run_kubectl(site, tmp_path, "__complete", "kwx", "ex").stdout
    assert commands == "explain\tSay why a pod is where it is, or nowhere;...\n:4\n"
    options = run_kubectl(site, tmp_path, "__complete", "kwx", "swap", "--ke").stdout
    assert options == "--key-file\tKey of --cert-file in PEM; by default it is in the same file.\n:4\n"
    assert run_kubectl(site, tmp_path, "__complete", "kwx", "plugins", "-o", "w").stdout == "wide\n:4\n"


def test_the_shell_completes_files(site: Site, tmp_path: Path) -> None:
    """The directive 0 of Cobra leaves the word to the shell."""
    ended = run_kubectl(site, tmp_path, "__complete", "kwx", "swap", "sevens", "--file", "")
    assert (ended.returncode, ended.stdout) == (0, ":0\n")


def test_completions_are_all_that_is_shown(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(names, "ASKING_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setenv("KUBECONFIG", str(site.control_plane.kubeconfig()))
    for typed, found in {
        ("swap", ""): "sevens\t\nscore_by_digit\t\n:4\n",
        ("rollback", "-n", NAMESPACE, "sev"): "sevens\t\n:4\n",
        ("call", "filter", "active", "web", "--plugin=sc"): "score_by_digit\t\n:4\n",
        ("swap", "-n", "elsewhere", ""): "",
        ("--version", "to"): "top\tShow how long the phases of verbs and the...\n:4\n",
    }.items():
        monkeypatch.setattr("sys.argv", ["kubectl_complete-kwx", *typed])
        completion.main()
        assert capsys.readouterr() == (found, "")


@pytest.mark.parametrize("target", ["web", "pod/web"])
def test_a_pod_is_explained_in_its_namespace(site: Site, target: str) -> None:
    status, output, error = site.run("explain", target, "-n", "default")
    assert (status, error, output.splitlines()[0]) == (0, "", "Pod default/web of profile default: 9 nodes answered")
    status, output, error = site.run("explain", target, "-n", "other")
    assert (status, output) == (1, "")
    assert error.startswith("kwx: nothing is known of pod other/web: it was not asked about here: ")


def test_a_node_is_explained(site: Site) -> None:
    status, output, error = site.run("explain", "node/node-7")
    assert (status, error) == (0, "")
    assert "taken out by sevens: no sevens" in output


def test_a_module_is_uploaded_followed_and_taken_back(site: Site, tmp_path: Path) -> None:
    module = guests.build("nodenumber", tmp_path)
    status, output, error = site.run("swap", "score_by_digit", "--file", module, "-o", "json")
    assert (status, json.loads(output)["stage"]) == (0, "active"), error
    status, output, error = site.run("rollback", "score_by_digit", "-o", "json")
    assert (status, json.loads(output)["stage"]) == (0, "active"), error


def test_the_doctor_asks_the_extender_that_it_finds(site: Site) -> None:
    status, output, _ = site.run("doctor", "-n", NAMESPACE, "-o", "json")
    unread = {reason for each in json.loads(output)["leftOut"] for reason in each["unread"].values()}
    assert status in {0, 1}
    assert [reason for reason in unread if LOOPBACK in reason] == []


def test_top_shows_what_takes_the_time(site: Site) -> None:
    status, output, error = site.run("top", "-o", "json")
    assert (status, error) == (0, "")
    found = json.loads(output)
    assert {("filter", "decode"), ("filter", "judge")} <= {(each["verb"], each["phase"]) for each in found["verbs"]}
    assert ("sevens", "filter") in {(each["plugin"], each["export"]) for each in found["plugins"]}


def test_who_may_not_forward_ports_is_told_so(site: Site) -> None:
    """Rights to list the pods are not enough."""
    api, metadata = "rbac.authorization.k8s.io", {"name": "viewer"}
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{api}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "viewer"},
            "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": NAMESPACE}],
        },
    ]
    site.control_plane.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=yaml.safe_dump_all(objects))
    viewer = site.control_plane.service_account_kubeconfig(NAMESPACE, "viewer")
    status, output, error = site.run("plugins", kubeconfig=viewer)
    assert (status, output) == (1, "")
    assert f'kwx: no port-forward to pod {NAMESPACE}/{NAME}: pods "{NAME}" is forbidden: User' in error
    status, _, error = site.run("plugins", "-A", kubeconfig=viewer)
    assert status == 1
    assert "list pods" in error


def test_a_pod_that_does_not_listen_is_told(site: Site) -> None:
    create(site.control_plane, f"{ROOT}/pods", extender_pod("deaf", DEAD), {"phase": "Running"})
    try:
        status, _, error = site.run("plugins", "--pod", "deaf")
        cause = f"error forwarding port {DEAD} to pod: Connection refused"
        assert (status, error.splitlines()[-1]) == (
            1,
            f"kwx: port {DEAD} of pod {NAMESPACE}/deaf cannot be reached: {cause}",
        )
        status, _, error = site.run("plugins")
        names = f"{NAMESPACE}/deaf, {NAMESPACE}/{NAME}"
        told = f"kwx: 2 pods run an extender in namespace {NAMESPACE}: {names}; choose one by --pod\n"
        assert (status, error) == (1, told)
    finally:
        site.control_plane.client.delete(f"{ROOT}/pods/deaf", params={"gracePeriodSeconds": 0})
