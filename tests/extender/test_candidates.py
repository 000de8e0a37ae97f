from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from extender import candidates
from extender.candidates import NodeSource, NotSyncedError
from extender.wire import Candidates, RequestError, decode_args
from tests.extender.objects import node, nodes_args
from wasm_runtime.protobuf import encode_node
from wasm_runtime.snapshot import Nodes, Snapshot


@dataclass
class Cache:
    """A cache of a cluster, to be answered from or not."""

    unusable: str | None = None


def of_nodes(*names: str, version: str = "1") -> Candidates:
    return decode_args(json.dumps(nodes_args([node(name, version=version) for name in names])).encode())[1]


def of_names(*names: str) -> Candidates:
    return Candidates(list(names))


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


@pytest.fixture
def cluster() -> Snapshot:
    """A cluster with the node a."""
    cluster = Snapshot()
    cluster.put([("a", encode_node(node("a")))])
    return cluster


def objects_of(nodes: Nodes) -> list[bytes]:
    """What guests see of nodes, one after the other."""
    objects = {name: content for _, name, content in nodes.snapshot.everything().nodes}
    return [objects[name] for name in nodes.names]


def test_with_a_cluster_names_are_looked_up_there(cluster: Snapshot) -> None:
    source = NodeSource(Cache(), cluster)
    assert objects_of(source.find(of_names("a", "b"), wants_objects=True)) == [encode_node(node("a")), b""]
    assert objects_of(source.find(of_nodes("b"), wants_objects=True)) == [encode_node(node("b"))]
    assert len(cluster) == 1


def test_a_version_is_converted_once_and_a_node_without_one_each_time() -> None:
    changes = []
    source = NodeSource(None, Snapshot(), Snapshot(lambda: changes.append(1)))
    labelled = nodes_args([node("a", labels={"x": "1"})])
    for version in ("1", "2", "2", ""):
        source.find(of_nodes("a", version=version), wants_objects=True)
    # Not a new object, for kube-scheduler never changes one without its version.
    source.find(of_nodes("a", version="1"), wants_objects=True)
    found = source.find(decode_args(json.dumps(labelled).encode())[1], wants_objects=True)
    assert objects_of(found) == [encode_node(node("a"))]
    without = nodes_args([node("a", version="", labels={"x": "1"})])
    for _ in range(2):
        found = source.find(decode_args(json.dumps(without).encode())[1], wants_objects=True)
    assert objects_of(found) == [encode_node(node("a", version="", labels={"x": "1"}))]
    assert len(changes) == 5


def test_bind_and_preempt_see_the_nodes_that_filter_saw(cluster: Snapshot) -> None:
    """Whether the cluster is connected or not, a scheduler without `nodeCacheCapable` may have newer nodes."""
    requests = Snapshot()
    source = NodeSource(Cache(), cluster, requests)
    assert source.current is cluster
    newer = of_nodes("a", "b", version="2")
    source.find(newer, wants_objects=False)
    assert source.current is cluster
    source.find(newer, wants_objects=True)
    assert source.current is requests
    bound = source.named(["b", "a"], wants_objects=True)
    assert objects_of(bound) == [encode_node(node(name, version="2")) for name in "ba"]
    source.find(of_names("a"), wants_objects=True)
    assert source.current is cluster
    assert objects_of(source.named(["a"], wants_objects=True)) == [encode_node(node("a"))]


def test_without_a_cluster_there_are_only_the_nodes_of_requests(cluster: Snapshot) -> None:
    requests = Snapshot()
    source = NodeSource(None, cluster, requests)
    for asked in (of_names("a"), of_nodes("a"), of_names("a")):
        assert source.current is requests
        source.find(asked, wants_objects=True)
    assert (len(requests), len(cluster)) == (1, 1)


WHY = "the nodes of the cluster are not known yet: list nodes: no answer (for 3 s)"


def test_a_cache_that_is_not_to_be_answered_from_is_an_error_only_where_its_nodes_are_wanted() -> None:
    source = NodeSource(Cache(WHY), Snapshot())
    assert source.find(of_names("a"), wants_objects=False).names == ["a"]
    for ask in (
        lambda: source.find(of_names("a"), wants_objects=True),
        lambda: source.named(["a"], wants_objects=True),
    ):
        with pytest.raises(NotSyncedError) as refused:
            ask()
        assert str(refused.value) == WHY
    assert source.find(of_nodes("a"), wants_objects=True).names == ["a"]
    assert source.named(["a"], wants_objects=True).names == ["a"]


def test_a_cache_is_answered_from_all_the_same_where_that_is_configured(cluster: Snapshot) -> None:
    source = NodeSource(Cache(WHY), cluster, needs_sync=False)
    for found in source.find(of_names("a", "b"), wants_objects=True), source.named(["a", "b"], wants_objects=True):
        assert objects_of(found) == [encode_node(node("a")), b""]
