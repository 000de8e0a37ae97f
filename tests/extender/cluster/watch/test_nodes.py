"""Which nodes guests see, through everything that a list and a watch can meet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.controlplane import ControlPlane
from bench.peers.protobuf import event, framed, node, status
from extender.cluster import ApiServer, NodeCache
from extender.cluster.client.envelope import unwrap
from extender.cluster.watch.reflector import PAGE_SIZE
from tests.extender.cluster.scene import QUIET, bookmark, listed, play, told
from tests.extender.cluster.scripted import Behaviour, answer, hang_up, stream
from tests.extender.cluster.support import Ends, objects, running, warnings
from tests.patience import eventually
from wasm_runtime.nodes.node_table import NodeTable


def test_a_list_of_many_pages_is_complete_before_guests_see_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        pages = listed("7", "a", "b", continuation="next"), listed("7", "c")
        async with play(tmp_path, *pages, QUIET) as scene:
            await eventually(lambda: bool(scene.watches))
            assert scene.nodes == {name: node(name, "7") for name in "abc"}
            assert [got.query for got in scene.server.received] == [
                {"limit": "500"},
                {"limit": "500", "continue": "next"},
                {"watch": "1", "resourceVersion": "7", "allowWatchBookmarks": "true", "timeoutSeconds": "60"},
            ]
            assert [got.headers["accept"] for got in scene.server.received[1:]] == [
                "application/vnd.kubernetes.protobuf",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ]
            assert scene.cache.synced
            await eventually(lambda: scene.cache.problem is None)

    asyncio.run(scenario())


def test_each_change_reaches_the_node_table(tmp_path: Path) -> None:
    async def scenario() -> None:
        changes = told("ADDED", "c", "8"), told("MODIFIED", "a", "9") + told("DELETED", "b", "10")
        async with play(tmp_path, listed("7", "a", "b"), stream(*changes, linger=60)) as scene:
            await eventually(lambda: scene.nodes == {"a": node("a", "9"), "c": node("c", "8")})

    asyncio.run(scenario())


def test_a_cluster_without_nodes_is_synced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7"), QUIET) as scene:
            await eventually(lambda: scene.cache.synced)
            assert scene.nodes == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("whole", [True, False], ids=["ended", "dropped"])
def test_a_watch_goes_on_from_its_last_event(tmp_path: Path, whole: bool) -> None:
    async def scenario() -> None:
        first = stream(told("ADDED", "b", "8"), told("ADDED", "c", "9"), whole=whole)
        async with play(tmp_path, listed("7", "a"), first, stream(told("DELETED", "b", "10"), linger=60)) as scene:
            await eventually(lambda: scene.nodes.keys() == {"a", "c"})
            assert scene.watches == ["7", "9"]
            assert scene.lists == 1
            assert scene.cache.problem is None

    asyncio.run(scenario())


@pytest.mark.parametrize("whole", [True, False], ids=["ended", "dropped"])
def test_half_an_event_is_not_applied_and_comes_again(tmp_path: Path, whole: bool) -> None:
    async def scenario() -> None:
        half = told("MODIFIED", "a", "9")[:-3]
        broken = stream(told("ADDED", "b", "8"), half, whole=whole)
        async with play(tmp_path, listed("7", "a"), broken, QUIET) as scene:
            await eventually(lambda: len(scene.watches) == 2)
            assert scene.watches == ["7", "8"]
            assert scene.nodes == {"a": node("a", "7"), "b": node("b", "8")}

    asyncio.run(scenario())


def test_a_bookmark_moves_the_version_to_go_on_from(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a"), stream(bookmark("5000")), QUIET) as scene:
            await eventually(lambda: scene.watches == ["7", "5000"])
            assert scene.nodes == {"a": node("a", "7")}

    asyncio.run(scenario())


EXPIRED = status(410, "too old resource version: 7 (90)")


@pytest.mark.parametrize(
    "watch",
    [
        pytest.param(stream(framed(event("ERROR", EXPIRED))), id="in the stream"),
        pytest.param(answer(410, b'{"kind":"Status","message":"too old resource version: 7 (90)"}'), id="as status"),
    ],
)
def test_an_expired_version_means_a_new_list(
    tmp_path: Path, watch: Behaviour, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a", "gone"), watch, listed("99", "a", "new"), QUIET) as scene:
            await eventually(lambda: scene.watches == ["7", "99"])
            assert scene.nodes == {"a": node("a", "99"), "new": node("new", "99")}
            await eventually(lambda: scene.cache.problem is None)

    asyncio.run(scenario())
    (warning,) = warnings(caplog)
    assert warning.endswith("410: too old resource version: 7 (90)")


def test_a_list_that_expires_between_its_pages_begins_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        expired = answer(410, b'{"kind":"Status","message":"The provided continue parameter is too old"}')
        script = listed("7", "gone", continuation="next"), expired, listed("9", "a"), QUIET
        async with play(tmp_path, *script) as scene:
            await eventually(lambda: scene.watches == ["9"])
            assert scene.nodes.keys() == {"a"}
            assert scene.lists == 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "watch",
    [
        pytest.param(stream(b"<html>Sign in to the network</html>"), id="a proxy's page"),
        pytest.param(stream(framed(b"nonsense")), id="a frame of nonsense"),
        pytest.param(stream(framed(event("ERROR", status(500, "the watch cache is broken")))), id="a server error"),
    ],
)
def test_after_an_answer_that_makes_no_sense_all_is_read_again(tmp_path: Path, watch: Behaviour) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a"), watch, listed("9", "b"), QUIET) as scene:
            await eventually(lambda: scene.watches == ["7", "9"])
            assert scene.nodes.keys() == {"b"}

    asyncio.run(scenario())


def test_nodes_stay_while_the_server_is_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a"), stream(), hang_up) as scene:
            await eventually(lambda: len(scene.watches) == 4)
            assert scene.nodes.keys() == {"a"}
            assert (scene.cache.synced, scene.cache.unusable) == (True, None)
            assert "watch nodes" in (scene.cache.problem or "")
            assert scene.cache.outdated > 0

    asyncio.run(scenario())


def get_node(control_plane: ControlPlane, name: str) -> bytes:
    """A node as the API server itself writes it in protobuf."""
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    return unwrap(control_plane.client.get(f"/api/v1/nodes/{name}", headers=accept).content)


@asynccontextmanager
async def watching(control_plane: ControlPlane, node_table: NodeTable) -> AsyncIterator[None]:
    """A cache of the real nodes."""
    api = ApiServer.from_kubeconfig(control_plane.kubeconfig())
    async with running(NodeCache(api, node_table, Ends())):
        yield
    await api.aclose()


def test_real_nodes_are_listed_and_watched(control_plane: ControlPlane) -> None:
    client = control_plane.client
    control_plane.create_nodes(3, labels={"zone": "a"})
    node_table = NodeTable()

    async def scenario() -> None:
        async with watching(control_plane, node_table):
            await eventually(lambda: objects(node_table).keys() == {"node-0", "node-1", "node-2"})
            await asyncio.to_thread(client.post, "/api/v1/nodes", json={"metadata": {"name": "new"}})
            await eventually(lambda: "new" in objects(node_table))
            patch = {"Content-Type": "application/merge-patch+json"}
            labels = b'{"metadata": {"labels": {"accelerator": "h100"}}}'
            await asyncio.to_thread(client.patch, "/api/v1/nodes/new", content=labels, headers=patch)
            await eventually(lambda: b"h100" in objects(node_table)["new"])
            await asyncio.to_thread(client.delete, "/api/v1/nodes/new")
            await eventually(lambda: "new" not in objects(node_table))
            # Byte for byte what the API server itself says of each.
            await eventually(
                lambda: objects(node_table) == {name: get_node(control_plane, name) for name in objects(node_table)}
            )

    try:
        asyncio.run(scenario())
    finally:
        control_plane.clear()


def test_a_real_list_of_many_pages_is_complete(control_plane: ControlPlane) -> None:
    names = {f"many-{number}" for number in range(2 * PAGE_SIZE + 1)}
    for name in names:
        control_plane.client.post("/api/v1/nodes", json={"metadata": {"name": name}}).raise_for_status()
    node_table = NodeTable()

    async def scenario() -> None:
        async with watching(control_plane, node_table):
            await eventually(lambda: objects(node_table).keys() == names)

    try:
        asyncio.run(scenario())
    finally:
        control_plane.clear()
