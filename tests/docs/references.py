"""Writes the references in docs/reference that are made of the code: `python -m tests.docs.references`."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.main import get_command

from bench.cli import app as bench
from extender.commands.cli import app as kwx
from extender.commands.doctor.checks import CHECKS
from extender.commands.doctor.facts import SOURCES
from extender.commands.kubectl.cli import app as kubectl
from extender.config import Address, ExtenderConfiguration, quantity

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference"

MADE: Final = "<!-- Made by `python -m tests.docs.references`; change the code instead. -->"

CONFIGURATION: Final = f"""{MADE}

# Configuration

`kwx serve` reads one YAML file, an `ExtenderConfiguration` of `kwx.dev/v1alpha1`. An unknown key is an error. The
extender follows the file while it runs. Changes of `profiles` go live at once, changes of the other keys after a
restart. SIGHUP makes the extender read the file immediately.

A *duration* is written as `500ms`, `2s`, `5m` or `1h`, and is at most one hour. A *size* is written as `8Ki`, `64Mi` or
`1Gi`. A relative *path* begins at the directory of the file.
"""

COMMANDS: Final = f"""{MADE}

# Commands

Each command has `--help` and `-h`. `kwx --version` shows the release. `kwx --install-completion` teaches your shell to
complete commands, options and the names of plugins; `kwx --show-completion` prints what that needs. kubectl's own
completion completes [`kubectl kwx`](../how-to/run-in-a-cluster.md#ask-it-by-kubectl-kwx).

## Exit status

| status | means |
|---|---|
| 0 | Success. `kwx serve` ends with it after SIGTERM. |
| 1 | Failure; standard error says why. Also what a command was to find: a module that cannot be a plugin \
(`inspect`), an error (`doctor`), a case that fails (`test`), a changed verdict or score (`replay`), a missing \
signature (`verify`), a figure that is surely worse (`bench compare`). |
| 2 | Wrong usage. From `bench compare` also that the runs cannot be compared. |
| 3 | The runs tell nothing; only from `bench compare`. |
| 130 | Ended by Ctrl-C. A rollout that was waited for goes on. |
"""

DOCTOR: Final = f"""{MADE}

# Checks of kwx doctor

[`kwx doctor`](cli.md#kwx-doctor) makes these checks. The names stay as they are, so scripts may go by them
(`--output json`). A check is left out if something that it reads cannot be read.

- *error*: pods are not scheduled, or not as the plugins say. The command ends with status 1.
- *warning*: something is not what it seems, or will go wrong one day.
- *info*: something costs more than it needs to.

| check | severity | finds | reads |
|---|---|---|---|
"""

BOUNDS: Final = ((Ge, "ge", "at least"), (Gt, "gt", "above"), (Le, "le", "at most"))

TYPES: Final = {
    bool: "`true` or `false`",
    float: "number",
    int: "number",
    str: "text",
    Path: "path",
    Address: "address",
}


def configuration() -> str:
    """The reference of the configuration file."""
    return "\n".join([CONFIGURATION, *_models("", ExtenderConfiguration)])


def commands() -> str:
    """The reference of the command line."""
    groups = {"kwx": kwx, "kwx bench": bench, "kubectl kwx": kubectl}
    parts = [part for name, group in groups.items() for part in _commands(name, get_command(group))]
    return "\n".join([COMMANDS, *parts])


def doctor() -> str:
    """The reference of the checks of `kwx doctor`."""
    rows = [
        f"| `{check.id}` | {check.severity.value} | {check.about} |"
        f" {', '.join(dict.fromkeys(map(SOURCES.__getitem__, check.reads)))} |"
        for check in CHECKS
    ]
    return DOCTOR + "\n".join([*rows, ""])


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "configuration.md": configuration,
    "cli.md": commands,
    "doctor.md": doctor,
}


def _models(path: str, model: type[BaseModel]) -> Iterator[str]:
    """A section with a table for a model, and one for each model in it; `path` is where it is in the file."""
    told = _docstrings(model)
    within: dict[str, type[BaseModel]] = {}
    yield f"## {path or 'The file'}\n\n{_text(model.__doc__)}\n"
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for name, field in model.model_fields.items():
        meaning = told.get(name)
        for each in (field.annotation, *get_args(field.annotation)):
            if inspect.isclass(each) and issubclass(each, BaseModel):
                within[f"{path}.{field.alias}".lstrip(".") + "[]" * (each is not field.annotation)] = each
                meaning = meaning or each.__doc__
        assert meaning, f"{model.__name__}.{name} needs a docstring"
        kind = _kind(field.annotation, field.metadata)
        yield f"| `{field.alias}` | {kind} | {_default(field)} | {_text(meaning)} |"
    yield ""
    for where, each in within.items():
        yield from _models(where, each)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field of a model."""
    (body,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: below.value.value
        for field, below in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _kind(annotation: Any, metadata: Sequence[Any]) -> str:
    """What a user writes as a value of a type; `metadata` is that of Annotated."""
    unit = _unit(metadata)
    bounds = [
        f"{word} {_written(getattr(each, name), unit)}"
        for each in metadata
        for kind, name, word in BOUNDS
        if isinstance(each, kind)
    ]
    return ", ".join([unit or _type(annotation), *bounds])


def _unit(metadata: Iterable[Any]) -> str:
    readers = {getattr(each, "func", None) for each in metadata}
    return "duration" if quantity.seconds in readers else "size" if quantity.size in readers else ""


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kind = _kind(arguments[0], arguments[1:])
    elif origin is Literal:
        kind = _either(arguments)
    elif origin in {Union, UnionType}:
        kind = " or ".join(_type(each) for each in arguments if each is not NoneType)
    elif origin is tuple:
        kind = f"list of {_type(arguments[0])}".replace("mapping", "mappings")
    elif issubclass(annotation, BaseModel):
        kind = "mapping"
    elif issubclass(annotation, Enum):
        kind = _either(each.value for each in annotation)
    else:
        kind = TYPES[annotation]
    return kind


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is None or isinstance(field.default, BaseModel):
        return ""
    return f"`{_written(field.default, _unit(field.metadata))}`"


def _written(value: Any, unit: str) -> str:
    """A value as it is written in the file."""
    if isinstance(value, Enum):
        value = value.value
    if unit == "duration":
        return f"{value:g}s" if value >= 1 else f"{value * 1000:g}ms"
    if unit == "size":
        return next(f"{value >> by}{name}" for by, name in ((20, "Mi"), (10, "Ki"), (0, "")) if not value % (1 << by))
    return str(value) if value and isinstance(value, str | Path | Address) else json.dumps(value)


def _commands(prefix: str, group: Any) -> Iterator[str]:
    """A section for each command of a group, and of the groups in it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(f"{prefix} {name}", command)
        elif not command.context_settings.get("ignore_unknown_options"):  # kwx bench has sections of its own.
            yield from _command(f"{prefix} {name}", command)


def _command(name: str, command: Any) -> Iterator[str]:
    signature = inspect.signature(command.callback, eval_str=True)
    kinds = {each.name: each.annotation for each in signature.parameters.values()}
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = [name, *["[OPTIONS]"][: len(options)], *map(_argument, arguments)]
    yield f"## {name}\n\n    {' '.join(usage)}\n\n{inspect.cleandoc(command.callback.__doc__)}\n"
    if arguments:
        yield "| argument | meaning |\n|---|---|"
        yield from (f"| `{_argument(each)}` | {_meaning(each, kinds[each.name])} |" for each in arguments)
        yield ""
    if options:
        yield "| option | value | default | meaning |\n|---|---|---|---|"
        yield from (_option(each, kinds[each.name]) for each in options)
        yield ""


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _option(option: Any, kind: Any) -> str:
    names = ", ".join(f"`{each}`" for each in [*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else option.metavar or _value(kind)
    default = option.default.value if isinstance(option.default, Enum) else option.default
    if isinstance(option.show_default, str):
        default = option.show_default
    shown = "required" if option.required else "" if option.is_flag or default in {None, ""} else f"`{default}`"
    return f"| {names} | {value} | {shown} | {_meaning(option, kind)} |"


def _meaning(parameter: Any, kind: Any) -> str:
    variable = f"The variable `{parameter.envvar}` sets it too." if parameter.envvar else ""
    return " ".join(filter(None, [_text(parameter.help) or _value(kind), variable]))


def _value(kind: Any) -> str:
    """What a user writes as a value of a type, which may be optional or repeatable."""
    while get_args(kind):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if issubclass(kind, Enum):
        return _either(each.value for each in kind)
    return {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "FILE"}[kind]


def _either(values: Iterable[object]) -> str:
    return " or ".join(f"`{each}`" for each in values)


def _text(text: str | None) -> str:
    """A docstring or help on one line of a table."""
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    for page, make in PAGES.items():
        (FOLDER / page).write_text(make(), encoding="utf-8")
