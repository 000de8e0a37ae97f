"""How commands answer: tables for people or JSON, and why they have failed."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, Any, Final, NoReturn

import msgspec
import typer
import yaml

from extender.telemetry.printable import escaped, printable_lines


class View(str, Enum):
    """How a command shows what it saw."""

    TABLE = "table"
    JSON = "json"


class ObjectView(str, Enum):
    """How a command shows what an extender has told."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class WideView(str, Enum):
    """The same with a table of everything."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class ListView(str, Enum):
    """The same of a list, or its names alone, a line each."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class EngineName(str, Enum):
    """What runs guests."""

    WASMTIME = "wasmtime"
    WASMER = "wasmer"


ViewOption = Annotated[View, typer.Option("--output", "-o", help="With json, standard output is the result only.")]

_TEXT: Final = "With json or yaml, standard output is the result only"
ObjectViewOption = Annotated[ObjectView, typer.Option("--output", "-o", help=f"{_TEXT}.")]
WideViewOption = Annotated[WideView, typer.Option("--output", "-o", help=f"{_TEXT}; wide leaves nothing out.")]
ListViewOption = Annotated[
    ListView, typer.Option("--output", "-o", help=f"{_TEXT}; wide has more columns, name the names alone.")
]


def write_json(value: object) -> None:
    """Writes what msgspec can encode."""
    write_encoded(msgspec.json.format(msgspec.json.encode(value)))


def write(value: Any, output: ObjectView | WideView | ListView) -> bool:
    """Writes a value in JSON or YAML if one is asked for. Returns whether it was."""
    if output.value == "json":
        write_json(value)
    elif output.value == "yaml":
        yaml.safe_dump(msgspec.to_builtins(value), sys.stdout, sort_keys=False)
    return output.value in {"json", "yaml"}


def write_encoded(json: bytes) -> None:
    """Writes JSON as it is, but for what would move the cursor of a terminal."""
    sys.stdout.write(escaped(json.decode()) + "\n")


def fail(message: str) -> NoReturn:
    """Says why the command has failed, and ends it with status 1."""
    typer.echo("kwx: " + printable_lines(message), err=True)
    raise typer.Exit(1)
