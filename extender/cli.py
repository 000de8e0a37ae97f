"""The command line: kwx."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import msgspec
import typer
import yaml

from extender import demo, logs, process, scheduler_config
from extender.config import ConfigError
from extender.demo import DemoError
from extender.registry import load
from wasm_runtime.engines.wasmtime import WasmtimeEngine

T = TypeVar("T")

app = typer.Typer(
    name="kwx",
    help="Scheduling plugins for a stock kube-scheduler as hot-swapped WebAssembly modules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigFile = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="An ExtenderConfiguration.", show_default=False)
]


class Output(str, Enum):
    """How a command prints data."""

    YAML = "yaml"
    JSON = "json"


class DemoOutput(str, Enum):
    """How `run` prints what it saw."""

    TABLE = "table"
    JSON = "json"


@app.command()
def serve(config: ConfigFile) -> None:
    """Serve the webhook until SIGTERM."""
    logs.configure()
    _or_fail(lambda: process.serve(config))


@app.command()
def run(
    once: Annotated[bool, typer.Option("--once", help="End after the demonstration.")] = False,
    output: Annotated[
        DemoOutput, typer.Option(help="With json, standard output is the result only.")
    ] = DemoOutput.TABLE,
) -> None:
    """Start the extender with the example plugins and play a captured scheduling cycle against it."""
    _or_fail(lambda: demo.run(once=once, as_json=output is DemoOutput.JSON))


@app.command("scheduler-config")
def print_scheduler_config(
    config_file: ConfigFile,
    weight: Annotated[int, typer.Option(min=1, help="Factor of the extender's scores in kube-scheduler.")] = 1,
    url: Annotated[str | None, typer.Option(help="Where kube-scheduler finds the verbs.")] = None,
    node_cache_capable: Annotated[
        bool | None,
        typer.Option(
            "--node-cache-capable/--full-nodes",
            help="Whether requests carry names or whole nodes; by default names where that is enough.",
        ),
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="kube-scheduler's own, outside a pod.")] = None,
    leader_election: Annotated[bool, typer.Option(help="Whether kube-scheduler elects a leader.")] = True,
    output: Annotated[Output, typer.Option(help="Format.")] = Output.YAML,
) -> None:
    """Print the KubeSchedulerConfiguration for a configuration file."""
    choices = scheduler_config.Choices(url, weight, node_cache_capable, kubeconfig, leader_election)

    def build() -> dict[str, object]:
        configuration, registry = load(config_file, WasmtimeEngine())
        try:
            return scheduler_config.build(configuration, registry, choices)
        finally:
            registry.close()

    built = _or_fail(build)
    if output is Output.JSON:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(built)).decode() + "\n")
    else:
        yaml.safe_dump(built, sys.stdout, sort_keys=False)


def _or_fail(action: Callable[[], T]) -> T:
    """Does what may fail by the user's or the machine's fault; then says why and ends with status 1."""
    try:
        return action()
    except (ConfigError, DemoError) as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(f"kwx: {message}", err=True)
    raise typer.Exit(1)


def main() -> None:
    """Runs the command line: status 0 fine, 1 failed, 2 wrong usage."""
    app()
