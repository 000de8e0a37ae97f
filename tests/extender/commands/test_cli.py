from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click import unstyle
from typer.testing import CliRunner

from extender.commands.cli import app
from tests.extender.kwx import run

WIDE = {"COLUMNS": "200"}


@pytest.mark.parametrize(
    ("command", "mentions"),
    [
        ([], ["serve", "run", "inspect", "call", "scheduler-config"]),
        (["serve"], ["--config"]),
        (["run"], ["--once", "--output", "table|json"]),
        (["inspect"], ["MODULE", "--output", "table|json"]),
        (
            ["call"],
            [
                *("filter|prioritize|preempt|bind", "MODULE", "REQUEST.json", "--nodes", "--pod", "--guest-config"),
                *("--args", "--timeout", "--memory-limit", "--log-severity", "--engine", "wasmtime|wasmer"),
                *("--extension-points", "--output", "table|json"),
            ],
        ),
        (
            ["scheduler-config"],
            ["--config", "--weight", "--url", "--node-cache-capable", "--full-nodes", "--kubeconfig", "yaml|json"],
        ),
    ],
)
def test_every_command_has_help(command: list[str], mentions: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], prog_name="kwx", env=WIDE)
    assert (result.exit_code, result.stderr) == (0, "")
    shown = unstyle(result.stdout)
    assert f"Usage: {' '.join(['kwx', *command])}" in shown
    assert [word for word in mentions if word not in shown] == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nope"], "No such command 'nope'."),
        (["serve"], "Missing option '--config'."),
        (["run", "--once", "more"], "Got unexpected extra argument(s) (more)"),
        (["run", "--output", "yaml"], "Invalid value for '--output'"),
        (["inspect"], "Missing argument"),
        (["inspect", "guest.wasm", "--output", "yaml"], "Invalid value for '--output'"),
        (["call", "filter", "guest.wasm"], "Missing argument"),
        (["scheduler-config", "--config", "x", "--weight", "0"], "Invalid value for '--weight'"),
    ],
)
def test_wrong_usage_is_said_on_standard_error_with_status_2(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(app, arguments, prog_name="kwx", env=WIDE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in unstyle(result.stderr)


def test_the_command_is_installed(tmp_path: Path) -> None:
    shown = run("--help", home=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    wrong = run("serve", home=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Missing option '--config'." in wrong.stderr


def test_the_module_is_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "extender", "serve", "--config", "nope.yaml"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (
        1,
        "",
        "kwx: nope.yaml: cannot be read: No such file or directory\n",
    )
