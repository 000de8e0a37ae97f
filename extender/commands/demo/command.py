"""The command `kwx run`."""

from __future__ import annotations

from typing import Annotated

import typer

from extender.commands.demo import demo
from extender.commands.output import View, ViewOption, fail
from wasm_runtime.supervision import ThreadError


def run(
    once: Annotated[bool, typer.Option("--once", help="End after the demonstration.")] = False,
    output: ViewOption = View.TABLE,
) -> None:
    """Start the extender with the example plugins and play a captured scheduling cycle against it."""
    try:
        demo.run(once=once, as_json=output is View.JSON)
    except (demo.DemoError, ThreadError) as error:
        fail(str(error))
