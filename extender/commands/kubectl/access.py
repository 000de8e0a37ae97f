"""The options by which `kubectl kwx` finds an extender, and how it is reached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import anyio
import typer

from extender.cluster.client.access import (
    current_context,
    from_kubeconfigs,
    from_service_account,
    kubeconfig_files,
    pod_namespace,
)
from extender.cluster.client.api import ApiServer
from extender.cluster.client.errors import ClusterError
from extender.cluster.waker import NAMESPACE
from extender.commands.kubectl.pods import find
from extender.commands.output import fail
from extender.commands.plugin.client import RemoteError
from extender.commands.plugin.remote import CaOption, CertOption, KeyOption, Remote, TokenOption

if TYPE_CHECKING:  # It is imported where the cluster is asked: help and completion do without it.
    from kubernetes.client import Configuration

KubeconfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="How to reach the cluster; by default as kubectl does.")
]
ContextOption = Annotated[str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="The extender's namespace.")]
AllOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look for the extender in all namespaces.")]
PodOption = Annotated[
    str | None, typer.Option("--pod", metavar="NAME", help="The extender's pod, if there are several.")
]

DEFAULT_NAMESPACE: Final = "default"


class Access(NamedTuple):
    """Which extender of which cluster is asked, and as which user."""

    kubeconfig: KubeconfigOption = None
    context: ContextOption = None
    namespace: NamespaceOption = NAMESPACE
    all_namespaces: AllOption = False
    pod: PodOption = None
    token_file: TokenOption = None
    ca_file: CaOption = None
    cert_file: CertOption = None
    key_file: KeyOption = None


@contextmanager
def reach(access: Access) -> Iterator[Remote]:
    """The extender, by a port-forward that lasts as long as the context. A failure ends the command with status 1."""
    from extender.commands.kubectl.forward import LOOPBACK, forwarded  # noqa: PLC0415

    try:
        configuration = _configuration(access.kubeconfig, access.context)
        api = ApiServer(lambda: configuration, "the kubeconfig")
        pod = anyio.run(find, api, None if access.all_namespaces else access.namespace, access.pod)
    except (ClusterError, RemoteError) as error:
        fail(str(error))
    scheme = "https" if access.ca_file else "http"
    with forwarded(configuration, pod) as forward:
        server = f"{scheme}://{LOOPBACK}:{forward.port}"
        try:
            yield Remote(server, access.token_file, access.ca_file, access.cert_file, access.key_file)
        except typer.Exit as end:
            if end.exit_code and forward.problem:
                fail(forward.problem)
            raise


def default_namespace(kubeconfig: Path | None, context: str | None) -> str:
    """The namespace that kubectl would use: that of the kubeconfig's context."""
    from kubernetes.config import list_kube_config_contexts  # noqa: PLC0415

    try:
        files = kubeconfig_files(kubeconfig)
        if not files:
            return pod_namespace()
        contexts, _ = list_kube_config_contexts(os.pathsep.join(map(str, files)))
        name = context or current_context(files)
    except ClusterError as error:
        fail(str(error))
    namespaces = {each["name"]: each["context"].get("namespace") for each in contexts}
    return str(namespaces.get(name) or DEFAULT_NAMESPACE)


def _configuration(kubeconfig: Path | None, context: str | None) -> Configuration:
    """How the cluster is reached, as kubectl would find it. Raises AccessError."""
    files = kubeconfig_files(kubeconfig)
    return from_kubeconfigs(files, context) if files else from_service_account()
