"""How a row of the table is played: what is asked of the guest, in which pod's cycle, and what comes back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from tests.upstream.first_values import with_globals
from tests.wasm_runtime.world import World, world
from wasm_runtime import GuestError, ModuleError, Nodes, Plugin, Pod, Settings
from wasm_runtime.abi import Code, GuestResult, HostDocument
from wasm_runtime.engine import Call, CallResult, Engine, GuestEvent, GuestJournal, Log, Module, NodeResults, NoHandle
from wasm_runtime.guests.guest import CycleStage, PreFilter, Status
from wasm_runtime.protobuf import encode_node, encode_pod

Object = Mapping[str, Any]

NODE = "good-node"
POD: Object = {
    "metadata": {"name": "good-pod", "namespace": "test", "uid": "384900cd-dc7b-41ec-837e-9c4c1762363e"},
    "spec": {"nodeName": NODE},
}
WAITING_POD: Object = {
    "metadata": {"name": "handle-pod", "namespace": "test", "uid": "handle-test"},
    "spec": {"nodeName": NODE},
}


def named(name: str) -> Object:
    """An object that has nothing but a name."""
    return {"metadata": {"name": name}}


class Failed(NamedTuple):
    """What a verb is told instead of an answer."""

    error: str
    """The whole error; of a trap without the backtrace, which changes with every build of a guest."""

    @classmethod
    def by(cls, error: Exception) -> Failed:
        return cls(re.sub(r"(trap: [a-z ]+?) in [^;]+", r"\1", str(error)))


@dataclass(frozen=True)
class Row:
    """One thing that is asked of a guest."""

    case: str
    """The case of upstream's tests: its function and name. Empty where they have none."""
    asked: str
    """A name of `CALLS`."""
    expected: object
    """The answer, which is what upstream's test wants but for `upstream`."""
    upstream: str = ""
    """What upstream's test wants, or its host does, where that is something else, and why."""
    args: Sequence[str] = ()
    config: str = ""
    first: Mapping[str, int] = field(default_factory=dict)
    """First values of globals."""
    pod: Object | str = field(default_factory=lambda: POD)
    """A v1.Pod, or a file of the checkout that has one."""
    nodes: Sequence[Object | str] = (named(NODE),)
    """All nodes of the cluster, each as `pod` is."""
    names: Sequence[str] | None = None
    """The nodes that the call is about; None for all."""
    target: Object | None = None
    """The pod that AddPod and RemovePod are about."""
    told: Mapping[str, int] = field(default_factory=dict)
    """Codes or scores of nodes, where the call does not find them itself."""
    records: Sequence[Log | GuestEvent] = ()
    """What the guest logs and records."""
    uids: Sequence[str] = ()
    """The pods that the guest takes for waiting ones."""


class Played(NamedTuple):
    """What a row led to."""

    answer: object
    records: list[Log | GuestEvent]
    uids: list[str]


class Waiting:
    """A handle with one pod that waits."""

    def __init__(self) -> None:
        self._uid = WAITING_POD["metadata"]["uid"]
        self.uids: list[str] = []
        """Every pod that was asked for."""

    def waiting_pod(self, uid: str, /) -> bytes | None:
        self.uids.append(uid)
        return encode_pod(WAITING_POD) if uid == self._uid else None

    def reject_waiting_pod(self, uid: str, /) -> bool:
        self.uids.append(uid)
        return bool(uid == self._uid)


class Scene(NamedTuple):
    """A guest, and what it is asked about."""

    row: Row
    module: Module
    plugin: Plugin
    at: World

    @property
    def target(self) -> bytes:
        return b"" if self.row.target is None else encode_pod(self.row.target)


def play(engine: Engine, checkout: Path, guest: str, row: Row) -> Played:
    """Loads the guest as the row says, and asks it."""
    handle, records = Waiting(), list[Log | GuestEvent]()

    def sink(_: str, __: Pod | None, journal: GuestJournal) -> None:
        records.extend(journal.records)

    wasm = with_globals((checkout / guest).read_bytes(), row.first)
    try:
        plugin = Plugin(engine, wasm, _settings(row), sink=sink, handle=handle)
    except (ModuleError, GuestError) as error:
        return Played(Failed.by(error), records, handle.uids)
    try:
        answer = CALLS[row.asked](Scene(row, engine.compile(wasm), plugin, _world(checkout, row)))
    except GuestError as error:
        answer = Failed.by(error)
    finally:
        plugin.close()
    return Played(answer, records, handle.uids)


def _settings(row: Row) -> Settings:
    return Settings("wasm", config=row.config, args=tuple(row.args), timeout=30.0)


def _world(checkout: Path, row: Row) -> World:
    def read(given: Object | str) -> Object:
        return yaml.safe_load((checkout / given).read_text()) if isinstance(given, str) else given

    nodes, pod = map(read, row.nodes), read(row.pod)
    objects = {node["metadata"]["name"]: encode_node(node) for node in nodes}
    return world(objects, row.names, encode_pod(pod), pod["metadata"].get("uid", ""))


# ---- what can be asked


def exports(scene: Scene) -> list[str]:
    return scene.plugin.exports


def enqueue(scene: Scene) -> list[tuple[str, int]]:
    return [(event.resource, event.action_type) for event in scene.plugin.cluster_events]


def pre_filter(scene: Scene) -> PreFilter:
    with scene.plugin.guest(scene.at.pod, scene.at.nodes, "filter") as (guest, _):
        return guest.pre_filter


def filter_nodes(scene: Scene) -> list[Status]:
    with scene.plugin.guest(scene.at.pod, scene.at.nodes, "filter") as (guest, deadline):
        return _statuses(guest.filter(scene.at.nodes, deadline))


def _statuses(results: NodeResults) -> list[Status]:
    reasons = iter(results.reasons)
    return [Status(Code(code), next(reasons) if code else "") for code in results.codes or bytes(results.called)]


METHODS = {
    "addpod": "add_pod",
    "removepod": "remove_pod",
    "postfilter": "post_filter",
    "prebind": "pre_bind",
    "postbind": "post_bind",
}
"""Methods of a guest that are not named as their exports."""


def in_stage(stage: CycleStage, *names: str) -> Callable[[Scene], object]:
    """Calls of exports, those that there are, one after the other in one stage. The answer of the last."""

    def call(scene: Scene) -> object:
        answer = None
        with scene.plugin.guest(scene.at.pod, scene.at.nodes, stage) as (guest, deadline):
            for name in filter(scene.plugin.runs, names):
                target = [scene.target] if name in {"addpod", "removepod"} else []
                answer = getattr(guest, METHODS.get(name, name))(*target, scene.at.nodes, deadline)
        return list(answer) if isinstance(answer, bytes) else answer

    return call


def score_each(scene: Scene) -> list[list[int] | None]:
    """Scores each node in a cycle of its own."""
    answers: list[list[int] | None] = []
    for name in scene.at.nodes.names:
        node = Nodes(scene.at.node_table, [name])
        with scene.plugin.guest(scene.at.pod, node, "score") as (guest, deadline):
            scores = guest.score(node, deadline)
            answers.append(None if scores is None else list(scores))
    return answers


def cycles(scene: Scene) -> object:
    """Calls all that there is: in an attempt that fails, then in one that comes to its end, then the same again.

    The scores.
    """
    scores = None
    for _ in range(2):
        in_stage("filter", "filter", "addpod", "removepod")(scene)
        in_stage("postFilter", "postfilter")(scene)
        in_stage("filter", "filter", "addpod", "removepod")(scene)
        scores = in_stage("score", "score")(scene)
        in_stage("bind", "reserve", "unreserve", "permit", "prebind", "bind", "postbind")(scene)
    return scores


def next_pod(scene: Scene) -> Scene:
    """The same of another pod."""
    return scene._replace(at=scene.at.with_pod("next", scene.at.pod.object))


def filter_two_pods(scene: Scene) -> list[list[Status]]:
    return [filter_nodes(scene), filter_nodes(next_pod(scene))]


def bind_two_pods(scene: Scene) -> list[object]:
    """Two pods are in their binding cycles at the same time. The first is given up, the second bound."""
    filter_two_pods(scene)
    nodes = scene.at.nodes
    with (
        scene.plugin.guest(scene.at.pod, nodes, "bind") as (first, deadline),
        scene.plugin.guest(next_pod(scene).at.pod, nodes, "bind") as (second, _),
    ):
        answers = [first.permit(nodes, deadline), second.permit(nodes, deadline)]
        first.unreserve(nodes, deadline)
        bound = [second.pre_bind(nodes, deadline), second.bind(nodes, deadline)]
        second.post_bind(nodes, deadline)
    return [*answers, *bound]


def told(export: str, document: HostDocument) -> Callable[[Scene], object]:
    """A call of an export that is told of codes or scores. What it returns and hands over."""

    def call(scene: Scene) -> tuple[CallResult, Mapping[GuestResult, bytes]]:
        instance = scene.module.instantiate(_settings(scene.row), NoHandle())
        try:
            instance.begin(scene.at.pod.object)
            documents = {document: lambda: msgspec.json.encode(scene.row.told)}
            call = Call(scene.at.nodes, time.monotonic() + 30, documents)
            return instance.once(export, call), call.guest_results
        finally:
            instance.close()

    return call


CALLS: Mapping[str, Callable[[Scene], object]] = {
    "load": exports,
    "enqueue": enqueue,
    "prefilter": pre_filter,
    "addpod": in_stage("filter", "addpod"),
    "removepod": in_stage("filter", "removepod"),
    "filter": filter_nodes,
    "postfilter": in_stage("postFilter", "postfilter"),
    "postfilter told of codes": told("postfilter", HostDocument.NODE_STATUSES),
    "prescore, score and normalizescore": in_stage("score", "score"),
    "score in a cycle each": score_each,
    "normalizescore told of scores": told("normalizescore", HostDocument.NODE_SCORES),
    "reserve": in_stage("bind", "reserve"),
    "reserve and unreserve": in_stage("bind", "reserve", "unreserve"),
    "permit": in_stage("bind", "permit"),
    "prebind": in_stage("bind", "prebind"),
    "bind": in_stage("bind", "bind"),
    "postbind": in_stage("bind", "postbind"),
    "all, twice": cycles,
    "filter of two pods": filter_two_pods,
    "binding cycles of two pods": bind_two_pods,
}
