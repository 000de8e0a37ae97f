"""The commands of `kubectl kwx`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from pathlib import Path
from typing import Annotated, Final

import typer

from extender.cluster.waker import NAMESPACE
from extender.commands.call.call import Verb
from extender.commands.call.command import (
    GuestConfigOption,
    ModuleArgument,
    NodesOption,
    PluginOption,
    ProfileOption,
    SignatureOption,
    call_verb,
)
from extender.commands.call.request import STANDARD_INPUT
from extender.commands.doctor.command import doctor
from extender.commands.explain.command import node as explain_node
from extender.commands.explain.command import pod as explain_pod
from extender.commands.kubectl.access import (
    Access,
    ContextOption,
    KubeconfigOption,
    default_namespace,
    reach,
)
from extender.commands.output import ObjectView, View, ViewOption, WideView, WideViewOption
from extender.commands.plugin.commands import list_plugins, rollback, swap
from extender.commands.plugin.remote import LOCAL, Remote, reached_by
from extender.commands.top import top

PODS: Final = {"", "pod", "pods", "po"}
"""Names of the kind Pod before a slash, as in kubectl; without one a target is a pod."""

NODES: Final = {"node", "nodes", "no"}
"""Names of the kind Node, as in kubectl."""

OF_NODES: Final = {WideView.JSON: ObjectView.JSON, WideView.YAML: ObjectView.YAML}
"""The output of a node for the output that the option asks for; for others it is a table."""


PodNamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="The pod's namespace; by default the context's."),
]
ExtenderNamespaceOption = Annotated[
    str, typer.Option("--extender-namespace", metavar="NAME", help="The extender's namespace.")
]


def _in_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """A command of `kwx` whose extender is found in the cluster, and reached by a port-forward."""
    return reached_by(command, Access, reach)


def _check_target(target: str) -> str:
    kind, _, name = target.rpartition("/")
    if not name or kind not in PODS | NODES:
        raise typer.BadParameter("expected NAME, pod/NAME or node/NAME; -n names the pod's namespace")
    return target


@_in_cluster
def explain(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            callback=_check_target,
            help="A pod, as NAME or pod/NAME, or node/NAME.",
            show_default=False,
        ),
    ],
    pod_namespace: PodNamespaceOption = None,
    namespace: ExtenderNamespaceOption = NAMESPACE,  # noqa: ARG001 - it is for the way to the extender
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    remote: Remote = LOCAL,
    on_node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="Of a pod: say what became of this node alone.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Of a node: how many pods.")] = 20,
    output: WideViewOption = WideView.TABLE,
) -> None:
    """Say why a pod is where it is, or nowhere; or what was decided about a node for the last pods."""
    kind, _, name = target.rpartition("/")
    if kind in NODES:
        unwrap(explain_node)(name, remote, limit, OF_NODES.get(output, ObjectView.TABLE))
    else:
        within = pod_namespace or default_namespace(kubeconfig, context)
        unwrap(explain_pod)(f"{within}/{name}", remote, on_node, output)


@_in_cluster
def call(
    verb: Annotated[Verb, typer.Argument(help="filter or prioritize.", show_default=False)],
    module: ModuleArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="POD",
            help="A pod's NAME, or a file with a pod as kubectl prints it; - for standard input.",
            show_default=False,
        ),
    ],
    pod_namespace: PodNamespaceOption = None,
    namespace: ExtenderNamespaceOption = NAMESPACE,  # noqa: ARG001 - it is for the way to the extender
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    nodes: NodesOption = None,
    guest_config: GuestConfigOption = None,
    plugin: PluginOption = None,
    profile: ProfileOption = None,
    signature: SignatureOption = None,
    remote: Remote = LOCAL,
    output: ViewOption = View.TABLE,
) -> None:
    """Say what the extender's plugins, or another module among them, would say of a pod now."""
    request = Path(target)
    if request != STANDARD_INPUT and not request.exists():
        within = pod_namespace or default_namespace(kubeconfig, context)
        request = Path(within) / target.removeprefix("pod/")
    unwrap(call_verb)(
        verb,
        module,
        request,
        nodes=nodes,
        guest_config=guest_config,
        is_live=True,
        plugin=plugin,
        profile=profile,
        signature=signature,
        remote=remote,
        output=output,
    )


in_cluster_plugins = _in_cluster(list_plugins)
in_cluster_swap = _in_cluster(swap)
in_cluster_rollback = _in_cluster(rollback)
in_cluster_doctor = _in_cluster(doctor)
in_cluster_top = _in_cluster(top)
