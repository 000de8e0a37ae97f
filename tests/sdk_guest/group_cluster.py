"""Groups of pods that come, change and go, and what guests that hold pods back are to say of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from tests.wasm_runtime.world import World
from wasm_runtime import Nodes, NodeTable, Pod
from wasm_runtime.abi import Code, GroupSource
from wasm_runtime.guests.guest import PreFilter, Status
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

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


def after_changes() -> Iterator[tuple[World, PreFilter, list[int]]]:
    """Requests about pods of groups, each after a change, with what PreFilter and Score are to say."""
    for seed in (1, 2, 1):  # another table has other groups
        cluster = Cluster(seed)
        for _ in range(60):
            cluster.change()
            key = cluster.dice.choice(KEYS)
            yield asks(cluster, pod_of(key)), PreFilter(cluster.admission(key)), cluster.neighbours(key)
