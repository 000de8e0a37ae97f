"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from extender.config import quantity

ConfigFile = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="An ExtenderConfiguration.", show_default=False)
]


def check_duration(text: str) -> str:
    """A callback for options: the text of a duration as the configuration writes it. Raises BadParameter."""
    try:
        quantity.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return text


def with_options(
    command: Callable[..., None],
    parameter: str,
    group: Any,
    enter: Callable[[Any], AbstractContextManager[Any]] = nullcontext,
) -> Callable[..., None]:
    """A command with the options of a group in the place of its parameter named `parameter`.

    `group` is a class of NamedTuple whose fields are options, each with a default. The parameter gets an instance of
    the group, or what the context manager `enter` makes of it. An option that both the command and the group have is
    one option, whose value both get. A group that the command was given before is replaced.
    """
    command = inspect.unwrap(command)
    signature = inspect.signature(command, eval_str=True)
    options = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=group._field_defaults[name], annotation=annotation
        )
        for name, annotation in get_type_hints(group, include_extras=True).items()
        if name not in signature.parameters
    ]
    parameters: list[inspect.Parameter] = []
    for name, each in signature.parameters.items():
        parameters += options if name == parameter else [each]

    @wraps(command)
    def grouping(**given: Any) -> None:
        chosen = group(**{name: given[name] for name in group._fields})
        own = {name: given[name] for name in signature.parameters if name != parameter}
        with enter(chosen) as entered:
            command(**{parameter: entered}, **own)

    grouping.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    grouping.__annotations__ = {each.name: each.annotation for each in parameters}
    return grouping
