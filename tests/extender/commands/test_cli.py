from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from click import unstyle
from typer.main import get_command
from typer.testing import CliRunner

from bench.cli import app as bench
from extender.commands.cli import app
from tests.extender.kwx import run

WIDE = {"COLUMNS": "200"}


@pytest.mark.parametrize(
    ("command", "mentions"),
    [
        ([], ["serve", "run", "inspect", "call", "scheduler-config"]),
        (["serve"], ["--config"]),
        (["run"], ["--once", "--output", "table|json"]),
        (["inspect"], ["MODULE", "--guest-config", "--output", "table|json"]),
        (["push"], ["MODULE", "REFERENCE", "--key", "--annotation", "--ca-file", "--timeout", "--output"]),
        (["pull"], ["URL", "--out", "--key", "--digest", "--ca-file", "--timeout", "--output"]),
        (["verify"], ["URL", "--key", "--digest", "--ca-file", "--timeout", "--output"]),
        (["digest"], ["URL", "--ca-file", "--timeout", "--output"]),
        (
            ["call"],
            [
                *("filter|prioritize|preempt|bind", "MODULE", "REQUEST", "--nodes", "--pod", "--guest-config"),
                *("--args", "--timeout", "--memory-limit", "--log-severity", "--engine", "wasmtime|wasmer"),
                *(
                    "--extension-points",
                    "--live",
                    "--plugin",
                    "--profile",
                    "--signature",
                    "--server",
                    "--output",
                    "table|json",
                ),
            ],
        ),
        (["explain", "pod"], ["NAMESPACE/NAME", "--node", "--server", "--token-file", "table|wide|json|yaml"]),
        (["explain", "node"], ["NAME", "--limit", "--server", "--token-file", "table|json|yaml"]),
        (["top"], ["--watch", "--server", "--token-file", "table|json"]),
        (["record"], ["FILE", "--profile", "--pods", "--seconds", "--server", "--token-file"]),
        (
            ["replay"],
            ["RECORDING", "--baseline", "--module", "--baseline-config", "--guest-config", "--plugin", "table|json"],
        ),
        (
            ["scheduler-config"],
            ["--config", "--weight", "--url", "--node-cache-capable", "--full-nodes", "--kubeconfig", "yaml|json"],
        ),
    ],
)
def test_every_command_has_help(command: list[str], mentions: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "-h"], prog_name="kwx", env=WIDE)
    assert result.stdout == CliRunner().invoke(app, [*command, "--help"], prog_name="kwx", env=WIDE).stdout
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


def test_the_release_is_shown() -> None:
    result = CliRunner().invoke(app, ["--version"], prog_name="kwx")
    assert (result.exit_code, result.stdout) == (0, f"kwx {version('kube-wasm-extender')}\n")


def test_o_is_short_for_output() -> None:
    """Every --output has it, those of commands that share no option, too."""
    groups = [get_command(each) for each in (app, bench)]
    options = [option for group in groups for option in _options(group) if "--output" in option.opts]
    assert len(options) > 15
    assert {tuple(option.opts) for option in options} == {("--output", "-o")}


def _options(command: Any) -> Iterator[Any]:
    for each in getattr(command, "commands", {}).values():
        yield from _options(each)
    yield from command.params


def test_a_shell_completes_commands() -> None:
    asked = {"_KWX_COMPLETE": "complete_bash", "COMP_WORDS": "kwx plugin ro", "COMP_CWORD": "2"}
    result = CliRunner().invoke(app, [], prog_name="kwx", env=asked)
    assert (result.exit_code, result.stdout) == (0, "rollback\n")


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
