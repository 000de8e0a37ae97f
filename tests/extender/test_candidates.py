from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from extender import candidates
from extender.candidates import NodeSource, NotSyncedError
from extender.wire import Candidates, RequestError, decode_args
from tests.extender.objects import node, nodes_args
from wasm_runtime.protobuf import encode_node
from wasm_runtime.snapshot import Snapshot


@dataclass
class Cache:
    """A cache of a cluster, synced or not."""

    synced: bool = True
    problem: str | None = None


def of_nodes(*names: str, version: str = "1") -> Candidates:
    return decode_args(json.dumps(nodes_args([node(name, version=version) for name in names])).encode())[1]


def of_names(*names: str) -> Candidates:
    return Candidates(list(names), None)


def test_whole_nodes_are_kept_for_requests_that_only_name_them() -> None:
    source = NodeSource(None, Snapshot())
    assert source.find(of_nodes("a", "b"), wants_objects=True).names == ["a", "b"]
    found = source.find(of_names("b", "c"), wants_objects=True)
    assert (found.names, len(found.snapshot)) == (["b", "c"], 2)


def test_nodes_are_not_converted_when_no_guest_wants_them() -> None:
    source = NodeSource(None, Snapshot())
    found = source.find(of_nodes("a"), wants_objects=False)
    assert (found.names, len(found.snapshot)) == (["a"], 0)
    assert len(source.find(of_nodes("a"), wants_objects=True).snapshot) == 1


def test_a_node_that_cannot_be_converted_leaves_those_known_before() -> None:
    source = NodeSource(None, Snapshot())
    source.find(of_nodes("a"), wants_objects=True)
    broken = decode_args(b'{"Pod": {"metadata": {}}, "Nodes": {"items": [{"metadata": {"name": "b"}, "spec": 5}]}}')[1]
    with pytest.raises(RequestError, match=r"^Nodes: node b: spec: expected an object, got 5$"):
        source.find(broken, wants_objects=True)
    assert len(source.find(of_nodes("a"), wants_objects=True).snapshot) == 1


def test_memory_is_bounded_when_node_names_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MOST_KEPT", 10)
    source = NodeSource(None, Snapshot())
    for round_ in range(20):
        found = source.find(of_nodes(*(f"node-{round_}-{at}" for at in range(4))), wants_objects=True)
        assert 4 <= len(found.snapshot) <= 10
    many = of_nodes(*(f"node-{at}" for at in range(25)))
    for _ in range(2):
        assert len(source.find(many, wants_objects=True).snapshot) == 25


def test_with_a_cluster_names_are_looked_up_there() -> None:
    cluster = Snapshot()
    cluster.put([("a", encode_node(node("a")))])
    source = NodeSource(Cache(), cluster)
    assert source.find(of_names("a", "b"), wants_objects=True).snapshot is cluster
    assert source.find(of_nodes("b"), wants_objects=True).snapshot is not cluster
    assert len(cluster) == 1


def test_nodes_of_a_cluster_that_are_not_known_yet_are_an_error_only_where_they_are_wanted() -> None:
    cache = Cache(synced=False)
    source = NodeSource(cache, Snapshot())
    assert source.find(of_names("a"), wants_objects=False).names == ["a"]
    assert source.find(of_nodes("a"), wants_objects=True).names == ["a"]
    with pytest.raises(NotSyncedError) as refused:
        source.find(of_names("a"), wants_objects=True)
    assert str(refused.value) == "the nodes of the cluster are not known yet: listing them"
    cache.problem = "list nodes: no answer (for 3 s)"
    with pytest.raises(NotSyncedError) as refused:
        source.named(["a"], wants_objects=True)
    assert str(refused.value) == "the nodes of the cluster are not known yet: list nodes: no answer (for 3 s)"
