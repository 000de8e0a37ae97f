from __future__ import annotations

import json
from typing import Any

import pytest

from extender.scheduling import late_nodes, node_source
from extender.scheduling.node_source import NodeSource, NotSyncedError
from extender.scheduling.requests import Candidates, RequestError
from extender.webhook.decoding import RequestDecoder
from tests.extender.cache import Cache
from tests.extender.objects import node, nodes_args
from wasm_runtime.nodes.node_table import Nodes, NodeTable
from wasm_runtime.protobuf import encode_node


def of_nodes(*names: str, version: str = "1") -> Candidates:
    return RequestDecoder().decode_args(
        json.dumps(nodes_args([node(name, version=version) for name in names])).encode()
    )[1]


def of_names(*names: str) -> Candidates:
    return Candidates(list(names))


def test_whole_nodes_are_kept_for_requests_that_only_name_them() -> None:
    source = NodeSource(None, NodeTable())
    assert source.find(of_nodes("a", "b"), wants_objects=True).names == ["a", "b"]
    found = source.find(of_names("b", "c"), wants_objects=True)
    assert (found.names, len(found.node_table)) == (["b", "c"], 2)


def test_nodes_are_not_converted_when_no_guest_wants_them() -> None:
    source = NodeSource(None, NodeTable())
    found = source.find(of_nodes("a"), wants_objects=False)
    assert (found.names, len(found.node_table)) == (["a"], 0)
    assert len(source.find(of_nodes("a"), wants_objects=True).node_table) == 1


def test_a_node_that_cannot_be_converted_leaves_those_known_before() -> None:
    source = NodeSource(None, NodeTable())
    source.find(of_nodes("a"), wants_objects=True)
    broken = RequestDecoder().decode_args(
        b'{"Pod": {"metadata": {}}, "Nodes": {"items": [{"metadata": {"name": "b"}, "spec": 5}]}}'
    )[1]
    with pytest.raises(RequestError, match=r"^Nodes: node b: spec: expected an object, got 5$"):
        source.find(broken, wants_objects=True)
    assert len(source.find(of_nodes("a"), wants_objects=True).node_table) == 1


def test_memory_is_bounded_when_node_names_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_source, "MAX_KEPT_NODES", 10)
    source = NodeSource(None, NodeTable())
    for round_ in range(20):
        found = source.find(of_nodes(*(f"node-{round_}-{at}" for at in range(4))), wants_objects=True)
        assert 4 <= len(found.node_table) <= 10


def test_nodes_are_kept_whose_versions_change_and_those_of_one_large_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_source, "MAX_KEPT_NODES", 10)
    for names in [f"node-{at}" for at in range(10)], [f"node-{at}" for at in range(25)]:
        source = NodeSource(None, NodeTable())
        first = source.find(of_nodes(*names), wants_objects=True)
        again = source.find(of_nodes(*names[:8], version="2"), wants_objects=True)
        assert (again.node_table, len(again.node_table)) == (first.node_table, len(names))


def test_a_verb_under_way_keeps_its_nodes_when_all_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_source, "MAX_KEPT_NODES", 3)
    changes: list[int] = []
    source = NodeSource(None, NodeTable(), lambda: NodeTable(lambda: changes.append(1)))
    under_way = source.find(of_nodes("a", "b"), wants_objects=True)
    assert changes == []
    next_one = source.find(of_nodes("b", "c", "d"), wants_objects=True)
    assert objects_of(under_way) == [encode_node(node(name)) for name in "ab"]
    assert objects_of(next_one) == [encode_node(node(name)) for name in "bcd"]
    assert source.current is next_one.node_table
    assert objects_of(source.find(of_names("a", "d"), wants_objects=True)) == [b"", encode_node(node("d"))]
    assert changes == [1]


@pytest.fixture
def cluster() -> NodeTable:
    """A cluster with the node a."""
    cluster = NodeTable()
    cluster.put([("a", encode_node(node("a")))])
    return cluster


def objects_of(nodes: Nodes) -> list[bytes]:
    """What guests see of nodes, one after the other."""
    objects = {name: content for _, name, content in nodes.node_table.everything().nodes}
    return [objects[name] for name in nodes.names]


def test_with_a_cluster_names_are_looked_up_there(cluster: NodeTable) -> None:
    source = NodeSource(Cache(), cluster)
    for _ in range(2):
        assert objects_of(source.find(of_names("a", "b"), wants_objects=True)) == [encode_node(node("a")), b""]


def test_with_a_cluster_whole_nodes_only_name_those_that_it_has(cluster: NodeTable) -> None:
    """The preemption candidates of a cycle are among those that filter was not asked about: they never came whole."""
    source = NodeSource(Cache(), cluster)
    for wants_objects in (True, False):
        found = source.find(of_nodes("a", version="2"), wants_objects=wants_objects)
        assert (found.names, objects_of(found), found.carried) == (["a"], [encode_node(node("a"))], {})
    assert (source.current, len(cluster)) == (cluster, 1)


@pytest.mark.parametrize("wants_objects", [True, False])
def test_whole_nodes_that_the_cluster_does_not_have_are_carried(cluster: NodeTable, wants_objects: bool) -> None:
    cluster.put([("gone", b"1")])
    cluster.remove("gone")
    cluster.locate(["named"])
    before = cluster.everything()
    source, names = NodeSource(Cache(), cluster), ["new", "a", "gone", "named"]
    found = source.find(of_nodes(*names, version="2"), wants_objects=wants_objects)
    assert found.names == names
    assert found.carried == {
        name: encode_node(node(name, version="2")) if wants_objects else b"" for name in ("new", "gone", "named")
    }
    assert (cluster.everything(), cluster.unknown(names)) == (before, ["new"])
    assert not source.late.has_any(names)


def test_one_that_the_cluster_does_not_have_and_that_cannot_be_read_is_refused(cluster: NodeTable) -> None:
    broken = RequestDecoder().decode_args(
        b'{"Pod": {"metadata": {}}, "Nodes": {"items": [{"metadata": {"name": "b"}, "spec": 5}]}}'
    )[1]
    with pytest.raises(RequestError, match=r"^Nodes: node b: spec: expected an object, got 5$"):
        NodeSource(Cache(), cluster).find(broken, wants_objects=True)


@pytest.mark.parametrize("cache", [Cache("not read", "they are being read"), Cache(problem="unreachable")])
def test_whole_nodes_are_names_while_nobody_knows_what_the_cluster_has(cluster: NodeTable, cache: Cache) -> None:
    """Else no pod at all would be bound while the API server is away: a new node may be among those of each request."""
    source = NodeSource(cache, cluster, needs_sync=False)
    found = source.find(of_nodes("b", "a"), wants_objects=True)
    assert (objects_of(found), found.carried) == ([b"", encode_node(node("a"))], {})


@pytest.mark.parametrize(
    ("cache", "is_expected"),
    [
        pytest.param(Cache(), True, id="a watch"),
        pytest.param(Cache("not read", "they are being read"), False, id="a watch that has brought nothing"),
        pytest.param(Cache(problem="unreachable"), False, id="a watch that is interrupted"),
        pytest.param(None, False, id="no watch"),
    ],
)
def test_a_name_that_comes_up_is_expected_from_a_watch(
    cluster: NodeTable, cache: Cache | None, is_expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_nodes, "MAX_LAG_S", 1e9)
    source = NodeSource(cache, cluster, needs_sync=False)
    for wants_objects in (False, True):
        name = f"new-{wants_objects}"
        source.find(of_names("a", name), wants_objects=wants_objects)
        assert (source.late.has_any(["a"]), source.late.has_any([name])) == (False, is_expected)


def test_a_name_that_no_node_can_have_is_refused_and_not_expected(cluster: NodeTable) -> None:
    source, name = NodeSource(Cache(), cluster), "x" * 254
    with pytest.raises(RequestError, match=r"^a node name has more than 253 characters$"):
        source.find(of_names("a", name), wants_objects=True)
    assert not source.late.has_any([name])


def test_a_node_is_converted_when_it_has_changed_with_its_version_or_without() -> None:
    changes: list[int] = []
    source = NodeSource(None, NodeTable(lambda: changes.append(1)))
    as_they_come: list[dict[str, Any]] = [{"version": version} for version in ("1", "2", "2", "", "")]
    # kube-scheduler sends none such, but others do.
    relabelled: dict[str, Any] = {"version": "2", "labels": {"x": "1"}}
    for each in (*as_they_come, relabelled, relabelled, {"version": "2"}):
        found = source.find(
            RequestDecoder().decode_args(json.dumps(nodes_args([node("a", **each)])).encode())[1], wants_objects=True
        )
        assert objects_of(found) == [encode_node(node("a", **each))]
    assert len(changes) == 5


def test_a_node_that_was_made_anew_is_another_one_though_name_and_version_are_the_same() -> None:
    source = NodeSource(None, NodeTable())
    for uid in ("first", "second"):
        made = node("a", labels={"made": uid})
        made["metadata"]["uid"] = uid
        found = source.find(
            RequestDecoder().decode_args(json.dumps(nodes_args([made])).encode())[1], wants_objects=True
        )
        assert objects_of(found) == [encode_node(made)]


def test_nodes_are_bounded_by_their_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"filler": "x" * 1_000}
    monkeypatch.setattr(node_source, "MAX_KEPT_BYTES", 3_500)
    source = NodeSource(None, NodeTable())
    for version in range(3):
        for name in "abc":
            asked = nodes_args([node(name, version=str(version), labels=large)])
            source.find(RequestDecoder().decode_args(json.dumps(asked).encode())[1], wants_objects=True)
        assert len(source.current) == 3
    asked = nodes_args([node(name, labels=large) for name in "cd"])
    found = source.find(RequestDecoder().decode_args(json.dumps(asked).encode())[1], wants_objects=True)
    assert (found.names, len(found.node_table)) == (["c", "d"], 2)
    assert objects_of(found) == [encode_node(node(name, labels=large)) for name in "cd"]


WHY = "the nodes of the cluster are not known yet: list nodes: no answer (for 3 s)"


def test_a_cache_that_is_not_to_be_answered_from_is_an_error_only_where_its_nodes_are_wanted() -> None:
    source = NodeSource(Cache(WHY), NodeTable())
    for asked in (of_names("a"), of_nodes("a")):
        assert source.find(asked, wants_objects=False).names == ["a"]
    for asked in (of_names("a"), of_nodes("a"), of_names("a")):
        with pytest.raises(NotSyncedError) as refused:
            source.find(asked, wants_objects=True)
        assert str(refused.value) == WHY


def test_a_cache_is_answered_from_all_the_same_where_that_is_configured(cluster: NodeTable) -> None:
    source = NodeSource(Cache(WHY), cluster, needs_sync=False)
    for found in (
        source.find(of_names("a", "b"), wants_objects=True),
        source.find(of_names("a", "b"), wants_objects=True),
    ):
        assert objects_of(found) == [encode_node(node("a")), b""]


def test_a_source_apart_has_the_nodes_of_its_own_requests_and_the_cache_of_the_cluster() -> None:
    source = NodeSource(None, NodeTable())
    source.find(of_nodes("a"), wants_objects=True)
    apart = source.apart()
    assert (len(apart.current), len(apart.take(of_nodes("b", "c"))), len(apart.take(of_names("d")))) == (0, 2, 2)
    assert len(source.current) == 1

    beside = NodeSource(Cache(), NodeTable())
    beside.current.put([("a", encode_node(node("a")))])
    assert beside.apart().take(of_nodes("a", "b")) is beside.current
    assert len(beside.current) == 1
