"""Groups of pods as the library in Rust keeps them: the example `gang` says what is true after any changes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pytest

from tests.sdk_guest.plugins import MakePlugin, without
from tests.wasm_runtime.world import World, pre_filter, score
from wasm_runtime import Nodes, NodeTable, Plugin, Pod, Settings
from wasm_runtime.abi import Code, GroupSource
from wasm_runtime.engine import Engine
from wasm_runtime.guests.guest import PreFilter, Status
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

MODULE: Final = Path(__file__).parents[2] / "sdk-guest" / "rust" / "modules" / "gang.wasm"
NODES: Final = ["a", "b", "c"]
KEYS: Final = [GroupKey(source, "ml", name) for source in GroupSource for name in ("train", "test")]
OBJECT: Final = encode_pod({"metadata": {"name": "member"}})


def pod_of(key: GroupKey | None, label: str = "scheduling.x-k8s.io/pod-group") -> bytes:
    """A pod that names a group."""
    made: dict[str, Any] = {"metadata": {"name": "pod", "namespace": "ml"}, "spec": {}}
    if key and key.source is GroupSource.LABEL:
        made["metadata"]["labels"] = {label: key.name}
    elif key:
        made["spec"]["schedulingGroup"] = {"podGroupName": key.name}
    return encode_pod(made)


class Cluster:
    """Nodes, groups and their members."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.table = NodeTable()
        self.table.put((name, encode_node({"metadata": {"name": name}})) for name in NODES)
        self.members: dict[str, tuple[str, GroupKey]] = {}
        """The node and the group of each pod."""
        self.minima: dict[GroupKey, int] = {}

    def change(self) -> None:
        """Something comes, changes or goes."""
        dice = self.dice
        uid, key = f"uid-{dice.randrange(12)}", dice.choice(KEYS)
        act = dice.choice(["put", "put", "put", "end", "describe", "forget"])
        if act == "put":
            node = dice.choice(["", *NODES])
            self.members[uid] = (node, key)
            self.table.pods.put([(uid, ResidentPod(node, OBJECT, dice.random() < 0.3, key))])
        elif act == "end":
            self.members.pop(uid, None)
            self.table.pods.remove(uid)
        elif act == "describe":
            self.minima[key] = dice.randrange(1, 6)
            self.table.pods.groups.put(key, Group(self.minima[key], 60, -1))
        else:
            self.minima.pop(key, None)
            self.table.pods.groups.remove(key)

    def admission(self, key: GroupKey) -> Status:
        """What is true of a pod of the group."""
        there = sum(each == key for _, each in self.members.values())
        if not there and key not in self.minima:
            return Status(Code.UNSCHEDULABLE, "the group of the pod is not known yet")
        if key not in self.minima:
            return Status(Code.UNSCHEDULABLE, f"nobody says how many pods the group {key} needs")
        if there < self.minima[key]:
            said = f"{there} of {self.minima[key]} pods of the group {key} are there"
            return Status(Code.UNSCHEDULABLE, said)
        return Status(Code.SUCCESS)

    def neighbours(self, key: GroupKey) -> list[int]:
        """How many pods of the group are on each node, or expected there."""
        return [sum(at == (node, key) for at in self.members.values()) for node in NODES]


def asks(cluster: Cluster, pod: bytes) -> World:
    """The current pod, about all nodes."""
    return World(Pod("asks", "ml/asks", pod), Nodes(cluster.table, NODES))


@pytest.fixture
def plugin(each_engine: Engine, make_plugin: MakePlugin) -> Plugin:
    return make_plugin(each_engine, MODULE.read_bytes(), Settings("gang", timeout=30.0, instances=1))


def test_after_any_changes_it_knows_groups_and_members(plugin: Plugin) -> None:
    for seed in (1, 2, 1):  # another table has other groups
        cluster = Cluster(seed)
        for _ in range(60):
            cluster.change()
            key = cluster.dice.choice(KEYS)
            at = asks(cluster, pod_of(key))
            assert pre_filter(plugin, at) == PreFilter(cluster.admission(key))
            assert score(plugin, at) == cluster.neighbours(key)


def test_the_older_label_names_the_same_group(plugin: Plugin) -> None:
    cluster = Cluster(3)
    key = KEYS[-1]
    cluster.table.pods.groups.put(key, Group(1))
    old = asks(cluster, pod_of(key, "pod-group.scheduling.sigs.k8s.io/name"))
    said = f"0 of 1 pods of the group {key} are there"
    assert pre_filter(plugin, old) == PreFilter(Status(Code.UNSCHEDULABLE, said))


def test_a_pod_of_no_group_is_not_held_back(plugin: Plugin) -> None:
    at = asks(Cluster(4), pod_of(None))
    assert (pre_filter(plugin, at), score(plugin, at)) == (PreFilter(), [0, 0, 0])


def test_a_host_that_tells_of_no_groups_leaves_it_without_any(each_engine: Engine, make_plugin: MakePlugin) -> None:
    wasm = without(MODULE.read_bytes(), "podbuffer", "groupschanged", "memberschanged")
    plugin, cluster = make_plugin(each_engine, wasm, Settings("gang", timeout=30.0)), Cluster(5)
    cluster.table.pods.groups.put(KEYS[0], Group(1))
    unknown = Status(Code.UNSCHEDULABLE, "the group of the pod is not known yet")
    assert pre_filter(plugin, asks(cluster, pod_of(KEYS[0]))) == PreFilter(unknown)
