"""The command `kwx inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from extender.commands.inspect.inspection import InspectionError, inspect
from extender.commands.inspect.table import lines
from extender.commands.output import View, ViewOption, fail, write_json
from extender.commands.terminal import show
from wasm_runtime.supervision import ThreadError


def inspect_module(
    module: Annotated[Path, typer.Argument(metavar="MODULE", help="A .wasm file.", show_default=False)],
    guest_config: Annotated[
        str, typer.Option(metavar="TEXT", help="A configuration of the guest, to be checked by the module's schema.")
    ] = "",
    output: ViewOption = View.TABLE,
) -> None:
    """Show what a module serves, what it asks for and where it runs; status 1 if it cannot be a plugin.

    Of the module only the start and enqueue are run.
    """
    try:
        report = inspect(module, guest_config)
    except (InspectionError, ThreadError) as error:
        fail(str(error))
    if output is View.JSON:
        write_json(report)
    else:
        show(map(Text, lines(report)))
    if report.problems:
        raise typer.Exit(1)
