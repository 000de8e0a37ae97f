"""The cases of a shipped policy: a YAML file beside its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from extender.scheduling import filter as filter_verb
from extender.scheduling import prioritize
from extender.scheduling.profile import Profile, ProfilePlugin
from tests.wasm_runtime.world import World
from wasm_runtime import Nodes, NodeTable, Plugin, Pod
from wasm_runtime.guests.guest import Status
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

Object = dict[str, Any]

POD: Object = {"metadata": {"name": "asks", "namespace": "ns", "uid": "asks"}, "spec": {"containers": [{"name": "c"}]}}


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """What is asked, and what the answers are to be."""

    name: str
    pod: Object
    expect: Mapping[str, Any]
    """By node: the score of one that passes; else the reason, under `unresolvable` if preemption cannot help."""
    guestConfig: Object = {}  # noqa: N815 - as in the extender's configuration
    nodes: Sequence[Object] | None = None
    """None: those of the file. So are the pods."""
    pods: Sequence[Object] | None = None
    bind: Mapping[str, str | None] = {}
    """By node: what the annotation of the pod says that is bound there."""


class Cases(msgspec.Struct, forbid_unknown_fields=True):
    """A file of cases."""

    nodes: Sequence[Object]
    pods: Sequence[Object]
    cases: Sequence[Case]


def read(file: Path) -> list[Case]:
    """The cases of a file, each with all that it needs."""
    found = msgspec.yaml.decode(file.read_bytes(), type=Cases)
    return [
        msgspec.structs.replace(
            case,
            nodes=found.nodes if case.nodes is None else case.nodes,
            pods=found.pods if case.pods is None else case.pods,
        )
        for case in found.cases
    ]


def world_of(case: Case) -> World:
    """The pod of a case on all its nodes."""
    node_table = NodeTable()
    node_table.put((_name(node), encode_node(node)) for node in case.nodes or ())
    node_table.pods.put(
        (_name(pod), ResidentPod(pod["spec"]["nodeName"], encode_pod(_with_uid(pod)))) for pod in case.pods or ()
    )
    asked = {key: {**value, **case.pod.get(key, {})} for key, value in POD.items()}
    return World(Pod("asks", "ns/asks", encode_pod(asked)), Nodes(node_table, list(map(_name, case.nodes or ()))))


def answers(plugin: Plugin, at: World) -> dict[str, Any]:
    """What Filter and Score say, as `expect` has it."""
    profile = Profile("cases", [ProfilePlugin(plugin)])
    verdict = filter_verb.run(profile, at.pod, at.nodes)
    scores = prioritize.run(profile, at.pod, verdict.kept).scores
    passing = dict(zip(verdict.kept.names, scores, strict=True))
    return {
        **passing,
        **verdict.failed,
        **{name: {"unresolvable": reason} for name, reason in verdict.unresolvable.items()},
    }


def reserve(plugin: Plugin, at: World, node: str) -> tuple[Status, dict[str, str]]:
    """What Reserve says of a node, where the pod is expected by then, and which annotations the pod is to get."""
    node_table = at.node_table
    node_table.pods.put([(at.pod.uid, ResidentPod(node, at.pod.object, is_tentative=True))])
    try:
        with plugin.guest(at.pod, nodes := Nodes(node_table, [node]), "bind") as (guest, deadline):
            return guest.reserve(nodes, deadline), guest.binding_annotations(nodes, deadline)
    finally:
        node_table.pods.remove(at.pod.uid)


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def _with_uid(pod: Object) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "uid": _name(pod)}}
