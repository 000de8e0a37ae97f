from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bench.controlplane.process import isolated_environment
from extender.commands import cli
from extender.commands.kubectl import cli as kubectl
from extender.commands.lazy_group import Entry

SERVERS = frozenset({"fastapi", "jinja2", "uvicorn", "uvloop"})
ENGINES = frozenset({"wasmtime", "wasmer"})
CLIENTS = frozenset({"cryptography", "httpx", "kubernetes"})
REST = frozenset({"jsonschema_rs", "msgspec", "prometheus_client", "structlog", "wasm_runtime", "yaml"})
"""Not pydantic, by which typer may read options."""

NOBODY = "http://127.0.0.1:1"
COMPLETION = {"_KWX_COMPLETE": "complete_bash", "COMP_WORDS": "kwx plu", "COMP_CWORD": "1"}


def imported(home: Path, *arguments: str, environment: dict[str, str] | None = None, status: int = 0) -> set[str]:
    """The packages that a command of `kwx` imports; it must end with the status."""
    ended = subprocess.run(
        [Path(sys.executable).with_name("kwx"), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=home,
        env=isolated_environment(home) | {"PYTHONPROFILEIMPORTTIME": "1"} | (environment or {}),
    )
    assert ended.returncode == status, ended.stderr
    return set(re.findall(r"^import time:.*\| +(\w+)", ended.stderr, re.MULTILINE))


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["--version"], {}), (["--help"], {}), ([], COMPLETION)],
    ids=["version", "help", "completion"],
)
def test_who_asks_for_no_command_waits_for_none(
    arguments: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    found = imported(tmp_path, *arguments, environment=environment)
    assert "typer" in found
    assert found & (SERVERS | ENGINES | CLIENTS | REST) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["plugin", "list", "--server", NOBODY],
        ["explain", "pod", "default/web", "--server", NOBODY],
        ["top", "--server", NOBODY],
        ["inspect", "none.wasm"],
        ["call", "filter", "none.wasm", "none.json"],
        ["test", "none"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_import_no_web_framework(arguments: list[str], tmp_path: Path) -> None:
    found = imported(tmp_path, *arguments, status=1)
    assert "extender" in found
    assert found & {"fastapi", "jinja2", "kubernetes"} == set()


@pytest.mark.parametrize("program", [cli, kubectl], ids=["kwx", "kubectl kwx"])
def test_the_help_of_a_group_is_that_of_its_commands(program: Any) -> None:
    entries: Mapping[str, Entry] = program.ENTRIES
    own = {name: command.help.partition("\n\n")[0] for name, command in get_command(program.app).commands.items()}  # type: ignore[attr-defined]
    assert {name: " ".join(text.split()) for name, text in own.items()} == {
        name: entry.help for name, entry in entries.items()
    }


def test_a_command_that_is_nearly_there_is_suggested() -> None:
    wrong = CliRunner().invoke(cli.app, ["serv"], prog_name="kwx", env={"COLUMNS": "200"})
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "No such command 'serv'. Did you mean 'serve'?" in wrong.stderr
