"""Groups of pods: what is known of each, by objects and by pods."""

from __future__ import annotations

from typing import Any

import pytest

from extender.cluster import GroupObject
from extender.scheduling.group_claim import LABEL, MINIMUM, OLD_LABEL, TIMEOUT
from extender.scheduling.groups import PODS_AT_ONCE, GroupEntry, Groups
from extender.scheduling.ledger import Ledger
from tests.extender.objects import pod
from wasm_runtime.abi import GroupSource
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import PodChanges, PodTable, ResidentPod
from wasm_runtime.protobuf.encode import encode_pod

TRAIN = GroupKey(GroupSource.LABEL, "default", "train")
NATIVE = TRAIN._replace(source=GroupSource.SCHEDULING_GROUP)


def member(name: str, labels: dict[str, str] | None = None, **spec: Any) -> bytes:
    """A pod of the group `train`, named by a label."""
    made = pod(name)
    made["metadata"]["labels"] = {LABEL: "train"} if labels is None else labels
    made["spec"] |= spec
    return encode_pod(made)


class Scene:
    """Groups behind a ledger, and what guests are told."""

    def __init__(self) -> None:
        self._nodes = NodeTable()
        self.pods: PodTable = self._nodes.pods
        self.groups = Groups(self.pods)
        self.ledger = Ledger(self.groups, lambda: 0.0)
        self.ledger.is_followed = True

    @property
    def told(self) -> dict[GroupKey, Group]:
        """The groups that guests are told of."""
        changes = self.pods.groups.changes(0)
        return {entry.key: entry.group for _, entry in (changes.groups if changes else []) if entry}

    def group_of(self, uid: str) -> GroupKey | None:
        """The group of a pod, as guests are told."""
        found = self.pods.get(uid)
        assert found
        return found.group


@pytest.fixture
def idle() -> Scene:
    return Scene()


@pytest.fixture
def scene(idle: Scene) -> Scene:
    idle.groups.follow()
    return idle


def test_nobody_looks_at_pods_before_it_is_wanted(idle: Scene) -> None:
    idle.ledger.observe("x", "n", member("x"))
    idle.ledger.observe("y", "", member("y"))
    assert (idle.told, idle.group_of("x"), len(idle.groups)) == ({}, None, 0)
    idle.groups.follow()
    assert (idle.told, idle.group_of("x"), idle.group_of("y")) == ({TRAIN: Group()}, TRAIN, TRAIN)
    idle.groups.follow()
    assert len(idle.groups) == 1


def test_all_pods_that_are_there_are_looked_at(idle: Scene) -> None:
    for at in range(PODS_AT_ONCE + 1):
        idle.ledger.observe(str(at), "n", member(f"pod-{at}"))
    idle.groups.follow()
    (entry,) = idle.groups.entries()
    assert entry.pods.keys() == {str(at) for at in range(PODS_AT_ONCE + 1)}


def test_a_pod_is_of_its_group_in_every_state(scene: Scene) -> None:
    before = member("x")
    scene.ledger.observe("x", "", before)
    assert scene.groups.entries() == [
        GroupEntry(TRAIN, Group(), False, [], {"x": ResidentPod("", before, False, TRAIN)})
    ]
    assert scene.ledger.plan("x", "n", before, scene.ledger.position)
    assert scene.groups.entries()[0].pods == {"x": ResidentPod("n", before, True, TRAIN)}
    assert scene.ledger.claim("x", "n", 5.0)
    assert scene.groups.entries()[0].pods == {"x": ResidentPod("n", before, True, TRAIN, is_binding=True)}
    scene.ledger.doubt("x", "n")
    assert scene.groups.entries()[0].pods == {"x": ResidentPod("n", before, True, TRAIN, is_binding=True)}
    scene.ledger.confirm("x", "n")
    assert scene.groups.entries()[0].pods == {"x": ResidentPod("n", before, False, TRAIN)}
    scene.ledger.delete("x")
    assert (scene.groups.entries(), scene.told, len(scene.pods)) == ([], {}, 0)


def test_a_pod_without_a_group_is_told_as_before(scene: Scene) -> None:
    scene.ledger.observe("x", "n", member("x", {}))
    assert (scene.told, scene.pods.get("x")) == ({}, ResidentPod("n", member("x", {})))


def test_a_bind_of_a_pod_without_a_group_is_told_to_nobody(scene: Scene) -> None:
    assert scene.ledger.plan("x", "n", member("x", {}), scene.ledger.position)
    known = scene.pods.changes(0)
    assert known
    assert scene.ledger.claim("x", "n", 5.0)
    assert scene.pods.changes(known.position) is None


def test_the_oldest_pod_says_when_a_group_was_created_unless_its_object_does(scene: Scene) -> None:
    for at, created in enumerate(["2023-11-14T22:13:21Z", "2023-11-14T22:13:20Z", None]):
        made = pod(f"pod-{at}")
        made["metadata"] |= {"labels": {LABEL: "train"}, "creationTimestamp": created}
        scene.ledger.observe(str(at), "", encode_pod(made))
    assert scene.told == {TRAIN: Group(created=1_700_000_000)}
    scene.ledger.delete("1")
    assert scene.told == {TRAIN: Group(created=1_700_000_001)}
    scene.groups.put_object(TRAIN, GroupObject(4, created=5))
    assert scene.told == {TRAIN: Group(4, created=5)}


def test_members_are_known_as_such_while_groups_are_followed(idle: Scene) -> None:
    pods = member("x"), member("y", {})
    assert [*map(idle.groups.is_member, pods)] == [False, False]
    idle.groups.follow()
    assert [*map(idle.groups.is_member, pods)] == [True, False]
    idle.groups.unfollow()
    assert [*map(idle.groups.is_member, pods)] == [False, False]


def test_a_pod_completes_its_group_once_there_are_as_many_as_it_needs(idle: Scene) -> None:
    pod, other = member("x"), member("y", {})
    assert [*map(idle.groups.completes, (pod, other))] == [False, False]
    idle.groups.follow()
    assert [*map(idle.groups.completes, (pod, other))] == [True, False]  # Nobody says how many it needs.
    idle.groups.put_object(TRAIN, GroupObject(3))
    assert not idle.groups.completes(pod)
    idle.ledger.observe("1", "node-1", member("1"))
    assert not idle.groups.completes(pod)
    idle.ledger.observe("2", "", member("2"))
    assert idle.groups.completes(pod)
    idle.groups.unfollow()
    assert not idle.groups.completes(pod)


def test_changes_of_objects_are_told_each_time(idle: Scene) -> None:
    changes: list[int] = []
    groups = Groups(idle.pods, lambda: changes.append(len(groups)))
    objects = groups.objects(GroupSource.LABEL)
    objects.put([("default/train", GroupObject(4)), ("default/other", GroupObject(2))])
    objects.remove("default/train")
    objects.replace({})
    assert changes == [2, 1, 0]


def test_the_largest_of_what_pods_say_counts(scene: Scene) -> None:
    said = [{MINIMUM: "2", TIMEOUT: "60"}, {MINIMUM: "4"}, {}]
    for at, labels in enumerate(said):
        scene.ledger.observe(str(at), "", member(f"pod-{at}", {OLD_LABEL: "train"} | labels, priority=-at))
    assert scene.told == {TRAIN: Group(4, 60, 0)}
    scene.ledger.delete("1")
    assert scene.told == {TRAIN: Group(2, 60, 0)}
    scene.ledger.delete("0")
    assert scene.told == {TRAIN: Group(0, 0, -2)}


def test_an_object_says_more_than_pods(scene: Scene) -> None:
    scene.ledger.observe("x", "", member("x", {LABEL: "train", MINIMUM: "9", TIMEOUT: "60"}, priority=7))
    scene.groups.put_object(TRAIN, GroupObject(4))
    assert scene.told == {TRAIN: Group(4, 60, 7)}
    scene.groups.put_object(TRAIN, GroupObject(4, 30, 5))
    assert scene.told == {TRAIN: Group(4, 30, 5)}
    scene.groups.put_object(TRAIN, GroupObject(3, 30, 0))
    assert scene.told == {TRAIN: Group(3, 30, 0)}


def test_a_group_that_loses_its_object_is_what_its_pods_say(scene: Scene) -> None:
    scene.groups.put_object(TRAIN, GroupObject(4))
    scene.ledger.observe("x", "", member("x", priority=7))
    scene.groups.remove_object(TRAIN)
    assert (scene.told, scene.group_of("x")) == ({TRAIN: Group(0, 0, 7)}, TRAIN)
    scene.groups.remove_object(TRAIN)
    scene.ledger.delete("x")
    assert scene.told == {}


def test_an_object_without_pods_is_a_group(scene: Scene) -> None:
    scene.groups.put_object(TRAIN, GroupObject(4))
    assert (scene.groups.entries(), len(scene.groups)) == ([GroupEntry(TRAIN, Group(4), True, [], {})], 1)
    scene.groups.remove_object(TRAIN)
    assert (scene.groups.entries(), len(scene.groups)) == ([], 0)


def test_groups_of_one_name_are_others_in_another_api(scene: Scene) -> None:
    scene.groups.put_object(TRAIN, GroupObject(4))
    scene.groups.put_object(NATIVE, GroupObject(5))
    scene.ledger.observe("x", "", member("x", schedulingGroup={"podGroupName": "train"}))
    assert (scene.told, scene.group_of("x")) == ({TRAIN: Group(4), NATIVE: Group(5)}, NATIVE)


def test_a_list_replaces_the_objects_of_its_api_alone(scene: Scene) -> None:
    labelled, native = (scene.groups.objects(source) for source in (TRAIN.source, NATIVE.source))
    native.put([("default/train", GroupObject(5))])
    labelled.put([("default/train", GroupObject(4)), ("default/other", GroupObject(2))])
    labelled.replace({"default/other": GroupObject(3), "ml/new": GroupObject(1)})
    other, new = TRAIN._replace(name="other"), GroupKey(TRAIN.source, "ml", "new")
    assert scene.told == {NATIVE: Group(5), other: Group(3), new: Group(1)}
    labelled.remove("default/other")
    labelled.remove("default/unknown")
    native.replace({})
    assert scene.told == {new: Group(1)}


def test_a_pod_may_change_its_group(scene: Scene) -> None:
    scene.ledger.observe("x", "n", member("x", {LABEL: "train", MINIMUM: "4"}))
    scene.ledger.observe("x", "n", member("x", {LABEL: "other", MINIMUM: "2"}))
    other = TRAIN._replace(name="other")
    assert (scene.told, scene.group_of("x")) == ({other: Group(2)}, other)
    scene.ledger.observe("x", "n", member("x", {}))
    assert (scene.told, scene.group_of("x")) == ({}, None)


def test_what_cannot_be_read_is_told_once(scene: Scene) -> None:
    scene.groups.put_object(TRAIN, GroupObject(problem="the PodGroup cannot be read: why"))
    for name in ("x", "y"):
        scene.ledger.observe(name, "", member(name, {LABEL: "train", MINIMUM: "half"}))
    (entry,) = scene.groups.entries()
    assert (entry.group, entry.problems) == (
        Group(),
        [
            f"{MINIMUM} of a pod is 'half'; make it a whole number from 1 to 2147483647",
            "the PodGroup cannot be read: why",
        ],
    )


def test_guests_are_told_of_a_group_that_is_described_when_its_first_pod_comes(scene: Scene) -> None:
    scene.ledger.observe("x", "", member("x", {LABEL: "train", MINIMUM: "4"}))
    changes = scene.pods.groups.changes(0)
    assert changes is not None
    assert changes.position == 1


def test_a_list_of_the_same_pods_changes_nothing(scene: Scene) -> None:
    content = member("x")
    scene.ledger.observe("x", "n", content)
    scene.ledger.replace({"x": ("n", content)})
    assert scene.pods.changes(1) == PodChanges(2, 1, [], is_complete=True)
    assert scene.pods.groups.changes(1) is None


def test_groups_that_are_not_followed_any_more_are_forgotten(scene: Scene) -> None:
    scene.groups.put_object(NATIVE, GroupObject(5))
    scene.ledger.observe("x", "n", member("x"))
    scene.groups.unfollow()
    assert (scene.told, scene.group_of("x"), scene.groups.entries()) == ({}, None, [])
    scene.groups.follow()
    assert (scene.told, scene.group_of("x")) == ({TRAIN: Group()}, TRAIN)


def test_pods_that_are_not_followed_any_more_are_of_no_group(scene: Scene) -> None:
    scene.groups.put_object(TRAIN, GroupObject(4))
    scene.ledger.observe("x", "n", member("x"))
    scene.ledger.unfollow()
    assert scene.groups.entries() == [GroupEntry(TRAIN, Group(4), True, [], {})]
    assert (len(scene.pods), scene.told) == (0, {TRAIN: Group(4)})
