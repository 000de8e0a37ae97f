"""The stand-in for the API server, as the extender's own caches and plain HTTP see it."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import closing
from pathlib import Path

import pytest

from bench.peers import objects
from bench.peers.apiserver import FIRST_VERSION, Cluster, api_server
from bench.peers.nodelist import node_list
from extender.cluster import ApiServer, NodeCache, PodCache
from tests.extender.cluster.support import Ends, running
from tests.extender.cluster.support import objects as known
from tests.patience import eventually
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.protobuf import encode_node, encode_pod

NODES = 700
"""More than a page of a list."""


def test_caches_see_all_objects_and_every_update(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        api = ApiServer.from_kubeconfig(cluster.write_kubeconfig(tmp_path))
        node_table = NodeTable()
        nodes, pods = NodeCache(api, node_table, Ends()), PodCache(api, Ends())
        async with running(nodes), running(pods):
            await eventually(lambda: nodes.synced and pods.synced)
            assert known(node_table) == {objects.node_name(at): encode_node(node(at)) for at in range(NODES)}
            placed = [objects.running_pod(at, objects.node_name(at)) for at in range(3)]
            assert [pods.get(pod["metadata"]["uid"]) for pod in placed] == list(map(encode_pod, placed))
            await asyncio.to_thread(cluster.update, 1_000)
            await eventually(lambda: node_of(node_table, 0) != encode_node(node(0)))
            await asyncio.to_thread(cluster.update, 0)
            last = await asyncio.to_thread(cluster.updates)
            updated = {number % NODES: number for number in range(last + 1)}
            now = {objects.node_name(at): encode_node(node(at, updated.get(at, 0))) for at in range(NODES)}
            await eventually(lambda: known(node_table) == now)
        await api.aclose()

    with api_server(NODES, pods=3) as cluster:
        asyncio.run(scenario(cluster))


def test_nodes_may_have_gpus_and_pods_that_ask_for_them_change(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        api = ApiServer.from_kubeconfig(cluster.write_kubeconfig(tmp_path))
        node_table = NodeTable()
        nodes, pods = NodeCache(api, node_table, Ends()), PodCache(api, Ends())
        async with running(nodes), running(pods):
            await eventually(lambda: nodes.synced and pods.synced)
            assert known(node_table) == {objects.node_name(0): encode_node(objects.with_gpus(node(0), 8))}
            first = objects.running_pod(0, objects.node_name(0), gpus=1)
            uid = first["metadata"]["uid"]
            assert pods.get(uid) == encode_pod(first)
            await asyncio.to_thread(cluster.update_pods, 1_000)
            await eventually(lambda: pods.get(uid) != encode_pod(first))
            await asyncio.to_thread(cluster.update_pods, 0)
        await api.aclose()

    with api_server(1, pods=1, gpus=8) as cluster:
        asyncio.run(scenario(cluster))


@pytest.mark.parametrize("version", ["", "7", str(10**15)])
def test_nodes_of_a_file_and_nodes_that_are_put_get_versions_of_the_server(tmp_path: Path, version: str) -> None:
    """So that a watch goes on behind them when its time is over."""

    def changed(at: int, update: int, version: str) -> bytes:
        made = objects.node(at, 0, update)
        made["metadata"] |= {"generation": 300, "resourceVersion": version}
        return encode_node(made)

    async def scenario(cluster: Cluster) -> None:
        api = ApiServer.from_kubeconfig(cluster.write_kubeconfig(tmp_path))
        node_table, ends = NodeTable(), Ends()
        nodes = NodeCache(api, node_table, ends, lifetime=1)
        async with running(nodes):
            await eventually(lambda: nodes.synced)
            first = [changed(at, 0, str(FIRST_VERSION)) for at in range(3)]
            assert list(known(node_table).values()) == first
            for update in (1, 2):
                watched = len(ends.all)
                await asyncio.to_thread(cluster.put, node_list([changed(1, update, version)]))
                seen = changed(1, update, str(FIRST_VERSION + update))
                await eventually(lambda: node_of(node_table, 1) == seen)  # noqa: B023 (called at once)
                await eventually(lambda: len(ends.all) > watched)  # noqa: B023 (called at once)
            assert list(known(node_table).values()) == [first[0], seen, first[2]]
            assert await asyncio.to_thread(cluster.updates) == 2
        await api.aclose()
        assert set(ends.all[1:]) == {("nodes", "watch", "done")}

    file = tmp_path / "nodes"
    file.write_bytes(node_list(changed(at, 0, version) for at in range(3)))
    with api_server(file) as cluster:
        asyncio.run(scenario(cluster))


def test_nodes_that_are_not_there_cannot_be_put(cluster: Cluster) -> None:
    nodes = node_list([encode_node(node(0, 1)), encode_node({"metadata": {"name": "other"}})])
    with pytest.raises(AssertionError) as caught:
        cluster.put(nodes)
    assert json.loads(caught.value.args[0])["message"] == "no node is named other"
    assert cluster.updates() == 0


def node(at: int, update: int = 0) -> objects.Object:
    """A node after an update of that number, which made it so."""
    return objects.node(at, FIRST_VERSION + update, update)


def node_of(node_table: NodeTable, at: int) -> bytes:
    """A node as guests see it."""
    return known(node_table)[objects.node_name(at)]


def test_a_node_has_four_kilobytes() -> None:
    sizes = [len(encode_node(objects.node(at, FIRST_VERSION))) for at in range(100)]
    assert 4_000 < min(sizes) <= max(sizes) < 4_500


@pytest.mark.parametrize(
    ("target", "status", "message"),
    [
        ("/api/v1/services", 404, "/api/v1/services is not served here"),
        (
            "/api/v1/nodes?watch=1&resourceVersion=999&timeoutSeconds=60",
            410,
            "too old resource version: 999 (1000000)",
        ),
        (
            "/api/v1/nodes?watch=1&resourceVersion=1000001&timeoutSeconds=60",
            410,
            "too large resource version: 1000001 (1000000)",
        ),
        (
            "/api/v1/nodes?watch=1&sendInitialEvents=true&timeoutSeconds=60",
            422,
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        ),
    ],
)
def test_what_is_not_served_is_refused_as_kubernetes_does(
    cluster: Cluster, target: str, status: int, message: str
) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=30)) as connection:
        connection.request("GET", target)
        answer = connection.getresponse()
        content = json.loads(answer.read())
    assert (answer.status, content["code"], content["message"]) == (status, status, message)


def test_a_watch_ends_when_its_time_is_over(cluster: Cluster) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=30)) as connection:
        connection.request("GET", f"/api/v1/nodes?watch=1&resourceVersion={FIRST_VERSION}&timeoutSeconds=0.1")
        assert connection.getresponse().read() == b""
