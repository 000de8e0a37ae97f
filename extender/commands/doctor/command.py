"""The command `kwx doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio
import typer

from extender.cluster.waker import NAMESPACE
from extender.commands.doctor import report
from extender.commands.doctor.check import Examination, Severity, examine
from extender.commands.doctor.checks import CHECKS
from extender.commands.doctor.gather import Places, UsageError, gather
from extender.commands.output import ObjectView, ObjectViewOption, fail, write
from extender.commands.plugin.remote import LOCAL, Remote, asks_extender, read_tls, read_token
from extender.commands.terminal import show
from extender.config import ConfigError


@asks_extender
def doctor(
    scheduler_config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The KubeSchedulerConfiguration: a file, configmap/NAME or configmap/NAMESPACE/NAME;"
            " by default the ConfigMap that kube-scheduler mounts.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The extender's configuration; by default the running extender is asked for it."
        ),
    ] = None,
    remote: Remote = LOCAL,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="The extender's namespace.")
    ] = NAMESPACE,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How to reach the cluster; by default as kubectl does.")
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")] = None,
    output: ObjectViewOption = ObjectView.TABLE,
) -> None:
    """Look for mismatches of kube-scheduler's configuration, the extender's and the cluster; status 1 after an error.

    Nothing is changed. What cannot be read is told, and its checks are left out.
    """
    token = read_token(remote.token_file) if remote.token_file else None
    places = Places(namespace, scheduler_config, config, remote.server, token, read_tls(remote), kubeconfig, context)
    try:
        found: Examination = examine(anyio.run(gather, places), CHECKS)
    except (ConfigError, UsageError) as error:
        fail(str(error))
    if not write(report.document(found), output):
        show(report.table(found))
    if found.count(Severity.ERROR) or len(found.left_out) == found.checks:
        raise typer.Exit(1)
