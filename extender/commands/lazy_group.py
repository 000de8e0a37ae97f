"""A group of commands, each of which is imported when it is used, so that no command waits for another's imports."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any, ClassVar, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

HELP: Final = {"help_option_names": ["--help", "-h"]}
"""Settings of click by which a group and all commands in it have `-h` as well as `--help`."""


class Entry(NamedTuple):
    """A command that is not imported yet."""

    target: str
    """A function, or a Typer of one or several commands, as `module:name`."""
    help: str
    """The first paragraph of its help, which the help of the group shows."""


class LazyGroup(TyperGroup):
    """The class of the group of a Typer (its argument `cls`)."""

    entries: ClassVar[Mapping[str, Entry]] = {}
    """The commands by their names, in the order of the help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.entries)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as the base has it
        """The names of the commands. The base class would import each command for this."""
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002 - as the base has it
        """A command as help and completion show it, without importing it."""
        entry = self.entries.get(cmd_name)
        return TyperCommand(cmd_name, help=entry.help) if entry else None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is run, or whose options are completed; it is imported."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, self.commands[name] if name else None, rest


class _Commands(UserDict[str, Any]):
    """Commands that are imported when they are looked at."""

    def __getitem__(self, name: str) -> Any:
        found = resolve_name(self.data[name].target)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False)
            found.command(name)(function)
        return get_command(found)
