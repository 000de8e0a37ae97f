"""The groups that guests are told of, as the host keeps them."""

from __future__ import annotations

import random

import pytest

from wasm_runtime import NodeTable
from wasm_runtime.abi import NO_GROUP, GroupSource
from wasm_runtime.pods.group_table import NAMED, Group, GroupChanges, GroupKey, GroupTable, NumberedGroup
from wasm_runtime.pods.pod_table import PlacedPod, PodTable, ResidentPod

A, B, C = (GroupKey(GroupSource.LABEL, "default", name) for name in "abc")
FOUR, FIVE = Group(4, 60, 1), Group(5)


@pytest.fixture
def groups() -> GroupTable:
    return GroupTable()


def changes(groups: GroupTable, position: int = 0) -> list[tuple[int, NumberedGroup | None]]:
    """What changed after a position."""
    found = groups.changes(position)
    return found.groups if found else []


def test_an_empty_one(groups: GroupTable) -> None:
    assert (len(groups), groups.changes(0)) == (0, None)


def test_a_group_is_named_like_a_pod() -> None:
    assert str(A) == "default/a"


def test_put_adds_and_replaces(groups: GroupTable) -> None:
    groups.put(A, FOUR)
    groups.put(B, FOUR)
    groups.put(A, FIVE)
    groups.put(B, FOUR)
    assert groups.changes(0) == GroupChanges(3, 2, [(0, NumberedGroup(A, FIVE)), (1, NumberedGroup(B, FOUR))])
    assert groups.changes(3) is None


def test_what_is_known_of_a_group_is_forgotten_while_it_is_held(groups: GroupTable) -> None:
    assert groups.hold(A) == 0
    assert changes(groups) == [(0, NumberedGroup(A, NAMED))]
    groups.put(A, FOUR)
    groups.remove(A)
    assert changes(groups) == [(0, NumberedGroup(A, NAMED))]
    groups.remove(A)
    assert groups.changes(3) is None


def test_a_number_is_given_to_another_once_a_group_is_neither_held_nor_described(groups: GroupTable) -> None:
    assert (groups.hold(A), groups.hold(A), groups.hold(B)) == (0, 0, 1)
    groups.put(A, FOUR)
    groups.release(A)
    groups.release(A)
    assert groups.hold(C) == 2
    groups.remove(A)
    groups.put(C, FIVE)
    assert changes(groups) == [(0, None), (1, NumberedGroup(B, NAMED)), (2, NumberedGroup(C, FIVE))]
    assert groups.hold(A) == 0
    assert len(groups) == 3


def test_one_that_is_not_held_cannot_be_released(groups: GroupTable) -> None:
    with pytest.raises(KeyError):
        groups.release(A)


def test_who_waits_for_changes_is_told_of_those_of_descriptions() -> None:
    told: list[int] = []
    table = GroupTable(lambda: told.append(len(table)))
    table.put(A, FOUR)
    table.put(A, FOUR)
    table.put(B, FOUR)
    table.remove(C)
    table.remove(B)
    assert told == [1, 2, 1]


def test_pods_hold_their_groups() -> None:
    node_table = NodeTable()
    pods = node_table.pods
    pods.put(
        [("x", ResidentPod("n", b"1", group=A)), ("y", ResidentPod("", b"2", group=A)), ("z", ResidentPod("", b"3"))]
    )
    assert placed(pods) == [("x", 0), ("y", 0), ("z", NO_GROUP)]
    pods.put([("x", ResidentPod("n", b"1", group=B))])
    assert placed(pods) == [("x", 1), ("y", 0), ("z", NO_GROUP)]
    pods.remove("y")
    pods.put([("z", ResidentPod("", b"3", group=C))])
    assert placed(pods) == [("x", 1), ("z", 0)]
    pods.replace({})
    assert (placed(pods), len(pods.groups)) == ([], 0)


def placed(pods: PodTable) -> list[tuple[str, int]]:
    """The number of each pod's group."""
    return sorted((uid, entry.group) for uid, number in pods._numbers.items() if (entry := pods._placed[number]))


def test_the_object_of_a_pod_that_gets_a_group_is_the_one_that_was_told() -> None:
    node_table = NodeTable()
    pods = node_table.pods
    pods.put([("x", ResidentPod("n", b"1"))])
    pods.put([("x", ResidentPod("n", b"1", group=A))])
    found = pods.changes(1)
    assert found is not None
    assert found.pods == [(0, PlacedPod(ResidentPod("n", b"1", group=A), 0, 1, 0))]


def test_any_changes_leave_what_is_held_and_described() -> None:
    """Numbers are unique, below the most groups that there were at once, and stay while a group is there."""
    dice, groups = random.Random(3), GroupTable()
    keys = [GroupKey(source, "default", str(at)) for source in GroupSource for at in range(8)]
    held, described, numbers = dict.fromkeys(keys, 0), dict[GroupKey, Group](), dict[GroupKey, int]()
    most = 0
    for _ in range(20_000):
        key = dice.choice(keys)
        act = dice.choice(["hold", "release", "put", "remove"])
        if act == "hold":
            assert groups.hold(key) == numbers.get(key, groups._numbers[key])
            held[key] += 1
        elif act == "release" and held[key]:
            groups.release(key)
            held[key] -= 1
        elif act == "put":
            described[key] = Group(dice.randrange(5))
            groups.put(key, described[key])
        elif act == "remove":
            described.pop(key, None)
            groups.remove(key)
        there = {each for each in keys if held[each] or each in described}
        most = max(most, len(there))
        now = {entry.key: number for number, entry in changes(groups) if entry}
        assert {each: number for each, number in numbers.items() if each in now} == {
            each: number for each, number in now.items() if each in numbers
        }
        assert {entry for _, entry in changes(groups) if entry} == {
            NumberedGroup(each, described.get(each, NAMED)) for each in there
        }
        assert sorted(now.values()) == sorted(set(now.values()))
        assert max(now.values(), default=0) < max(most, 1)
        numbers = now
