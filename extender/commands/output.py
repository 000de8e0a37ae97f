"""How commands answer: tables for people or JSON, and why they have failed."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, NoReturn

import msgspec
import typer

from extender.telemetry.printable import escaped, printable_lines


class View(str, Enum):
    """How a command shows what it saw."""

    TABLE = "table"
    JSON = "json"


ViewOption = Annotated[View, typer.Option(help="With json, standard output is the result only.")]


def write_json(value: object) -> None:
    """Writes what msgspec can encode."""
    write_encoded(msgspec.json.format(msgspec.json.encode(value)))


def write_encoded(json: bytes) -> None:
    """Writes JSON as it is, but for what would move the cursor of a terminal."""
    sys.stdout.write(escaped(json.decode()) + "\n")


def fail(message: str) -> NoReturn:
    """Says why the command has failed, and ends it with status 1."""
    typer.echo("kwx: " + printable_lines(message), err=True)
    raise typer.Exit(1)
