"""`kwx new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from extender.commands.new.project import LANGUAGES, ProjectError, create
from extender.commands.output import fail


def new(
    language: Annotated[LANGUAGES, typer.Argument(show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the plugin, and of its new folder.")],
) -> None:
    """Make a folder with a new plugin: sources, unit tests, cases, a configuration, a README, CI and the library."""
    try:
        folder = create(language.value, name, Path())
    except ProjectError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}")
    typer.echo(f"{folder} is there. Go on with `kwx build {folder}`, and `kwx test {folder}`; its README.md has more.")
