"""The command line: kubectl kwx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer

from extender.commands.lazy_group import HELP, Entry, LazyGroup
from extender.commands.version import VersionOption

ENTRIES: Final[Mapping[str, Entry]] = {
    "explain": Entry(
        "extender.commands.kubectl.commands:explain",
        "Say why a pod is where it is, or nowhere; or what was decided about a node for the last pods.",
    ),
    "call": Entry(
        "extender.commands.kubectl.commands:call",
        "Say what the extender's plugins, or another module among them, would say of a pod now.",
    ),
    "plugins": Entry(
        "extender.commands.kubectl.commands:in_cluster_plugins", "Show the plugins and their active revisions."
    ),
    "swap": Entry(
        "extender.commands.kubectl.commands:in_cluster_swap", "Bring another module or other settings of a plugin live."
    ),
    "rollback": Entry(
        "extender.commands.kubectl.commands:in_cluster_rollback",
        "Bring the last good revision back, or the one that --to names, without a probe.",
    ),
    "doctor": Entry(
        "extender.commands.kubectl.commands:in_cluster_doctor",
        "Look for mismatches of kube-scheduler's configuration, the extender's and the cluster;"
        " status 1 after an error.",
    ),
    "top": Entry(
        "extender.commands.kubectl.commands:in_cluster_top",
        "Show how long the phases of verbs and the exports of plugins take, by the extender's metrics.",
    ),
}


class Commands(LazyGroup):
    """The commands of `kubectl kwx`."""

    entries = ENTRIES


app = typer.Typer(
    name="kubectl kwx",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


@app.callback()
def kwx(version: VersionOption = False) -> None:
    """Ask the extender of a cluster, which is found by itself, and reached by a port-forward."""


def main() -> None:
    """Runs the command line: status 0 fine, 1 failed, 2 wrong usage."""
    app(prog_name="kubectl kwx")
