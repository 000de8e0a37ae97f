"""The command `kwx scheduler-config`."""

from __future__ import annotations

import sys
from contextlib import closing
from enum import Enum
from typing import Annotated

import typer
import yaml

from extender.commands.option_group import ConfigFile
from extender.commands.output import fail, write_json
from extender.commands.scheduler_config.document import CERTIFICATES, Choices, RegistrationError, build, notes
from extender.config import ConfigError
from extender.rollouts import load
from extender.rollouts.registration import Registration
from wasm_runtime.supervision import ThreadError


class Output(str, Enum):
    """How the configuration is printed."""

    YAML = "yaml"
    JSON = "json"


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
    ca_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help=f"CA of the extender, as kube-scheduler finds it; by default {CERTIFICATES}/ca.crt. For server.tls.",
        ),
    ] = None,
    cert_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help=f"Certificate of kube-scheduler; by default {CERTIFICATES}/tls.crt. For server.tls."
        ),
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help=f"Its key; by default {CERTIFICATES}/tls.key. For server.tls."),
    ] = None,
    server_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name in the extender's certificate, if the URL has another one."),
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Format.")] = Output.YAML,
) -> None:
    """Print the KubeSchedulerConfiguration for a configuration file."""
    choices = Choices(
        url,
        weight,
        node_cache_capable,
        kubeconfig,
        leader_election,
        ignorable,
        ca_file,
        cert_file,
        key_file,
        server_name,
    )

    try:
        with closing(load(config_file)) as loaded:
            built = build(Registration.of(loaded.configuration, loaded.live), choices)
            told = list(notes(loaded.configuration))
    except (ConfigError, RegistrationError, ThreadError) as error:
        fail(str(error))
    for note in told:
        typer.echo(f"kwx: {note}", err=True)
    if output is Output.JSON:
        write_json(built)
    else:
        yaml.safe_dump(built, sys.stdout, sort_keys=False)
