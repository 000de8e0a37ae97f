"""`kwx build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from extender.commands.build.errors import BuildError
from extender.commands.build.languages import describe, find
from extender.commands.build.metadata import describe_plugin
from extender.commands.output import fail
from wasm_runtime.module.metadata import embed


def build(
    path: Annotated[
        Path, typer.Argument(metavar="[PATH]", help="A plugin's folder, or its root file; by default here.")
    ] = Path(),
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the module goes; by default into the plugin's folder.")
    ] = None,
    small: Annotated[
        bool,
        typer.Option("--small", help="Leave out what tells where in the sources a plugin in Rust or TypeScript fails."),
    ] = False,
    test: Annotated[bool, typer.Option("--test", help="Run the plugin's unit tests natively instead.")] = False,
) -> None:
    """Build a plugin in Go, Rust, TypeScript or Zig: FOLDER.wasm, the same bytes of the same sources and compiler."""
    try:
        project = find(path)
        if test:
            project.builder.test([project.source])
            return
        project.builder.check()
        folder = out or project.folder
        folder.mkdir(parents=True, exist_ok=True)
        told = describe_plugin(project)
        module = project.builder.build(project.source, folder / f"{project.name}.wasm", readable=not small)
        module.write_bytes(embed(module.read_bytes(), told))
        typer.echo(describe(module))
    except BuildError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}")
