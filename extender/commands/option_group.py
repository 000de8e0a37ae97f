"""Options that several commands have alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

ConfigFile = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="An ExtenderConfiguration.", show_default=False)
]


def with_options(
    command: Callable[..., None],
    parameter: str,
    group: Any,
    enter: Callable[[Any], AbstractContextManager[Any]] = nullcontext,
) -> Callable[..., None]:
    """Gives a command a group of options in the place of one of its parameters.

    `group` is a NamedTuple of options, each with a default. The parameter gets one, or what `enter` makes of it. An
    option that the command has itself, by the name of its parameter, is asked for once and is both's. The group takes
    the place of one that the command was given before.
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
