"""`kwx test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from extender.commands.output import EngineName, View, ViewOption, fail, write_json
from extender.commands.terminal import show
from extender.commands.test import report
from extender.commands.test.run import TestError, run


def test(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Files of cases, or folders of files cases.yaml; by default here."),
    ] = None,
    module: Annotated[
        Path | None, typer.Option(metavar="MODULE", help="A .wasm file, not the one that the file of cases names.")
    ] = None,
    case: Annotated[str, typer.Option(metavar="TEXT", help="Only the cases with this in their names.")] = "",
    engine: Annotated[
        EngineName | None, typer.Option(help="Only on this engine; by default on each that is there.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all that was answered and logged, not only what differs.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Write what was answered into the files, as what is expected.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results there, too, as JUnit's XML.")
    ] = None,
    output: ViewOption = View.TABLE,
) -> None:
    """Run a plugin's cases: pods and nodes, and what the plugin is to say of them; status 1 if one fails."""
    try:
        results = run(
            paths or [Path()],
            module=module,
            engine=engine.value if engine else None,
            name=case,
            is_update=update,
        )
        if junit:
            report.write_junit(junit, results)
    except TestError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{junit or error.filename} cannot be written: {error.strerror}")
    if output is View.JSON:
        write_json(report.as_json(results))
    else:
        show(report.parts(results, is_verbose=verbose))
    if any(each.differences for each in results):
        raise typer.Exit(1)
