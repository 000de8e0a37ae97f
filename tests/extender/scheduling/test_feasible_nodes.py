"""Which pods may be bound, and to which nodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from extender.cluster import PodKey
from extender.scheduling import feasible_nodes
from extender.scheduling.feasible_nodes import (
    ANSWER_BYTES,
    INDEX_BYTES,
    MAX_AGE_S,
    SWEEP_INTERVAL_S,
    FeasibleNodes,
    NotFilteredError,
)
from tests.clock import Clock
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import Nodes, NodeTable

NODE_TABLE = NodeTable()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(feasible_nodes, "time", SimpleNamespace(monotonic=clock))
    return clock


def nodes(*names: str, node_table: NodeTable = NODE_TABLE) -> Nodes:
    return Nodes(node_table, list(names))


def of(uid: str) -> Pod:
    return Pod(uid, f"default/of-{uid}", b"")


def refusal(kept: FeasibleNodes, uid: str, node: str, route: str = "") -> str:
    """Why a pod must not be bound to a node; empty if it may be."""
    try:
        kept.require(PodKey("default", f"of-{uid}", uid), route, node)
    except NotFilteredError as error:
        return str(error)
    return ""


def not_filtered(uid: str) -> str:
    return (
        f"bind refused: no filter of pod default/of-{uid} was answered here in the last 30 minutes;"
        " kube-scheduler tries the pod again, and filters first if its extender has filterVerb beside bindVerb"
    )


def not_among(uid: str, node: str) -> str:
    return (
        f"bind refused: node {node} is none of those that filter has answered for pod default/of-{uid};"
        " kube-scheduler tries the pod again, and binds it to one of those"
    )


def test_a_pod_may_be_bound_to_the_nodes_that_were_answered_for_it_by_that_route() -> None:
    kept = FeasibleNodes()
    kept.add(of("a"), "gpu", nodes("x", "y"))
    kept.add(of("b"), "", nodes("z"))
    assert [refusal(kept, "a", node, "gpu") for node in "xyz"] == ["", "", not_among("a", "z")]
    assert [refusal(kept, "a", "x", route) for route in ("", "cpu")] == [not_filtered("a")] * 2
    assert [refusal(kept, uid, "z") for uid in "bc"] == ["", not_filtered("c")]
    assert refusal(kept, "b", "nobody-knows-it") == not_among("b", "nobody-knows-it")


def test_a_uid_alone_is_not_enough() -> None:
    kept = FeasibleNodes()
    kept.add(Pod("a", "team/other", b""), "", nodes("x"))
    assert refusal(kept, "a", "x") == (
        "bind refused: the pod of UID a that filter was asked about is team/other, not default/of-a; kube-scheduler"
        " asks about both alike"
    )
    kept.add(of("a"), "", nodes("y"))
    assert refusal(kept, "a", "y") == ""
    assert refusal(kept, "a", "x") == not_among("a", "x"), "that was the answer for another"


def test_a_pod_of_a_scheduler_without_a_profile_is_not_bound() -> None:
    kept = FeasibleNodes()
    kept.add(of("a"), "", nodes("x"), is_served=False)
    assert refusal(kept, "a", "x") == (
        "bind refused: no profile is for the schedulerName of pod default/of-a; add one of that name, or one named"
        " default, which is for all others"
    )
    kept.add(of("a"), "", nodes("x"))
    assert refusal(kept, "a", "x") == ""


def test_every_answer_for_a_pod_counts_until_it_is_bound() -> None:
    kept = FeasibleNodes()
    for names in ("xy", "z", ""):
        kept.add(of("a"), "", nodes(*names))
    assert [refusal(kept, "a", node) for node in "xyz"] == [""] * 3
    kept.forget("a", "other")
    assert refusal(kept, "a", "x") == ""
    for _ in range(2):
        kept.forget("a", "")
        assert refusal(kept, "a", "x") == not_filtered("a")


def test_an_answer_counts_for_half_an_hour(clock: Clock) -> None:
    kept = FeasibleNodes()
    kept.add(of("a"), "", nodes("x"))
    clock.now += 1
    kept.add(of("a"), "", nodes("y"))
    clock.now += MAX_AGE_S - 1.001
    assert [refusal(kept, "a", node) for node in "xy"] == ["", ""]
    clock.now += 0.001
    assert [refusal(kept, "a", node) for node in "xy"] == [not_among("a", "x"), ""]
    clock.now += 1
    assert refusal(kept, "a", "y") == not_filtered("a")


def test_of_a_pod_the_last_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasible_nodes, "MAX_PER_POD", 3)
    kept = FeasibleNodes()
    for name in "vwxyz":
        kept.add(of("a"), "", nodes(name))
    assert [refusal(kept, "a", node) for node in "vwxyz"] == [not_among("a", "v"), not_among("a", "w"), "", "", ""]
    assert kept._bytes == 3 * (ANSWER_BYTES + INDEX_BYTES)


def test_beyond_a_bound_the_pods_go_that_were_answered_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasible_nodes, "MAX_BYTES", 3 * (ANSWER_BYTES + INDEX_BYTES))
    kept = FeasibleNodes()
    for uid in "abca":
        kept.add(of(uid), "", nodes("x"))
    assert left(kept) == "ca"
    kept.add(of("d"), "", nodes("x"))
    assert left(kept) == "ad"
    kept.add(of("e"), "", nodes(*(f"node-{at}" for at in range(1000))))
    assert (left(kept), kept._bytes) == ("", 0)


def left(kept: FeasibleNodes) -> str:
    """The pods that are remembered, the one first that goes next."""
    return "".join(uid for uid, _ in kept._answers)


def test_those_that_are_over_go_as_others_come(clock: Clock) -> None:
    kept = FeasibleNodes()
    for uid in "abc":
        kept.add(of(uid), "", nodes("x"))
        clock.now += 1
    clock.now += MAX_AGE_S - 1.5
    kept.add(of("d"), "", nodes("x"))
    assert left(kept) == "cd"
    clock.now += SWEEP_INTERVAL_S
    kept.add(of("e"), "", nodes("x"))
    assert (left(kept), kept._bytes) == ("de", 2 * (ANSWER_BYTES + INDEX_BYTES))


def test_names_that_take_the_place_of_others_are_not_taken_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's number is given to another name in the next epoch."""
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", 3)
    node_table, kept = NodeTable(), FeasibleNodes()
    kept.add(of("a"), "", nodes("w", "x", "y", "z", node_table=node_table))
    node_table.locate(["new"])
    for node in ("new", "w"):
        assert refusal(kept, "a", node) == not_among("a", node)


def test_nodes_of_requests_that_are_gone_keep_nothing_alive() -> None:
    kept, gone = FeasibleNodes(), NodeTable()
    kept.add(of("a"), "", nodes("x", node_table=gone))
    assert refusal(kept, "a", "x") == ""
    del gone
    assert refusal(kept, "a", "x") == not_among("a", "x")
