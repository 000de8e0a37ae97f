"""gang in random clusters says what its README has: an independent model of it in Python says the same."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from extender.scheduling import filter as filter_verb
from extender.scheduling.group_claim import LABEL
from extender.scheduling.profile import Profile, ProfilePlugin
from tests.sdk_guest.gang_model import GPU, Ask, Gang, Member, Model, State
from tests.sdk_guest.plugins import MakePlugin
from wasm_runtime import Nodes, NodeTable, Plugin, Pod, Settings
from wasm_runtime.abi import Code, GroupSource
from wasm_runtime.engine import Engine
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

MODULE: Final = Path(__file__).parents[2] / "extender" / "policies" / "gang.wasm"
PATIENCE: Final = 10_000
AGES: Final = (0, PATIENCE * 5 // 4, PATIENCE * 15 // 8, PATIENCE * 3)
"""Too young, ahead, in the pause after that, and ahead again: each far from where that ends."""
STATES: Final[tuple[State, ...]] = ("tentative", "binding", "bound")
ANSWERS: Final = {Code.SUCCESS: "goes on", Code.WAIT: "waits", Code.UNSCHEDULABLE: "lets go"}

STEPS: Final = [pytest.param(600, id="short"), pytest.param(50_000, id="full", marks=pytest.mark.nightly)]


def invent(dice: random.Random) -> Model:
    """A cluster of a few nodes and groups, and pods in all states."""
    nodes = {f"node-{at}": Ask(dice.choice([0, 0, 2, 4]), dice.randint(2, 8)) for at in range(dice.randint(1, 6))}
    gangs = {
        name: Gang(name, dice.choice([0, 2, 3, 4, 5, 6]), dice.choice([0, 0, 5]), dice.choice(AGES) + at)
        for at, name in enumerate(dice.sample("abcdef", dice.randint(1, 5)))
    }
    pods = []
    for name in ["", *gangs]:
        asks = [Ask(dice.choice([0, 0, 1]), dice.randint(1, 2)) for _ in range(dice.choice([1, 1, 2]))]
        placed = dice.choice([0.0, 0.0, 0.3, 0.7, 1.0])
        for at in range(dice.randint(1, 7)):
            is_placed = dice.random() < placed
            state = ("bound" if not name else dice.choice(STATES)) if is_placed else "pending"
            node = dice.choice(list(nodes)) if is_placed else ""
            pods.append(Member(f"{name}-{at}", name, dice.choice(asks), state, node, dice.random() < 0.05))
    return Model(nodes, pods, gangs, PATIENCE)


def object_of(pod: Member) -> bytes:
    """The pod as the API server has it."""
    labels = {LABEL: pod.group} if pod.group else {}
    requests = {"cpu": str(pod.ask.cpu)} | ({GPU: str(pod.ask.gpus)} if pod.ask.gpus else {})
    made: dict[str, Any] = {
        "metadata": {"name": pod.uid, "namespace": "ml", "uid": pod.uid, "labels": labels},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
    }
    if pod.is_nominated:
        made["status"] = {"nominatedNodeName": "node-0"}
    return encode_pod(made)


def table_of(model: Model) -> NodeTable:
    """What guests are told of a cluster."""
    table, now = NodeTable(), int(time.time())
    for name, has in model.nodes.items():
        allocatable = {"cpu": str(has.cpu), "pods": "110"} | ({GPU: str(has.gpus)} if has.gpus else {})
        node = {"metadata": {"name": name}, "status": {"allocatable": allocatable}}
        table.put([(name, encode_node(node))])
    for gang in model.gangs.values():
        table.pods.groups.put(key_of(gang.name), Group(gang.minimum, 7, gang.priority, now - gang.age))
    for pod in model.pods:
        is_tentative = pod.state in {"tentative", "binding"}
        group = key_of(pod.group) if pod.group else None
        told = ResidentPod(pod.node, object_of(pod), is_tentative, group, is_binding=pod.state == "binding")
        table.pods.put([(pod.uid, told)])
    return table


def key_of(name: str) -> GroupKey:
    return GroupKey(GroupSource.LABEL, "ml", name)


@pytest.fixture
def plugin(each_engine: Engine, make_plugin: MakePlugin) -> Plugin:
    config = f'{{"patienceSeconds": {PATIENCE}}}'
    return make_plugin(each_engine, MODULE.read_bytes(), Settings("gang", config=config, timeout=30.0, instances=1))


@pytest.mark.parametrize("steps", STEPS)
def test_gang_is_as_its_readme_says(plugin: Plugin, steps: int) -> None:
    dice, seen = random.Random(steps), Counter[str]()
    for step in range(steps):
        model = invent(dice)
        table = table_of(model)
        for act in (filters, permits):
            try:
                seen.update(act(plugin, model, table, dice))
            except AssertionError as error:
                raise AssertionError(f"step {step} ({act.__name__}) of {model}: {error}") from error
    expected = {
        "passes",
        "waits for",
        "room for",
        "are there",
        "nobody says",
        "is kept",
        "no room",
        "goes on",
        "waits",
        "lets go",
    }
    assert seen.keys() == expected


def filters(plugin: Plugin, model: Model, table: NodeTable, dice: random.Random) -> list[str]:
    """kube-scheduler asks about a pod without a node."""
    waiting = [pod for pod in model.pods if pod.state == "pending"]
    if not waiting:
        return []
    pod = dice.choice(waiting)
    names = [name for name in model.nodes if dice.random() < 0.8] or list(model.nodes)
    profile = Profile("gang", [ProfilePlugin(plugin)])
    verdict = filter_verb.run(profile, Pod(pod.uid, f"ml/{pod.uid}", object_of(pod)), Nodes(table, names))
    found = {name: (reason, True) for name, reason in verdict.failed.items()}
    found |= {name: (reason, False) for name, reason in verdict.unresolvable.items()}
    assert found == model.rejections(pod, names), pod
    phrases = ("waits for", "room for", "are there", "nobody says", "is kept", "no room")
    return [next((phrase for phrase in phrases if phrase in reason), "") for reason, _ in found.values()] or ["passes"]


def permits(plugin: Plugin, model: Model, table: NodeTable, dice: random.Random) -> list[str]:
    """Permit is asked about a pod that is being bound."""
    binding = [pod for pod in model.pods if pod.state == "binding"]
    if not binding:
        return []
    pod = dice.choice(binding)
    nodes = Nodes(table, [pod.node])
    with plugin.guest(Pod(pod.uid, f"ml/{pod.uid}", object_of(pod)), nodes, "permit") as (guest, deadline):
        answer = guest.permit(nodes, deadline)
    assert (ANSWERS[answer.status.code], answer.status.reason) == model.permit(pod), pod
    assert answer.timeout == (7.0 if answer.status.code is Code.WAIT else 0.0)
    return [ANSWERS[answer.status.code]]
