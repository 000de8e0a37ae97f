"""The image has all that its commands need: they are run out of just the files that the Dockerfile copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import pytest
import yaml

from bench.controlplane import ControlPlane
from bench.controlplane.ports import LOOPBACK, free_port
from bench.controlplane.process import answers, comes_true

from .image import Image, has_namespaces
from .overlay import CHECKOUT, SIDECAR, Overlay
from .pair import PLUGINS_OF_THE_IMAGE

TIMEOUT_S = 120.0
PRIORITIZE = CHECKOUT / "extender" / "examples" / "cycle" / "prioritize.json"

pytestmark = pytest.mark.timeout(600)  # Installing is part of the first.

contained = pytest.mark.skipif(
    not has_namespaces(),
    reason="no user namespaces here, which stand for the container: apt-get install util-linux, and allow them"
    " (sysctl user.max_user_namespaces)",
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image, installed."""
    return Image(tmp_path_factory.mktemp("image"))


@pytest.fixture
def volumes(tmp_path: Path) -> dict[str, Path]:
    """What the Deployment lets the extender write to, by its place in the image."""
    pod = yaml.safe_load((CHECKOUT / "manifests" / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    names = [each["name"] for each in pod["volumes"] if "emptyDir" in each]
    mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert sorted(mounts.values()) == sorted([*names, "config"])
    return {place: tmp_path / name for place, name in mounts.items() if name in names}


def wait(process: Popen[bytes], condition: Callable[[], bool], log: Path) -> None:
    """Waits until something is so; a process that has ended or is late is an error, with its log."""

    def check() -> None:
        assert process.poll() is None, log.read_text()

    assert comes_true(condition, check, TIMEOUT_S), log.read_text()


def configured(image: Image, folder: Path, verbs: str, admin: str) -> Path:
    """The configuration of the sidecar for this machine, without a cluster."""
    content: dict[str, Any] = SIDECAR.load("extender.yaml")
    content["server"] = {"address": verbs, "adminAddress": admin}
    content["cluster"] = {"mode": "none"}
    for plugin in content["profiles"][0]["plugins"]:
        plugin["guestURL"] = plugin["guestURL"].replace(PLUGINS_OF_THE_IMAGE, f"file://{image.root}/opt/kwx/plugins/")
    file = folder / "extender.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


@contained
def test_it_serves(image: Image, volumes: dict[str, Path], tmp_path: Path) -> None:
    verbs, admin = (f"{LOOPBACK}:{free_port()}" for _ in range(2))
    file, log = configured(image, tmp_path, verbs, admin), tmp_path / "log"
    command = [word.replace("/etc/kwx/extender.yaml", str(file)) for word in image.dockerfile.command]
    with image.running(command, volumes, log) as process:
        wait(process, lambda: answers(f"http://{admin}/readyz"), log)
        answer = httpx.post(f"http://{verbs}/prioritize", content=PRIORITIZE.read_bytes(), trust_env=False)
    assert (answer.status_code, process.returncode) == (200, 0), log.read_text()
    assert answer.json()


@contained
def test_it_shows_the_product_at_work(image: Image, volumes: dict[str, Path], tmp_path: Path) -> None:
    log = tmp_path / "log"
    with image.running(["kwx", "run", "--once"], volumes, log) as process:
        assert process.wait(TIMEOUT_S) == 0, log.read_text()
    assert "requests flowed, 0 failed" in log.read_text()


@contained
def test_the_packages_are_its_own(image: Image, volumes: dict[str, Path], tmp_path: Path) -> None:
    packages = ["bench", "extender", "wasm_runtime"]
    code = f"import {', '.join(packages)}; print({', '.join(f'{name}.__path__[0]' for name in packages)}, sep='\\n')"
    log = tmp_path / "log"
    with image.running(["python", "-c", code], volumes, log) as process:
        assert process.wait(TIMEOUT_S) == 0, log.read_text()
    assert log.read_text().splitlines() == [str(image.packages / name) for name in packages]


def test_its_user_and_command_are_those_of_the_pod(image: Image, control_plane: ControlPlane, overlay: Overlay) -> None:
    pod = overlay.deployment(control_plane)["spec"]["template"]["spec"]
    (extender,) = [each for each in pod.get("initContainers", pod["containers"]) if each["name"] == "extender"]
    user = pod["securityContext"]
    assert image.dockerfile.user == (str(user["runAsUser"]), str(user["runAsGroup"]))
    assert image.dockerfile.command == ["kwx", *extender["args"]]
