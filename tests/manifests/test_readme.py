"""What the README of the manifests shows works."""

from __future__ import annotations

import base64
import os
import re
import shutil
from pathlib import Path

import yaml

from bench.controlplane import ControlPlane

from .overlay import MANIFESTS, SIDECAR

NEARLY_A_MEBIBYTE = 1_000_000


def test_a_plugin_of_a_config_map_is_mounted_and_accepted(control_plane: ControlPlane, tmp_path: Path) -> None:
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    mine = tmp_path / "mine"
    mine.mkdir()
    (example,) = re.findall(r"```yaml\n(.*?)```", (MANIFESTS / "README.md").read_text(), re.DOTALL)
    module = os.urandom(NEARLY_A_MEBIBYTE)
    (mine / "kustomization.yaml").write_text(example)
    (mine / "my-plugin.wasm").write_bytes(module)
    (mine / "extender.yaml").write_text("kind: ExtenderConfiguration")

    rendered = control_plane.kubectl("kustomize", str(mine))
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(rendered)}
    assert base64.b64decode(objects["ConfigMap", "plugins"]["binaryData"]["my-plugin.wasm"]) == module
    (extender,) = objects["Deployment", "kwx-scheduler"]["spec"]["template"]["spec"]["initContainers"]
    assert {"name": "plugins", "mountPath": "/etc/kwx-plugins", "readOnly": True} in extender["volumeMounts"]

    SIDECAR.identity(control_plane)  # makes the namespace
    arguments = ("apply", "--server-side", "--dry-run=server", "-k", str(mine))
    assert "deployment.apps/kwx-scheduler serverside-applied" in control_plane.kubectl(*arguments)


def test_the_commands_of_the_readme_apply_each_overlay(control_plane: ControlPlane) -> None:
    commands = re.findall(r"kubectl (apply .*)", (MANIFESTS / "README.md").read_text())
    assert len(commands) == 2
    for command in commands:
        *flags, folder = command.split()
        answer = control_plane.kubectl(*flags, str(MANIFESTS.parent / folder))
        assert "serverside-applied" in answer
