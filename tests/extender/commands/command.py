"""A command of `kwx` in this process, with a compile cache that a module of tests has for its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from extender.commands.cli import app


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    stdout: str
    stderr: str


Command = Callable[..., Ended]


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    """Runs a command with arguments and standard input; its output is 80 characters wide."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"XDG_CACHE_HOME": folder, "COLUMNS": "80"}

        def run(*arguments: str | Path, stdin: bytes | None = None) -> Ended:
            result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="kwx", input=stdin, env=environment)
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            return Ended(result.exit_code, result.stdout, result.stderr)

        yield run
