"""The commands of `kwx plugin`."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
import yaml
from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.text import Text

from extender.admin.api.views import PluginView, RevisionView, RolloutView
from extender.commands import terminal
from extender.commands.option_group import check_duration
from extender.commands.output import ListView, ListViewOption, ObjectView, ObjectViewOption, fail, write
from extender.commands.plugin import table
from extender.commands.plugin.client import AdminClient, RemoteError, plugin_path
from extender.commands.plugin.names import complete_plugins
from extender.commands.plugin.remote import LOCAL, Remote, asks_extender, connect, read
from extender.commands.terminal import Part
from extender.config.yaml_loader import BoundedLoader
from extender.rollouts.revision import RolloutStage
from extender.telemetry.printable import printable

T = TypeVar("T")

app = typer.Typer(
    name="plugin",
    help="Look at the plugins of a running extender, and change what serves.",
    no_args_is_help=True,
    add_completion=False,
)


ProfileOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Profile of the plugin; required if several profiles have a plugin of that name."
    ),
]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Reason, for the history.")]
ExpectOption = Annotated[
    str | None, typer.Option(metavar="REVISION", help="Fail unless this revision is active; its first digits suffice.")
]
NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Start the rollout, and do not wait for its end.")]
TimeoutOption = Annotated[
    str,
    typer.Option(
        metavar="DURATION", callback=check_duration, help="Longest wait for the end of the rollout, as in 90s."
    ),
]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the plugin.", show_default=False, autocompletion=complete_plugins),
]

TIMEOUT: Final = "5m"


@app.command("list")
@asks_extender
def list_plugins(
    remote: Remote = LOCAL,
    profile: ProfileOption = None,
    output: ListViewOption = ListView.TABLE,
) -> None:
    """Show the plugins and their active revisions."""
    with connect(remote) as client:
        known = client.get("/plugins", list[PluginView])
    found = [each for each in known if profile in {None, each.profile}]
    if not found:
        fail(f"no profile is named {profile!r}; there are: {', '.join(dict.fromkeys(each.profile for each in known))}")
    _list(output, found, table.plugins, lambda each: each.name)


@app.command()
@asks_extender
def show(
    name: Name,
    remote: Remote = LOCAL,
    profile: ProfileOption = None,
    output: ObjectViewOption = ObjectView.TABLE,
) -> None:
    """Show everything about a plugin."""
    with connect(remote) as client:
        found = client.get(plugin_path(name), PluginView, profile=profile)
    _print(output, found, table.plugin)


@app.command()
@asks_extender
def revisions(
    name: Name,
    remote: Remote = LOCAL,
    profile: ProfileOption = None,
    output: ListViewOption = ListView.TABLE,
) -> None:
    """Show the revisions of a plugin that a rollback can bring back."""
    with connect(remote) as client:
        found = client.get(f"{plugin_path(name)}/revisions", list[RevisionView], profile=profile)
    _list(output, found, table.revisions, lambda each: each.id)


@app.command()
@asks_extender
def history(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of a plugin.", show_default=False, autocompletion=complete_plugins),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of rollouts.")] = 20,
    remote: Remote = LOCAL,
    profile: ProfileOption = None,
    output: ObjectViewOption = ObjectView.TABLE,
) -> None:
    """Show how rollouts ended, the newest first: who, what, when and why."""
    with connect(remote) as client:
        found = client.get("/history", list[RolloutView], plugin=name, profile=profile, limit=limit)
    _print(output, found, table.history)


@app.command()
@asks_extender
def swap(
    name: Name,
    file: Annotated[Path | None, typer.Option(metavar="MODULE", help="A .wasm file on this machine.")] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Source of the module, for this rollout only: http, https or oci."),
    ] = None,
    revision: Annotated[str | None, typer.Option(metavar="REVISION", help="A revision that has served before.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A key of the plugin in the configuration file, and its value in YAML; repeatable.",
        ),
    ] = None,
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Signature of --file, as cosign sign-blob writes it.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be decided differently.")] = False,
    expect: ExpectOption = None,
    reason: ReasonOption = "",
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT,
    remote: Remote = LOCAL,
    profile: ProfileOption = None,
    output: ObjectViewOption = ObjectView.TABLE,
) -> None:
    """Bring another module or other settings of a plugin live.

    Without --file, --url and --revision the configured source is looked at now.
    """
    if sum(option is not None for option in (file, url, revision)) > 1:
        raise typer.BadParameter("--file, --url and --revision exclude each other")
    if signature and not file:
        raise typer.BadParameter("--signature is for --file")
    keys = _settings(settings or [])
    module = read(file, "'--file'") if file else None
    with connect(remote) as client:
        if module is None:
            order = {"url": url, "revision": revision, "settings": keys, "dryRun": dry_run, **_common(reason, expect)}
            begun = client.post(f"{plugin_path(name)}/swap", order, profile=profile)
        else:
            query = {"profile": profile, "settings": json.dumps(keys), "dryRun": dry_run, **_common(reason, expect)}
            begun = client.put_module(name, module, read_signature(signature) if signature else None, query)
        _finish(client, begun, output, None if no_wait else timeout)


@app.command()
@asks_extender
def rollback(
    name: Name,
    revision: Annotated[
        str | None, typer.Option("--to", metavar="REVISION", help="One that has served before.")
    ] = None,
    expect: ExpectOption = None,
    reason: ReasonOption = "",
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT,
    remote: Remote = LOCAL,
    profile: ProfileOption = None,
    output: ObjectViewOption = ObjectView.TABLE,
) -> None:
    """Bring the last good revision back, or the one that --to names, without a probe."""
    order = {"revision": revision, **_common(reason, expect)}
    with connect(remote) as client:
        begun = client.post(f"{plugin_path(name)}/rollback", order, profile=profile)
        _finish(client, begun, output, None if no_wait else timeout)


def read_signature(file: Path) -> str:
    """The signature in a file as the header X-Signature carries it: text on one line, anything else in base64."""
    content = read(file, "'--signature'")
    return "".join(content.decode().splitlines()).strip() if content.isascii() else base64.b64encode(content).decode()


def _settings(given: Iterable[str]) -> dict[str, Any]:
    """The values of `--set` by their keys. Raises BadParameter."""
    settings: dict[str, Any] = {}
    for each in given:
        key, separator, text = each.partition("=")
        try:
            if not separator or not key:
                raise ValueError("expected KEY=VALUE")
            if key in settings:
                raise ValueError(f"{key} comes twice")
            settings[key] = yaml.load(text, BoundedLoader)
            json.dumps(settings[key], allow_nan=False)
        except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
            raise typer.BadParameter(f"{each}: {' '.join(str(error).split())}", param_hint="'--set'") from error
    return settings


def _common(reason: str, expect: str | None) -> dict[str, str | None]:
    return {"reason": reason, "expectedRevision": expect}


def _finish(client: AdminClient, begun: RolloutView, output: ObjectView, timeout: str | None) -> None:
    """Waits for a rollout at most `timeout`, or not at all if that is None, and shows how far it has come.

    Ends the command with status 1 if the rollout has failed, or goes on after `timeout`.
    """
    rollout = _follow(client, begun, timeout) if timeout and not begun.is_over else begun
    _print(output, rollout, table.outcome)
    if rollout.stage is RolloutStage.FAILED:
        fail(f"{rollout.plugin} of {rollout.profile}: {rollout.message}")
    if timeout and not rollout.is_over:
        fail(f"not over after {timeout}; {_goes_on(rollout)}")


def _follow(client: AdminClient, begun: RolloutView, timeout: str) -> RolloutView:
    """The rollout when it is over, or as it is after `timeout`. Prints its steps to standard error.

    Ctrl-C ends the command with status 130; the rollout goes on.
    """
    last = begun
    console = Console(stderr=True)
    try:
        with console.status("waiting for the extender"):
            for last in client.follow(begun.id, timeout):
                console.print(table.step(last), soft_wrap=True)
    except KeyboardInterrupt:
        typer.echo(f"kwx: {printable(_goes_on(last))}", err=True)
        raise typer.Exit(128 + signal.SIGINT) from None
    except RemoteError as error:
        told = f"rollout {last.id} has begun, kwx plugin history {last.plugin} tells how it ends"
        raise RemoteError(f"{told}; {error}") from error
    return last


def _goes_on(rollout: RolloutView) -> str:
    return f"rollout {rollout.id} goes on in the extender; kwx plugin history {rollout.plugin} tells how it ends"


def _list(output: ListView, found: list[T], shown: Callable[..., Iterable[Part]], name: Callable[[T], str]) -> None:
    """Prints objects, or their names as commands take them."""
    if output is ListView.NAME:
        terminal.show(Text(printable(each)) for each in dict.fromkeys(map(name, found)))
    else:
        _print(output, found, partial(shown, is_wide=output is ListView.WIDE))


def _print(output: ObjectView | ListView, found: T, shown: Callable[[T], Iterable[Part]]) -> None:
    if not write(to_jsonable_python(found), output):
        terminal.show(shown(found))
