"""The command line: kwx."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Annotated, TypeVar

import typer
import yaml
from rich.text import Text

from extender.commands import call, demo, inspect, plugin, scheduler_config
from extender.commands.call import CallError, OptionError
from extender.commands.demo import DemoError
from extender.commands.inspect import InspectionError
from extender.commands.output import View, ViewOption, fail, write_encoded, write_json
from extender.commands.scheduler_config import IgnorableError
from extender.commands.terminal import show
from extender.config import ConfigError
from extender.rollouts import load
from extender.serve import process
from extender.telemetry import logs
from extender.telemetry.printable import printable
from wasm_runtime.supervision import ThreadError

T = TypeVar("T")

app = typer.Typer(
    name="kwx",
    help="Scheduling plugins for a stock kube-scheduler as hot-swapped WebAssembly modules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(plugin.app)

ConfigFile = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="An ExtenderConfiguration.", show_default=False)
]


class Output(str, Enum):
    """How a command prints data."""

    YAML = "yaml"
    JSON = "json"


class EngineName(str, Enum):
    """What runs guests."""

    WASMTIME = "wasmtime"
    WASMER = "wasmer"


Module = Annotated[Path, typer.Argument(metavar="MODULE", help="A .wasm file.", show_default=False)]


@app.command()
def serve(config: ConfigFile) -> None:
    """Serve the webhook until SIGTERM."""
    logs.configure()
    _or_fail(lambda: process.serve(config))


@app.command()
def run(
    once: Annotated[bool, typer.Option("--once", help="End after the demonstration.")] = False,
    output: ViewOption = View.TABLE,
) -> None:
    """Start the extender with the example plugins and play a captured scheduling cycle against it."""
    _or_fail(lambda: demo.run(once=once, as_json=output is View.JSON))


@app.command("inspect")
def inspect_module(module: Module, output: ViewOption = View.TABLE) -> None:
    """Show what a module serves, what it asks for and where it runs; status 1 if it cannot be a plugin.

    Of the module only the start and enqueue are run.
    """
    report = _or_fail(lambda: inspect.inspect(module))
    if output is View.JSON:
        write_json(report)
    else:
        show(map(Text, inspect.lines(report)))
    if report.problems:
        raise typer.Exit(1)


@app.command(
    "bench",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(context: typer.Context) -> None:
    """Measure what the extender costs, beside in-process plugins and an extender in Go."""
    from bench import cli  # noqa: PLC0415 - no other command needs what it imports

    cli.app(context.args, prog_name="kwx bench")


@app.command("call")
def call_verb(
    verb: Annotated[call.Verb, typer.Argument(show_default=False)],
    module: Module,
    request: Annotated[
        Path, typer.Argument(metavar="REQUEST.json", help="A request as kube-scheduler sends it; - for standard input.")
    ],
    nodes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The nodes that the request only names: kubectl get nodes -o json."),
    ] = None,
    pod: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The pod that bind only names: kubectl get pod NAME -o json.")
    ] = None,
    pods: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The pods on nodes: kubectl get pods -A -o json.")
    ] = None,
    guest_config: Annotated[str | None, typer.Option(metavar="TEXT", help="Configuration of the guest.")] = None,
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
    output: ViewOption = View.TABLE,
) -> None:
    """Call one verb with one module, without a server; bind is a dry run."""
    given = {
        "guestConfig": guest_config,
        "args": args,
        "timeout": timeout,
        "memoryLimit": memory_limit,
        "logSeverity": log_severity,
        "engine": engine.value,
        "extensionPoints": None if extension_points is None else extension_points.split(","),
    }
    try:
        config = call.configure(module, given)
    except OptionError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{error.option}'") from error
    logging.getLogger("extender.webhook").addHandler(logging.NullHandler())  # The outcome has what it logs.
    asked = _or_fail(lambda: call.read(request, nodes, pod, pods))
    outcome = _or_fail(lambda: call.call(verb, module, config, asked))
    if output is View.JSON:
        write_encoded(outcome.body)
    elif not outcome.error:
        show(call.table(verb, asked.body, outcome))
    show(map(Text, call.journal(outcome)), stderr=output is View.JSON)
    if outcome.note:
        typer.echo(f"kwx: {printable(outcome.note)}", err=True)
    if outcome.error:
        fail(outcome.error)


@app.command("scheduler-config")
def print_scheduler_config(
    config_file: ConfigFile,
    weight: Annotated[int, typer.Option(min=1, help="Weight of the extender's scores in kube-scheduler.")] = 1,
    url: Annotated[str | None, typer.Option(help="URL at which kube-scheduler reaches the verbs.")] = None,
    node_cache_capable: Annotated[
        bool | None,
        typer.Option(
            "--node-cache-capable/--full-nodes",
            help="Whether requests carry names or whole nodes; by default names where that is enough.",
        ),
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="The kubeconfig of kube-scheduler, outside a pod.")] = None,
    leader_election: Annotated[bool, typer.Option(help="Whether kube-scheduler elects a leader.")] = True,
    ignorable: Annotated[
        bool, typer.Option("--ignorable", help="Let kube-scheduler go on without the extender when it fails.")
    ] = False,
    output: Annotated[Output, typer.Option(help="Format.")] = Output.YAML,
) -> None:
    """Print the KubeSchedulerConfiguration for a configuration file."""
    choices = scheduler_config.Choices(url, weight, node_cache_capable, kubeconfig, leader_election, ignorable)

    def build() -> tuple[dict[str, object], list[str]]:
        with closing(load(config_file)) as loaded:
            built = scheduler_config.build(loaded.configuration, loaded.live.profiles, choices)
            return built, list(scheduler_config.notes(loaded.configuration))

    built, notes = _or_fail(build)
    for note in notes:
        typer.echo(f"kwx: {note}", err=True)
    if output is Output.JSON:
        write_json(built)
    else:
        yaml.safe_dump(built, sys.stdout, sort_keys=False)


def _or_fail(action: Callable[[], T]) -> T:
    """Does what may fail by the user's or the machine's fault; then says why and ends with status 1."""
    try:
        return action()
    except (CallError, ConfigError, DemoError, IgnorableError, InspectionError, ThreadError) as error:
        fail(str(error))


def main() -> None:
    """Runs the command line: status 0 fine, 1 failed, 2 wrong usage."""
    app()
