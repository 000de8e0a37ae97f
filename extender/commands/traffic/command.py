"""The commands `kwx record` and `kwx replay`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from extender.admin.recording.recorders import MAX_PODS, MAX_RECORDING_S
from extender.commands import terminal
from extender.commands.output import View, ViewOption, fail, write_json
from extender.commands.plugin.remote import LOCAL, Remote, asks_extender, connect
from extender.commands.terminal import Table
from extender.commands.traffic import recording
from extender.commands.traffic.recording import Recording, RecordingError
from extender.commands.traffic.replay import Replayed
from extender.commands.traffic.replay import replay as play
from extender.commands.traffic.sides import ReplayError, Side

MAX_SHOWN: Final = 50
"""Differences that are shown; the JSON has all."""


@asks_extender
def record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; it will hold pods.", show_default=False)],
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of this profile, not of the one of unknown schedulers.")
    ] = None,
    pods: Annotated[int, typer.Option(min=1, max=MAX_PODS, help="Ends after so many.")] = 500,
    seconds: Annotated[float, typer.Option(min=1, max=MAX_RECORDING_S, help="Ends after so long.")] = 60.0,
    remote: Remote = LOCAL,
) -> None:
    """Record what a running extender is asked, for `kwx replay` and `kwx bench plugin`."""
    typer.echo(f"kwx: recording {pods:,} pods, for {seconds:g} s at most; Ctrl-C ends it", err=True)
    with connect(remote) as client:
        try:
            found = recording.record(client, file, profile=profile, pods=pods, seconds=seconds)
        except RecordingError as error:
            fail(str(error))
    dropped = f", {found.dropped:,} more came too quickly" if found.dropped else ""
    typer.echo(f"{file}: {len(found.cycles):,} pods, {len(found.nodes):,} nodes{dropped}")


Config = typer.Option(metavar="TEXT", help="Configuration of its guest.")


def replay(
    file: Annotated[Path, typer.Argument(metavar="RECORDING", help="What `kwx record` wrote.", show_default=False)],
    baseline: Annotated[
        Path,
        typer.Option(metavar="OLD", help="The module that serves, or a configuration (.yaml).", show_default=False),
    ],
    module: Annotated[
        Path,
        typer.Option(metavar="NEW", help="What to compare with it: a module or a configuration.", show_default=False),
    ],
    baseline_config: Annotated[str, Config] = "",
    guest_config: Annotated[str, Config] = "",
    plugin: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose place the module NEW takes in the configuration OLD; by default its namesake's."
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Profile of configurations; by default the recorded one.")
    ] = None,
    output: ViewOption = View.TABLE,
) -> None:
    """Show every verdict and score of recorded pods that would change; status 1 if there is one.

    OLD and NEW are modules, or configurations whose whole profile judges.
    """
    logging.getLogger("extender.scheduling").addHandler(logging.NullHandler())  # Of failures that are ignored.
    old, new = Side(baseline, baseline_config), Side(module, guest_config)
    _check(old, new, plugin, profile)
    try:
        found = play(Recording.read(file).playable(), old, new, profile=profile, plugin=plugin)
    except (RecordingError, ReplayError) as error:
        fail(str(error))
    if output is View.JSON:
        write_json(found._asdict() | {"differences": [each._asdict() for each in found.differences]})
    else:
        _show(found)
    if found.different:
        raise typer.Exit(1)


def _check(old: Side, new: Side, plugin: str | None, profile: str | None) -> None:
    """Refuses options that would have no effect."""
    unused = {
        "--baseline-config": old.guest_config if old.is_configuration else "",
        "--guest-config": new.guest_config if new.is_configuration else "",
        "--plugin": plugin if new.is_configuration or not old.is_configuration else "",
        "--profile": profile if not (old.is_configuration or new.is_configuration) else "",
    }
    for option, given in unused.items():
        if given:
            why = "a configuration has its own" if "config" in option else "it is for configurations"
            raise typer.BadParameter(why, param_hint=f"'{option}'")


def _show(found: Replayed) -> None:
    rows = [
        (f"{each.seconds:.1f}", each.pod, each.verb, each.node or "all", str(each.baseline), str(each.module))
        for each in found.differences[:MAX_SHOWN]
    ]
    parts = [Table(("Second", "Pod", "Verb", "Node", "Old", "New"), rows, {"Second"})] if rows else []
    more = len(found.differences) - len(rows)
    terminal.show([*parts, *([Text(terminal.MORE.format(more))] if more else [])])
    terminal.show([Text(f"{found.different:,} of {found.pods:,} pods are judged otherwise")])
