"""The tutorial's very commands, from nothing to a plugin that is live: in an empty folder, a fresh environment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest

from bench.controlplane import ControlPlane
from bench.controlplane.ports import LOOPBACK, free_port
from extender.commands.build import LANGUAGES, BuildError
from tests.extender import objects
from tests.patience import wait_until

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "tutorial.md"
CHECKOUT: Final = "~/kube-wasm-extender"
"""Where the page has the checkout."""

COMMAND_TIMEOUT_S: Final = 900.0
"""For one command: pip fetches packages, and Go compiles those of Kubernetes."""

SOURCES: Final = {"rust": "src/lib.rs", "go": "main.go", "typescript": "assembly/index.ts"}
"""Where the policy is, by the language."""

HOSTNAME: Final = "kubernetes.io/hostname"

RETIRED: Final = [objects.node("old", labels={"example.com/retired": "true"})]


def blocks() -> Sequence[Sequence[str]]:
    """The commands of each block of the page."""
    found = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [[line.removeprefix("$ ") for line in block.splitlines()] for block in found]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution, as pip makes it of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--quiet",
        "--wheel-dir",
        folder,
        ROOT,
    ]
    subprocess.run(command, check=True, timeout=COMMAND_TIMEOUT_S)
    return next(folder.glob("*.whl"))


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """That of a shell with a fresh virtual environment."""
    venv.create(tmp_path / "venv", with_pip=True)
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        "PATH": f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


@contextmanager
def serving(command: str, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The URL of the verbs, as the log of `kwx serve` tells it, until the context ends."""
    process = subprocess.Popen(
        command.split(), cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    lines: list[str] = []
    reader = threading.Thread(target=lines.extend, args=[process.stderr])
    reader.start()
    try:
        yield wait_until(lambda: next(filter(None, map(_verbs, lines)), ""), lambda: lines)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        reader.join(timeout=60)
        process.stderr.close()


def _verbs(line: str) -> str:
    event = msgspec.json.decode(line)
    return str(event["verbs"]) if event["event"] == "serving" else ""


def verdict(url: str) -> Any:
    """What the extender says of nodes that are retired."""
    answer = httpx.post(f"{url}/filter", json=objects.nodes_args(RETIRED), timeout=60, trust_env=False)
    return answer.json()["FailedAndUnresolvableNodes"]


def schedules_by_the_plugin(cluster: ControlPlane, config: Path) -> None:
    """Has a stock kube-scheduler place a pod on a node of the tier, and keep another off a retired one."""
    tier = {"example.com/tier": "spot"}
    cluster.create_nodes(1, name="steady")
    cluster.create_nodes(1, name="cheap", labels=tier)
    cluster.create_nodes(1, name="old", labels={**tier, "example.com/retired": "true"})
    scheduler = cluster.start_scheduler(config)
    try:
        create = ("create", "-f", "-")
        cluster.kubectl(*create, stdin=json.dumps(pod("web")))
        cluster.wait_until(lambda: node_of(cluster, "web") == "cheap", "the pod on a node of the tier")
        cluster.kubectl(*create, stdin=json.dumps(pod("late", nodeSelector={HOSTNAME: "old"})))
        told = "jsonpath={.status.conditions[*].message}"
        read = ("get", "pod", "late", "-o", told)
        cluster.wait_until(lambda: "node is no more" in cluster.kubectl(*read), "why the other pod has no node")
    finally:
        scheduler.stop()


def pod(name: str, **spec: object) -> dict[str, object]:
    containers = [{"name": "main", "image": "example"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def node_of(cluster: ControlPlane, name: str) -> str:
    return cluster.kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("language", SOURCES)
def test_the_commands_of_the_tutorial(
    language: str, environment: Mapping[str, str], wheel: Path, tmp_path: Path, cluster: ControlPlane
) -> None:
    try:
        LANGUAGES[language].builder.check()
    except BuildError as error:
        pytest.skip(str(error))
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(command: str, status: int = 0) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
        )
        assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    (*make, install), (*commands, serve), again, (register, schedule) = blocks()
    assert make == ["python3 -m venv kwx-venv", ". kwx-venv/bin/activate"]
    assert install == f"pip install {CHECKOUT}"
    assert len(commands) + 1 == 4
    run(install.replace(CHECKOUT, str(wheel)))
    for command in commands:
        said = run(command.replace(" rust ", f" {language} "))
    assert said.startswith("ok    tier/cases.yaml: 4 cases\n")

    extender = folder / "tier" / "extender.yaml"
    ports = f"server: {{address: {LOOPBACK}:{free_port()}, adminAddress: {LOOPBACK}:0}}\n"  # Others may be taken here.
    extender.write_text(extender.read_text() + ports)
    with serving(serve, folder, environment) as url:
        assert verdict(url) == {"old": "node is retired"}
        source = folder / "tier" / SOURCES[language]
        source.write_text(source.read_text().replace("node is retired", "node is no more", 1))
        build, test = again
        run(build)
        assert "node is no more" in run(test, status=1)
        wait_until(lambda: verdict(url) == {"old": "node is no more"}, "the new module is not live", 300)
        run(register.replace("~/.kube/config", str(cluster.kubeconfig("scheduler"))))
        assert schedule == "kube-scheduler --config kube-scheduler.yaml"
        schedules_by_the_plugin(cluster, folder / "kube-scheduler.yaml")
    run(f"{test} --update")
    run(f"{build} --test", status=1)
