"""How commands write results, as tables for people or as JSON, and how they fail."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, Any, Final, NoReturn

import msgspec
import typer
import yaml

from extender.telemetry.printable import escaped, printable_lines


class View(str, Enum):
    """Forms of the output of commands whose result is their own."""

    TABLE = "table"
    JSON = "json"


class ObjectView(str, Enum):
    """Forms of the output of commands that show objects of a running extender."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class WideView(str, Enum):
    """Forms as ObjectView; `wide` is a table that leaves nothing out."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class ListView(str, Enum):
    """Forms of a list: as WideView; `name` prints the names alone, a line each."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class EngineName(str, Enum):
    """The engines that run guests."""

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
    """Writes any value that msgspec can encode to standard output, as indented JSON."""
    write_encoded(msgspec.json.format(msgspec.json.encode(value)))


def write(value: Any, output: ObjectView | WideView | ListView) -> bool:
    """Writes a value in JSON or YAML if `output` asks for one. Returns False if it asks for a table or names."""
    if output.value == "json":
        write_json(value)
    elif output.value == "yaml":
        yaml.safe_dump(msgspec.to_builtins(value), sys.stdout, sort_keys=False)
    return output.value in {"json", "yaml"}


def write_encoded(json: bytes) -> None:
    """Writes JSON to standard output; characters that would move the cursor of a terminal are escaped."""
    sys.stdout.write(escaped(json.decode()) + "\n")


def fail(message: str) -> NoReturn:
    """Says on standard error why the command has failed, and ends it with status 1."""
    typer.echo("kwx: " + printable_lines(message), err=True)
    raise typer.Exit(1)
