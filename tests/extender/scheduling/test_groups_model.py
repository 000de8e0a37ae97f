"""Pods and PodGroups that come, change and go: groups are always what could be made of all of it anew."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from extender.cluster import GroupObject
from extender.scheduling.group_claim import LABEL, MINIMUM, TIMEOUT
from extender.scheduling.groups import Groups
from extender.scheduling.ledger import Ledger
from tests.extender.objects import pod
from wasm_runtime.abi import GroupSource
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf.encode import encode_pod

NODES = ["", "node-1", "node-2"]
NAMES = ["a", "b", "c"]
UIDS = [f"pod-{at}" for at in range(12)]

STEPS = [
    pytest.param(20_000, id="short"),
    pytest.param(1_000_000, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]


class Said(NamedTuple):
    """What a pod says."""

    source: GroupSource | None
    name: str
    minimum: int
    timeout: int
    priority: int

    def object(self, uid: str) -> bytes:
        """Such a pod."""
        made = pod(uid)
        if self.source is GroupSource.LABEL:
            made["metadata"]["labels"] = {LABEL: self.name}
        elif self.source:
            made["spec"]["schedulingGroup"] = {"podGroupName": self.name}
        numbers = {MINIMUM: self.minimum, TIMEOUT: self.timeout}
        made["metadata"]["annotations"] = {key: str(number) for key, number in numbers.items() if number}
        made["spec"]["priority"] = self.priority
        return encode_pod(made)

    @property
    def key(self) -> GroupKey | None:
        """The group that it is of."""
        return GroupKey(self.source, "default", self.name) if self.source else None


class World:
    """What the API server has, and what has become of it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self._nodes = NodeTable()
        self.table = self._nodes.pods
        self.groups = Groups(self.table)
        self.groups.follow()
        self.ledger = Ledger(self.groups, lambda: 0.0, clock=lambda: 0.0)
        self.ledger.is_followed = True
        self.said: dict[str, Said] = {}
        self.places: dict[str, tuple[str, bool]] = {}
        """The node of each pod, and whether it may not come."""
        self.objects: dict[GroupKey, GroupObject] = {}

    def invent(self) -> Said:
        """A pod."""
        dice = self.dice
        source = dice.choice([None, *GroupSource, GroupSource.LABEL])
        numbers = dice.choice([0, 0, 2, 3]), dice.choice([0, 60]), dice.choice([0, 5, -5])
        return Said(source, dice.choice(NAMES), *numbers)

    def observe(self) -> None:
        """The watch shows a pod, which may have got a node or other labels."""
        uid = self.dice.choice(UIDS)
        node, is_tentative = self.places.get(uid, ("", False))
        if not node:
            node = self.dice.choice(NODES)
        if is_tentative:
            node = self.dice.choice([node, ""])
        if node or not is_tentative:
            self.places[uid] = (node, False)
            self.said[uid] = self.invent()
            self.ledger.observe(uid, node, self.said[uid].object(uid))

    def plan(self) -> None:
        """filter answers one node for a pod that has none."""
        uid = self.dice.choice(UIDS)
        node, is_tentative = self.places.get(uid, ("", False))
        if uid in self.said and (is_tentative or not node):
            self.ledger.retry(uid)
            chosen = self.dice.choice(NODES[1:])
            assert self.ledger.plan(uid, chosen, self.said[uid].object(uid), self.ledger.position)
            self.places[uid] = (chosen, True)

    def delete(self) -> None:
        """A pod ends."""
        uid = self.dice.choice(UIDS)
        self.ledger.delete(uid)
        self.said.pop(uid, None)
        self.places.pop(uid, None)

    def list_pods(self) -> None:
        """All pods are listed anew; those that filter has answered a node for have none in the list."""
        pods = {uid: ("" if tentative else node) for uid, (node, tentative) in self.places.items()}
        self.ledger.replace({uid: (node, self.said[uid].object(uid)) for uid, node in pods.items()})

    def object(self) -> GroupObject:
        """A PodGroup."""
        return GroupObject(self.dice.choice([1, 4]), self.dice.choice([0, 30]), self.dice.choice([None, 9]))

    def put_object(self) -> None:
        """A PodGroup is new or changes."""
        key = GroupKey(self.dice.choice(list(GroupSource)), "default", self.dice.choice(NAMES))
        self.objects[key] = self.object()
        self.groups.objects(key.source).put([(str(key), self.objects[key])])

    def remove_object(self) -> None:
        """A PodGroup is deleted."""
        key = GroupKey(self.dice.choice(list(GroupSource)), "default", self.dice.choice(NAMES))
        self.objects.pop(key, None)
        self.groups.objects(key.source).remove(str(key))

    def list_objects(self) -> None:
        """The PodGroups of one API are listed anew, or the API is gone."""
        source = self.dice.choice(list(GroupSource))
        listed = {name: self.object() for name in NAMES if self.dice.random() < 0.4}
        self.objects = {key: found for key, found in self.objects.items() if key.source is not source}
        self.objects |= {GroupKey(source, "default", name): found for name, found in listed.items()}
        self.groups.objects(source).replace({f"default/{name}": found for name, found in listed.items()})

    # -- what must hold ----------------------------------------------------------------------------

    def expected(self) -> dict[GroupKey, tuple[Group, bool, dict[str, tuple[str, bool]]]]:
        """What is known of each group, whether it has an object, and where its pods are; made of nothing but facts."""
        members: dict[GroupKey, list[str]] = {key: [] for key in self.objects}
        for uid, said in self.said.items():
            if said.key:
                members.setdefault(said.key, []).append(uid)
        return {
            key: (
                self.describe(key, [self.said[uid] for uid in uids]),
                key in self.objects,
                {uid: self.places[uid] for uid in uids},
            )
            for key, uids in members.items()
        }

    def describe(self, key: GroupKey, said: list[Said]) -> Group:
        """What is known of one."""
        found = self.objects.get(key, GroupObject())
        labelled = key.source is GroupSource.LABEL and key not in self.objects
        minimum = max([each.minimum for each in said if labelled], default=0)
        timeout = max([each.timeout for each in said], default=0)
        priority = max([each.priority for each in said], default=0)
        return Group(
            found.minimum or minimum,
            found.timeout or timeout,
            priority if found.priority is None else found.priority,
        )

    def check(self) -> None:
        """After each step."""
        expected = self.expected()
        entries = {entry.key: entry for entry in self.groups.entries()}
        assert {key: (entry.group, entry.has_object, _places(entry.pods)) for key, entry in entries.items()} == expected
        assert len(self.groups) == len(self.table.groups) == len(expected)
        changes = self.table.groups.changes(0)
        numbered = {number: entry for number, entry in (changes.groups if changes else []) if entry}
        assert dict(numbered.values()) == {key: group for key, (group, _, _) in expected.items()}
        pods = self.table.changes(0)
        told = [placed for _, placed in (pods.pods if pods else []) if placed and placed.pod.group]
        assert len(told) == sum(len(each) for _, _, each in expected.values())
        assert all(numbered[placed.group].key == placed.pod.group for placed in told)


def _places(pods: Mapping[str, ResidentPod]) -> dict[str, tuple[str, bool]]:
    return {uid: (pod.node, pod.is_tentative) for uid, pod in pods.items()}


@pytest.mark.parametrize("steps", STEPS)
def test_groups_are_what_can_be_made_of_all_pods_and_objects(steps: int) -> None:
    world = World(random.Random(steps))
    acts = {
        world.observe: 12,
        world.plan: 6,
        world.delete: 4,
        world.list_pods: 1,
        world.put_object: 4,
        world.remove_object: 3,
        world.list_objects: 1,
    }
    for step, act in enumerate(world.dice.choices(list(acts), list(acts.values()), k=steps)):
        act()
        try:
            world.check()
        except AssertionError as error:
            raise AssertionError(f"step {step} ({act.__name__}): {error}") from error
