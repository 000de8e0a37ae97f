"""`kwx bench`, which the harness has."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False)


@app.command(
    "bench",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(context: typer.Context) -> None:
    """Measure what the extender costs, beside in-process plugins and an extender in Go."""
    from bench import cli  # noqa: PLC0415 - the reference of commands does without it

    cli.app(context.args, prog_name="kwx bench")
