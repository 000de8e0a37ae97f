"""A file of cases: what a plugin is asked, and what it is expected to answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from extender.commands.test import document, objects
from extender.commands.test.document import Reader, refuse
from extender.commands.test.objects import NodeObject, PodGroup, PodObject

FILE_NAME: Final = "cases.yaml"
"""The name of the files of cases that are run of a folder."""

ANSWERS: Final = ("expect", "preempt", "bind", "waited", "events", "logs", "error")
"""Keys of a step with expected answers, in the order in which the answers come."""


class Change(NamedTuple):
    """The objects that a step puts into the cluster, or removes from it."""

    nodes: Sequence[Any] = ()
    """NodeObjects to put, or names of nodes to remove."""
    pods: Sequence[Any] = ()
    """PodObjects to put, or names of pods to remove."""
    groups: Sequence[PodGroup] = ()


class Step(NamedTuple):
    """One part of a case: the cluster changes, then a pod is judged and may be bound."""

    node: yaml.MappingNode
    """The step's node in the YAML tree, for messages with lines."""
    pod: PodObject | None
    """The pod that is judged; None for a step that only changes the cluster."""
    put: Change
    remove: Change
    bind: str
    """The name of the node that the pod is bound to; empty if it is not bound."""
    victims: Mapping[str, Sequence[str]] | None
    """The names of the pods that preemption would evict, by candidate; None if preempt is not asked."""
    expected: Mapping[str, Any]
    """The expected answers, by the keys of ANSWERS that the file has."""


class Settings(NamedTuple):
    """The settings of the plugin."""

    guest_config: str | None = None
    args: Sequence[str] | None = None


class Case(NamedTuple):
    """A case: steps in a cluster of its own."""

    name: str
    line: int
    settings: Settings
    nodes: Sequence[NodeObject]
    pods: Sequence[PodObject]
    groups: Sequence[PodGroup]
    steps: Sequence[Step]


class Cases(NamedTuple):
    """A file of cases."""

    file: Path
    module: Path | None
    """The module that the file names, if it names one."""
    cases: Sequence[Case]


def read(file: Path) -> Cases:
    """The cases of a file. Raises DocumentError, which names the file, the line and the key."""
    return document.read_file(file, partial(_cases, file))


def _cases(file: Path, node: yaml.Node) -> Cases:
    lists = _lists(file.parent)
    shared = document.keys(node, {"module": document.text, **_SETTINGS, **lists, "cases": document.as_is}, ("cases",))
    read_cases = document.items(partial(_case, shared, lists))
    cases = document.under("cases", read_cases, shared["cases"])
    seen: set[str] = set()
    for case in cases:
        if case.name in seen:
            raise document.DocumentError(f"the name {case.name!r} comes twice; names must differ", case.line)
        seen.add(case.name)
    module = shared.get("module")
    return Cases(file, None if module is None else file.parent / module, cases)


def _case(shared: Mapping[str, Any], lists: Mapping[str, Reader[Any]], node: yaml.Node) -> Case:
    readers = {"name": document.text, **_SETTINGS, **lists}
    if any(name.value == "steps" for name, _ in document.pairs(node)):
        read_step = partial(_step, lists, count(1))
        found = document.keys(node, {**readers, "steps": document.items(read_step)}, ("name", "steps"))
        steps = found["steps"]
    else:
        found = document.keys(node, {**readers, **_step_readers(lists, "pod")}, ("name", "pod"))
        steps = [_made_step(node, found)]
    own = {**shared, **found}
    settings = Settings(own.get("guestConfig"), own.get("args"))
    nodes, pods, groups = (own.get(key, ()) for key in _LISTS)
    return Case(found["name"], document.line(node), settings, nodes, pods, groups, steps)


def _step(lists: Mapping[str, Reader[Any]], numbers: Iterator[int], node: yaml.Node) -> Step:
    return _made_step(node, document.keys(node, _step_readers(lists, f"pod-{next(numbers)}")))


def _step_readers(lists: Mapping[str, Reader[Any]], default_name: str) -> dict[str, Reader[Any]]:
    names = document.items(document.text)
    return {
        "pod": objects.pod(default_name),
        "put": lambda node: Change(**document.keys(node, lists)),
        "remove": lambda node: Change(**document.keys(node, {"nodes": names, "pods": names})),
        **_ANSWERS,
    }


def _made_step(node: yaml.Node, found: Mapping[str, Any]) -> Step:
    expected = {key: found[key] for key in ANSWERS if key in found}
    if found.get("pod") is None:
        for key in expected.keys() - {"waited", "events", "logs"}:
            refuse(node, f"{key} needs a pod; give the step one")
    assert isinstance(node, yaml.MappingNode)
    bind, preempt = expected.get("bind"), expected.get("preempt")
    return Step(
        node,
        found.get("pod"),
        found.get("put", Change()),
        found.get("remove", Change()),
        bind["node"] if bind else "",
        preempt["victims"] if preempt else None,
        expected,
    )


def _verdict(node: yaml.Node) -> Any:
    """An expected verdict: a score, `passes`, or the reason of a rejection, also of one that preemption cannot help."""
    if isinstance(node, yaml.MappingNode):
        return document.keys(node, {"unresolvable": document.text}, ("unresolvable",))
    return document.number(node) if node.tag == "tag:yaml.org,2002:int" else document.text(node)


def _bind(node: yaml.Node) -> dict[str, Any]:
    """The node of a bind, alone or with the expected answer."""
    if isinstance(node, yaml.ScalarNode):
        return {"node": document.text(node)}
    return document.keys(node, _BIND, ("node",))


def _waited(node: yaml.Node) -> Any:
    """The expected end of a wait: the node that the pod is bound to, or why it is not bound."""
    if isinstance(node, yaml.ScalarNode):
        return document.text(node)
    return document.keys(node, {"error": document.text}, ("error",))


def _guest_config(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return document.text(node)
    try:
        return msgspec.json.encode(document.plain(node)).decode()
    except TypeError as error:
        refuse(node, f"cannot be written as JSON: {error}")


def _lists(folder: Path) -> dict[str, Reader[Any]]:
    """Readers of the objects of a cluster by their key; relative paths of files begin at `folder`."""
    return {
        "nodes": objects.several(objects.node, objects.node_object, "nodes", folder),
        "pods": objects.several(objects.pod(""), objects.pod_object, "pods", folder),
        "groups": document.items(objects.group),
    }


_LISTS: Final = ("nodes", "pods", "groups")

_SETTINGS: Final[Mapping[str, Reader[Any]]] = {"guestConfig": _guest_config, "args": document.items(document.text)}

_BIND: Final[Mapping[str, Reader[Any]]] = {
    "node": document.text,
    "annotations": document.by_name(document.text),
    "waits": document.boolean,
    "error": document.text,
}

_EVENT: Final[Mapping[str, Reader[Any]]] = dict.fromkeys(
    ("type", "reason", "action", "note", "regarding", "related"), document.text
)

_PREEMPT: Final[Mapping[str, Reader[Any]]] = {
    "victims": document.by_name(document.items(document.text)),
    "stays": document.items(document.text),
}

_ANSWERS: Final[Mapping[str, Reader[Any]]] = {
    "expect": document.by_name(_verdict),
    "preempt": lambda node: document.keys(node, _PREEMPT, ("victims",)),
    "bind": _bind,
    "waited": document.by_name(_waited),
    "events": document.items(lambda node: document.keys(node, _EVENT)),
    "logs": document.items(document.text),
    "error": document.text,
}
"""The reader of each of ANSWERS."""
