"""What kubectl runs for who presses TAB after `kubectl kwx`: the program `kubectl_complete-kwx`."""

from __future__ import annotations

import sys
from typing import Any, Final

import typer
from typer._completion_classes import FishComplete  # Typer has a copy of click, or the package, by its release.
from typer.main import get_command

from extender.commands.kubectl.cli import app

NO_FILES: Final = 4
"""Cobra's ShellCompDirectiveNoFileComp. https://github.com/spf13/cobra/blob/v1.10.1/completions.go"""


def main() -> None:
    """Prints a completion a line, with its description after a TAB; none has the shell complete files.

    Of the arguments the last is what is to be completed.
    https://github.com/kubernetes/kubectl/blob/v0.34.0/pkg/cmd/plugin/plugin_completion.go
    """
    *arguments, begun = sys.argv[1:]
    shell = FishComplete(get_command(app), {"obj": _in_cluster}, "kubectl kwx", "")
    found = shell.get_completions(arguments, begun)
    for each in found:
        typer.echo(f"{each.value}\t{' '.join((each.help or '').split())}")
    if found:
        typer.echo(f":{NO_FILES}")


def _in_cluster() -> tuple[Any, Any]:
    """How `complete_plugins` reaches an extender."""
    from extender.commands.kubectl import forward  # noqa: F401, PLC0415 - before the time of `complete_plugins` begins
    from extender.commands.kubectl.access import Access, reach  # noqa: PLC0415 - the names of commands need neither

    return Access, reach
