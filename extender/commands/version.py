"""The option --version, of `kwx` and of `kubectl kwx`."""

from __future__ import annotations

from typing import Annotated

import typer


def print_version(ctx: typer.Context, asked: bool) -> None:
    """Prints the release of the package, and ends the command."""
    if asked and not ctx.resilient_parsing:  # A shell that completes parses so.
        from importlib.metadata import version  # noqa: PLC0415 - commands do without it

        typer.echo(f"kwx {version('kube-wasm-extender')}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version, and exit.")
]
