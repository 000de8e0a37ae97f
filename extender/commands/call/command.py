"""The command `kwx call`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_jsonable_python
from rich.text import Text

from extender.admin.api.decision_views import MAX_NODES_SHOWN
from extender.commands.call import live
from extender.commands.call.call import Verb, call
from extender.commands.call.live import WhatIfRequest
from extender.commands.call.options import OptionError, configure
from extender.commands.call.request import CallError, CallInput, read
from extender.commands.call.table import journal, table
from extender.commands.output import EngineName, View, ViewOption, fail, write_encoded, write_json
from extender.commands.plugin.names import complete_plugins
from extender.commands.plugin.remote import LOCAL, Remote, asks_extender, connect
from extender.commands.terminal import show
from extender.config import PluginConfig
from extender.scheduling.judgements import Outcome
from extender.telemetry.printable import printable
from wasm_runtime.supervision import ThreadError

ModuleArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODULE",
        help="A .wasm file; with --live also the id of a revision, or active for what serves.",
        show_default=False,
    ),
]
NodesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The nodes, of which a request may have the names alone: kubectl get nodes -o json."
    ),
]
PluginOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With --live: whose place MODULE takes; by default that of its name.",
        autocompletion=complete_plugins,
    ),
]
ProfileOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --live: by default that of the pod's schedulerName.")
]
SignatureOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --live: of MODULE, as cosign sign-blob writes it.")
]
GuestConfigOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Configuration of the guest.")]


@asks_extender
def call_verb(
    verb: Annotated[Verb, typer.Argument(show_default=False)],
    module: ModuleArgument,
    request: Annotated[
        Path,
        typer.Argument(
            metavar="REQUEST",
            help="A pod as kubectl prints it, or a request as kube-scheduler sends it; - for standard input."
            " With --live a pod, also by its NAMESPACE/NAME in the cluster.",
        ),
    ],
    nodes: NodesOption = None,
    pod: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The pod that bind only names: kubectl get pod NAME -o json.")
    ] = None,
    pods: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The pods on nodes: kubectl get pods -A -o json.")
    ] = None,
    guest_config: GuestConfigOption = None,
    args: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="An argument of the guest, its name first; repeatable.")
    ] = None,
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="Time of the verb, as in 500ms.")] = None,
    memory_limit: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of the guest, as in 256Mi.")] = None,
    log_severity: Annotated[
        int | None,
        typer.Option(min=0, max=3, help="Lowest severity that is logged: 0 info, 1 warning, 2 error, 3 fatal."),
    ] = None,
    engine: Annotated[EngineName, typer.Option(help="What runs the guest.")] = EngineName.WASMTIME,
    extension_points: Annotated[
        str | None, typer.Option(metavar="POINTS", help="Extension points to use, as in preFilter,filter.")
    ] = None,
    is_live: Annotated[
        bool,
        typer.Option(
            "--live", help="Ask a running extender: its nodes, pods and groups, and all plugins of the pod's profile."
        ),
    ] = False,
    plugin: PluginOption = None,
    profile: ProfileOption = None,
    signature: SignatureOption = None,
    remote: Remote = LOCAL,
    output: ViewOption = View.TABLE,
) -> None:
    """Call one verb with one module, without a server; bind is a dry run.

    With --live ask what the plugins of a running extender would say now, and remember nothing of it there.
    """
    given = {
        "guestConfig": guest_config,
        "args": args,
        "timeout": timeout,
        "memoryLimit": memory_limit,
        "logSeverity": log_severity,
        "engine": None if is_live and engine is EngineName.WASMTIME else engine.value,
        "extensionPoints": None if extension_points is None else extension_points.split(","),
    }
    try:
        if is_live:
            _refuse({"--pod": pod, "--pods": pods}, "is not for --live: the extender knows the pods")
            settings = {key: value for key, value in given.items() if value is not None}
            asked = live.read(verb, module, request, nodes, live.Place(plugin, profile, signature), settings)
            _ask(verb, asked, remote, output)
        else:
            _refuse({"--plugin": plugin, "--profile": profile, "--signature": signature}, "is for --live")
            config = configure(module, given)
            _call(verb, module, config, read(verb.value, request, nodes, pod, pods), output)
    except OptionError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{error.option}'") from error
    except (CallError, ThreadError) as error:
        fail(str(error))


def _refuse(options: Mapping[str, object], reason: str) -> None:
    """Raises BadParameter with a reason for the first option that was given."""
    for option, value in options.items():
        if value is not None:
            raise typer.BadParameter(reason, param_hint=f"'{option}'")


def _call(verb: Verb, module: Path, config: PluginConfig, asked: CallInput, output: View) -> None:
    """Calls the verb in this process, and shows the outcome."""
    logging.getLogger("extender.webhook").addHandler(logging.NullHandler())  # The outcome has what the webhook logs.
    outcome = call(verb, module, config, asked)
    if output is View.JSON:
        write_encoded(outcome.body)
    elif not outcome.error:
        show(table(verb, asked.body, outcome))
    show(map(Text, journal(outcome)), stderr=output is View.JSON)
    if outcome.note:
        typer.echo(f"kwx: {printable(outcome.note)}", err=True)
    if outcome.error:
        fail(outcome.error)


def _ask(verb: Verb, asked: WhatIfRequest, remote: Remote, output: View) -> None:
    """Asks a running extender, and shows its answer."""
    with connect(remote) as client:
        found = client.judge(asked.body, profile=asked.profile, limit=MAX_NODES_SHOWN)
    if output is View.JSON:
        write_json(to_jsonable_python(found, by_alias=True))
    elif found.outcome is not Outcome.FAILED:
        show(live.table(verb, asked, found))
    for each in found.ignored:
        typer.echo(f"kwx: left out: {printable(each)}", err=True)
    if found.outcome is Outcome.FAILED:
        fail(found.message)
