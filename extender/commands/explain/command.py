"""The commands of `kwx explain`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer
from pydantic_core import to_jsonable_python

from extender.admin.api.decision_views import MAX_NODES_SHOWN, DecisionView
from extender.commands.explain import report
from extender.commands.output import ObjectView, ObjectViewOption, WideView, WideViewOption, write
from extender.commands.plugin.remote import LOCAL, Remote, asks_extender, connect
from extender.commands.terminal import show

app = typer.Typer(
    name="explain",
    help="Say why a pod is where it is, or nowhere, by what a running extender remembers.",
    no_args_is_help=True,
    add_completion=False,
)


def _check_pod(name: str) -> str:
    namespace, slash, pod = name.partition("/")
    if not (namespace and slash and pod):
        raise typer.BadParameter("expected NAMESPACE/NAME, as in default/web-1")
    return name


@app.command()
@asks_extender
def pod(
    name: Annotated[
        str, typer.Argument(metavar="NAMESPACE/NAME", callback=_check_pod, help="The pod.", show_default=False)
    ],
    remote: Remote = LOCAL,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Say what became of this node alone.")] = None,
    output: WideViewOption = WideView.TABLE,
) -> None:
    """Say why a pod was bound to its node, or why no node took it. It may be pending, bound or gone."""
    namespace, _, pod = name.partition("/")
    path = f"/decisions/{quote(namespace, safe='')}/{quote(pod, safe='')}"
    with connect(remote) as client:
        found = client.get(path, list[DecisionView], node=node, limit=MAX_NODES_SHOWN)
    if not write(to_jsonable_python(found, by_alias=True), output):
        most = MAX_NODES_SHOWN if output is WideView.WIDE else report.MAX_SHOWN
        show(report.pod(found, most) if node is None else report.pod_on_node(found, node))


@app.command()
@asks_extender
def node(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node.", show_default=False)],
    remote: Remote = LOCAL,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many pods.")] = 20,
    output: ObjectViewOption = ObjectView.TABLE,
) -> None:
    """Say what was decided about a node for the last pods."""
    with connect(remote) as client:
        found = client.get("/decisions", list[DecisionView], node=name, limit=limit)
    if not write(to_jsonable_python(found, by_alias=True), output):
        show(report.node(found, name))
