"""Pods are not evicted again while others, evicted for the same pod, are about to leave room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from extender.scheduling import evictions as evictions_module
from extender.scheduling.evictions import NOMINATION_S, Evictions
from extender.scheduling.ledger import Ledger
from tests.clock import Clock
from tests.extender.kwx import plugin, profile
from tests.extender.objects import filter_error, filtered, meta_victims, names_args, node, pod, preemption_args
from tests.extender.rollouts.inside import Inside
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.protobuf.encode import encode_node

POD = b"\x0a\x00"


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """Two pods on a node, and one on another."""
    nodes = NodeTable()
    ledger = Ledger(nodes.pods, lambda: 0.0)
    ledger.is_followed = True
    for uid, name in (("a", "node-0"), ("b", "node-0"), ("c", "node-1")):
        ledger.observe(uid, name, POD)
    yield ledger
    del nodes  # Its pods need it until here.


def left_on(evictions: Evictions, uid: str, node: str) -> int:
    """How many victims are there yet on a pod's nominated node."""
    return evictions.left(uid, node, [node]).get(node, 0)


def test_victims_count_until_the_watch_shows_their_end(ledger: Ledger) -> None:
    evictions = Evictions(ledger)
    evictions.remember("urgent", {"node-0": ["a", "b"], "node-1": ["c"]})
    counts = [left_on(evictions, "urgent", "node-0")]
    for uid in ("c", "a", "b"):
        ledger.delete(uid)
        counts.append(left_on(evictions, "urgent", "node-0"))
    assert counts == [2, 2, 1, 0]


def test_a_pod_without_a_nominated_node_waits_for_one_of_those_that_were_answered(ledger: Ledger) -> None:
    clock = Clock()
    evictions = Evictions(ledger, clock)
    evictions.remember("urgent", {"node-0": ["a", "b"], "node-1": ["c"]})
    assert evictions.left("urgent", "", []) == {"node-0": 2, "node-1": 1}
    ledger.delete("b")
    assert evictions.left("urgent", "", []) == {"node-0": 1, "node-1": 1}
    ledger.delete("c")
    assert evictions.left("urgent", "", []) == {}


def test_without_a_nominated_node_it_does_so_for_a_while(ledger: Ledger) -> None:
    clock = Clock()
    evictions = Evictions(ledger, clock)
    evictions.remember("urgent", {"node-0": ["a", "b"]})
    clock.now += NOMINATION_S - 0.1
    assert evictions.left("urgent", "", []) == {"node-0": 2}
    clock.now += 0.1
    assert evictions.left("urgent", "", []) == {}
    assert left_on(evictions, "urgent", "node-0") == 2


def test_victims_of_others_and_of_earlier_answers_do_not_count(ledger: Ledger) -> None:
    evictions = Evictions(ledger)
    evictions.remember("urgent", {"node-0": ["a", "b"]})
    evictions.remember("urgent", {})
    assert left_on(evictions, "urgent", "node-0") == 2
    evictions.remember("urgent", {"node-1": ["c"]})
    assert [left_on(evictions, "urgent", name) for name in ("node-0", "node-1")] == [0, 1]
    assert left_on(evictions, "another", "node-1") == 0


def test_where_no_pods_are_followed_no_end_is_awaited(ledger: Ledger) -> None:
    evictions = Evictions(ledger)
    evictions.remember("urgent", {"node-0": ["a", "b"]})
    ledger.is_followed = False
    assert left_on(evictions, "urgent", "node-0") == 0


def test_the_oldest_answers_go_where_there_are_too_many(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evictions_module, "MAX_VICTIMS", 3)
    evictions = Evictions(ledger)
    names = ("first", "second", "third", "fourth")
    for uid in ("first", "second", "first", "third"):
        evictions.remember(uid, {"node-0": ["a"], "node-1": ["c"]} if uid == "first" else {"node-0": ["a"]})
    assert [left_on(evictions, uid, "node-0") for uid in names] == [1, 0, 1, 0]
    evictions.remember("fourth", {"node-0": ["a", "b"]})
    assert [left_on(evictions, uid, "node-0") for uid in names] == [0, 0, 1, 2]


def test_answers_without_victims_are_bounded_as_well(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler names no such node, but any client may."""
    monkeypatch.setattr(evictions_module, "MAX_VICTIMS", 3)
    evictions = Evictions(ledger)
    for uid in ("first", "second", "third", "fourth"):
        evictions.remember(uid, {"node-0": []})
    assert list(evictions.answers) == ["second", "third", "fourth"]


FULL = "2 pods are there"
NAMES = ["node-0", "node-1"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Inside]:
    """An extender with a plugin that takes two pods on a node, and two full nodes; preempt passes all."""
    profiles = [profile("default", plugin("packs_two"), topNodes=1), profile("all", plugin("score_by_digit"))]
    with Inside(tmp_path, *profiles) as world:
        world.nodes.put((name, encode_node(node(name))) for name in NAMES)
        world.ledger.is_followed = True
        for name in NAMES:
            for uid in victims_of(name):
                world.ledger.observe(uid, name, POD)
        victims = {name: meta_victims(*victims_of(name)) for name in NAMES}
        answer = world.ask("/profiles/all/preempt", preemption_args(victims, pod("urgent")))
        assert answer == {"NodeNameToMetaVictims": victims}
        yield world


def victims_of(name: str) -> list[str]:
    """The UIDs of the pods on a node."""
    return [f"{name}-{at}" for at in range(2)]


def ask(world: Inside, names: Sequence[str], nominated: str | None) -> Any:
    """What filter answers a pod for which others were evicted."""
    asking = pod("urgent")
    asking["status"]["nominatedNodeName"] = nominated
    return world.ask("/filter", names_args(names, asking))


@pytest.mark.parametrize("names", [NAMES, ["node-0"]])
def test_a_node_that_is_made_free_is_not_rejected_while_victims_are_there(world: Inside, names: list[str]) -> None:
    """kube-scheduler tries a pod again after an error, and evicts none for it."""
    told = "node node-0 is made free for pod default/urgent, and the watch shows {} of the evicted pods there; "
    assert ask(world, names, "node-0") == filter_error(told.format(2) + "kube-scheduler tries the pod again")


def test_as_soon_as_there_is_room_the_pod_gets_it(world: Inside) -> None:
    world.ledger.delete("node-0-0")
    assert ask(world, NAMES, "node-0") == filtered(["node-0"], {"node-1": FULL})


def test_room_on_another_node_is_taken(world: Inside) -> None:
    world.ledger.delete("node-1-0")
    assert ask(world, NAMES, "node-0") == filtered(["node-1"], {"node-0": FULL})


@pytest.mark.parametrize("names", [NAMES, ["node-1"]])
def test_a_pod_that_has_yet_to_see_its_nominated_node_is_not_rejected(world: Inside, names: list[str]) -> None:
    """Its nominated node is any of those that preempt has answered, and need not be asked about yet."""
    told = "one of 2 nodes is made free for pod default/urgent, and the watch shows pods that may be evicted on each; "
    assert ask(world, names, None) == filter_error(told + "kube-scheduler tries the pod again")


@pytest.mark.parametrize(("names", "nominated"), [(["node-1"], "node-0"), (NAMES, "node-9")])
def test_any_other_pod_may_cause_evictions(world: Inside, names: list[str], nominated: str | None) -> None:
    """kube-scheduler does not take the node for free, or has given it up."""
    assert ask(world, names, nominated) == filtered([], dict.fromkeys(names, FULL))
