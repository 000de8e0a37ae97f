"""The node cache keeps its snapshot current through everything that a watch can meet."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.controlplane import ControlPlane
from bench.peers.kubeconfig import write_kubeconfig
from bench.peers.protobuf import event, framed, node, node_list, status, text
from extender.cluster import ApiServer, NodeCache, reflector
from extender.cluster.envelope import unwrap
from extender.cluster.reflector import PAGE_SIZE
from tests.extender.cluster.scripted import (
    Behaviour,
    Received,
    ScriptedServer,
    answer,
    drip,
    hang_up,
    say_nothing,
    stream,
)
from tests.extender.cluster.support import Ends, ageless, objects, running, until, warnings
from wasm_runtime.snapshot import Snapshot

QUIET = stream(linger=60)
"""A watch in which nothing happens."""


class Scene:
    """A cache at work against a scripted server."""

    def __init__(self, server: ScriptedServer, cache: NodeCache, snapshot: Snapshot, ends: Ends) -> None:
        self.server = server
        self.ends = ends
        self.cache = cache
        self._snapshot = snapshot

    @property
    def nodes(self) -> dict[str, bytes]:
        """Name and object of each node that guests see."""
        return objects(self._snapshot)

    @property
    def watches(self) -> list[str]:
        """The resourceVersion that each watch began from."""
        return [got.query["resourceVersion"] for got in self.server.received if "watch" in got.query]

    @property
    def lists(self) -> int:
        """How many lists were begun."""
        return sum("watch" not in got.query and "continue" not in got.query for got in self.server.received)


@asynccontextmanager
async def play(
    directory: Path, *script: Behaviour, lifetime: int = 60, grace: float = 10.0, stale_after: float = math.inf
) -> AsyncIterator[Scene]:
    """A cache that meets `script`."""
    async with ScriptedServer(*script) as server:
        api = ApiServer.from_kubeconfig(write_kubeconfig(directory / "config", {"server": server.url}))
        snapshot, ends = Snapshot(), Ends()
        cache = NodeCache(api, snapshot, ends, stale_after=stale_after, lifetime=lifetime, grace=grace)
        async with running(cache):
            yield Scene(server, cache, snapshot, ends)
        await api.aclose()


def listed(version: str, *names: str, continuation: str = "") -> Behaviour:
    """Answers a list of nodes."""
    return answer(200, node_list(version, *(node(name, version) for name in names), continuation=continuation))


def told(kind: str, name: str, version: str) -> bytes:
    """A frame with a node."""
    return framed(event(kind, node(name, version)))


def bookmark(version: str) -> bytes:
    """A frame with nothing but a version."""
    return framed(event("BOOKMARK", text(1, text(6, version))))


def test_a_list_of_many_pages_is_complete_before_guests_see_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        pages = listed("7", "a", "b", continuation="next"), listed("7", "c")
        async with play(tmp_path, *pages, QUIET) as scene:
            await until(lambda: bool(scene.watches))
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
            await until(lambda: scene.cache.problem is None)

    asyncio.run(scenario())


def test_each_change_reaches_the_snapshot(tmp_path: Path) -> None:
    async def scenario() -> None:
        changes = told("ADDED", "c", "8"), told("MODIFIED", "a", "9") + told("DELETED", "b", "10")
        async with play(tmp_path, listed("7", "a", "b"), stream(*changes, linger=60)) as scene:
            await until(lambda: scene.nodes == {"a": node("a", "9"), "c": node("c", "8")})

    asyncio.run(scenario())


def test_a_cluster_without_nodes_is_synced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7"), QUIET) as scene:
            await until(lambda: scene.cache.synced)
            assert scene.nodes == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("whole", [True, False], ids=["ended", "dropped"])
def test_a_watch_goes_on_from_its_last_event(tmp_path: Path, whole: bool) -> None:
    async def scenario() -> None:
        first = stream(told("ADDED", "b", "8"), told("ADDED", "c", "9"), whole=whole)
        async with play(tmp_path, listed("7", "a"), first, stream(told("DELETED", "b", "10"), linger=60)) as scene:
            await until(lambda: scene.nodes.keys() == {"a", "c"})
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
            await until(lambda: len(scene.watches) == 2)
            assert scene.watches == ["7", "8"]
            assert scene.nodes == {"a": node("a", "7"), "b": node("b", "8")}

    asyncio.run(scenario())


def test_a_bookmark_moves_the_version_to_go_on_from(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a"), stream(bookmark("5000")), QUIET) as scene:
            await until(lambda: scene.watches == ["7", "5000"])
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
            await until(lambda: scene.watches == ["7", "99"])
            assert scene.nodes == {"a": node("a", "99"), "new": node("new", "99")}
            await until(lambda: scene.cache.problem is None)

    asyncio.run(scenario())
    (warning,) = warnings(caplog)
    assert warning.endswith("410: too old resource version: 7 (90)")


def test_a_list_that_expires_between_its_pages_begins_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        expired = answer(410, b'{"message":"The provided continue parameter is too old"}')
        script = listed("7", "gone", continuation="next"), expired, listed("9", "a"), QUIET
        async with play(tmp_path, *script) as scene:
            await until(lambda: scene.watches == ["9"])
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
            await until(lambda: scene.watches == ["7", "9"])
            assert scene.nodes.keys() == {"b"}

    asyncio.run(scenario())


def test_a_watch_that_fell_silent_is_given_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = listed("7", "a"), QUIET, stream(told("ADDED", "b", "8"), linger=60)
        async with play(tmp_path, *script, lifetime=1, grace=0.2) as scene:
            await until(lambda: scene.nodes.keys() == {"a", "b"})
            assert scene.watches == ["7", "7"]

    asyncio.run(scenario())


WATCHING = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LARGE_FRAME = (1_000_000).to_bytes(4, "big")


def test_a_watch_that_drips_is_given_up_and_a_list_brings_what_it_owes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        dripping = drip(WATCHING + b"4\r\n" + LARGE_FRAME + b"\r\n", b"1\r\nx\r\n")
        when = asyncio.Event()

        async def later(received: Received, writer: asyncio.StreamWriter) -> None:
            await when.wait()
            await listed("9", "a", "b")(received, writer)

        async with play(tmp_path, listed("7", "a"), dripping, later, QUIET, grace=0.5, stale_after=0.3) as scene:
            await until(lambda: scene.lists == 2)
            url = scene.server.url
            assert ageless(scene.cache.problem) == f"watch nodes: {url} takes longer than 0.5 s for an event (for N s)"
            assert "may be outdated" in (scene.cache.unusable or "")
            when.set()
            await until(lambda: scene.cache.problem is None)
            assert scene.nodes.keys() == {"a", "b"}
            assert scene.watches == ["7", "9"]

    asyncio.run(scenario())
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    "dripping",
    [drip(WATCHING[:-2] + b"X-Drip: ", b"x"), drip(WATCHING, b"0")],
    ids=["in its head", "in the head of a chunk"],
)
def test_a_watch_that_drips_what_is_no_event_has_fallen_silent(tmp_path: Path, dripping: Behaviour) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a"), dripping, lifetime=1, grace=0.2) as scene:
            await until(lambda: "has fallen silent" in (scene.cache.problem or ""))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("later", "lists"),
    [(stream(), 1), (stream(bookmark("9"), linger=60), 1), (stream(linger=60), 2)],
    ids=["a watch that ends in time", "a bookmark", "nothing, but a list"],
)
def test_after_half_an_event_a_cache_is_current_when_the_server_has_said_all(
    tmp_path: Path, later: Behaviour, lists: int
) -> None:
    async def scenario() -> None:
        when = asyncio.Event()

        async def hold(received: Received, writer: asyncio.StreamWriter) -> None:
            await when.wait()
            await later(received, writer)

        rest = [QUIET] if lists == 1 else [listed("9", "a"), QUIET]
        script = listed("7", "a"), stream(bookmark("9")[:-1], whole=False), hold, *rest
        async with play(tmp_path, *script, grace=2 if lists == 1 else 0.2) as scene:
            await until(lambda: len(scene.watches) == 2)
            assert scene.cache.problem
            when.set()
            await until(lambda: scene.cache.problem is None)
            assert scene.lists == lists

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        (answer(500, b"etcd is away"), "list nodes: {url} answered 500: etcd is away (for N s)"),
        (
            answer(403, b'{"message":"nodes is forbidden"}'),
            "list nodes: {url} answered 403: nodes is forbidden; RBAC must allow the verb list on nodes (for N s)",
        ),
        (
            hang_up,
            "list nodes: {url} gave no whole answer: Server disconnected without sending a response. (for N s)",
        ),
        (
            answer(200, b"[]"),
            "{url} does not speak as an API server: expected Kubernetes protobuf, got b'[]' (for N s)",
        ),
    ],
    ids=["500", "403", "hang up", "JSON"],
)
def test_a_failed_list_is_told_and_tried_again(tmp_path: Path, failure: Behaviour, problem: str) -> None:
    async def scenario() -> None:
        async with play(tmp_path, failure, failure, listed("7", "a"), QUIET) as scene:
            await until(lambda: len(scene.ends.all) == 1)
            told = problem.format(url=scene.server.url)
            assert ageless(scene.cache.problem) == told
            assert ageless(scene.cache.unusable) == f"the nodes of the cluster are not known yet: {told}"
            assert not scene.cache.synced
            await until(lambda: scene.cache.problem is None)
            assert (scene.cache.synced, scene.cache.unusable, scene.cache.outdated) == (True, None, 0)
            assert scene.nodes.keys() == {"a"}

    asyncio.run(scenario())


def test_nodes_stay_while_the_server_is_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a"), stream(), hang_up) as scene:
            await until(lambda: len(scene.watches) == 4)
            assert scene.nodes.keys() == {"a"}
            assert (scene.cache.synced, scene.cache.unusable) == (True, None)
            assert "watch nodes" in (scene.cache.problem or "")
            assert scene.cache.outdated > 0

    asyncio.run(scenario())


def test_a_cache_that_is_outdated_for_long_is_unusable_until_it_is_current_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = listed("7", "a"), stream(), hang_up, hang_up, hang_up, QUIET
        async with play(tmp_path, *script, stale_after=0.1) as scene:
            await until(lambda: "outdated" in (scene.cache.unusable or ""))
            assert scene.cache.unusable == (
                "the nodes of the cluster may be outdated for longer than cluster.staleAfter, 0.1 s: "
                f"{scene.cache.problem}"
            )
            await until(lambda: scene.cache.problem is None)
            assert scene.cache.unusable is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("last_word", "linger", "silence"),
    [(told("ADDED", "b", "8"), 60, 1), (bookmark("8"), 60, 1), (b"", 0, 0)],
    ids=["event", "bookmark", "end"],
)
def test_a_cache_is_outdated_from_the_servers_last_word(
    tmp_path: Path, last_word: bytes, linger: float, silence: float
) -> None:
    """And not from when its silence was noticed."""

    async def scenario() -> None:
        when = asyncio.Event()
        watch = stream(*filter(None, [last_word]), linger=linger, when=when)
        async with play(tmp_path, listed("7", "a"), watch, hang_up, lifetime=1, grace=0.2, stale_after=1) as scene:
            await until(lambda: scene.cache.problem is None)
            await asyncio.sleep(0.2)
            before = time.monotonic()
            when.set()
            await until(lambda: scene.cache.problem is not None)
            outdated = scene.cache.outdated
            assert silence < outdated <= time.monotonic() - before
            assert not silence or "outdated" in (scene.cache.unusable or "")

    asyncio.run(scenario())


def test_before_it_has_begun_a_cache_is_unusable(tmp_path: Path) -> None:
    api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"}))
    cache = NodeCache(api, Snapshot(), Ends())
    assert ageless(cache.unusable) == "the nodes of the cluster are not known yet: they are being read (for N s)"
    asyncio.run(api.aclose())


@pytest.mark.parametrize(
    ("behaviour", "end"),
    [
        (stream(), "done"),
        (answer(410, b"too old"), "expired"),
        (stream(framed(event("ERROR", status(410, "too old")))), "expired"),
        (answer(401, b"who?"), "unauthorized"),
        (answer(403, b"you may not"), "refused"),
        (answer(503, b"not yet"), "refused"),
        (stream(framed(event("ERROR", status(500, "etcd is away")))), "broken"),
        (hang_up, "unreachable"),
        (stream(whole=False), "unreachable"),
        (stream(b"<html>"), "protocol"),
    ],
)
def test_how_a_watch_ends_is_counted(tmp_path: Path, behaviour: Behaviour, end: str) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a"), behaviour) as scene:
            await until(lambda: len(scene.ends.all) >= 2)
            assert scene.ends.all[:2] == [("nodes", "list", "done"), ("nodes", "watch", end)]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("behaviour", "end"),
    [(answer(410, b"too old"), "expired"), (answer(500, b"no"), "refused"), (answer(200, b"[]"), "protocol")],
)
def test_how_a_list_ends_is_counted(tmp_path: Path, behaviour: Behaviour, end: str) -> None:
    async def scenario() -> None:
        async with play(tmp_path, behaviour, listed("7", "a"), QUIET) as scene:
            await until(lambda: len(scene.ends.all) == 2)
            assert scene.ends.all == [("nodes", "list", end), ("nodes", "list", "done")]

    asyncio.run(scenario())


def test_a_fault_of_our_own_is_counted_and_all_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        changed = stream(told("MODIFIED", "a", "8"), linger=60)
        async with play(tmp_path, listed("7", "a"), changed, listed("9", "a"), QUIET) as scene:
            with monkeypatch.context() as patched:
                patched.setattr(reflector, "decode_event", None)
                await until(lambda: len(scene.ends.all) == 2)
            await until(lambda: scene.nodes == {"a": node("a", "9")})
            assert scene.ends.all[1:] == [("nodes", "watch", "internal"), ("nodes", "list", "done")]

    asyncio.run(scenario())
    (said,) = [record.__dict__["error"] for record in caplog.records if record.levelno == logging.WARNING]
    assert said == "internal error: TypeError(\"'NoneType' object is not callable\")"


def test_a_server_that_ends_every_watch_at_once_is_not_overrun(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with play(tmp_path, listed("7", "a"), stream()) as scene:
            await asyncio.sleep(1.5)
            # Pauses of at least 0.05, 0.1, 0.2, 0.4 and 0.8 seconds.
            assert 2 <= len(scene.watches) <= 5

    asyncio.run(scenario())


def test_a_problem_that_stays_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with play(tmp_path, answer(500, b"no")) as scene:
            await until(lambda: scene.lists == 3)

    asyncio.run(scenario())
    assert len(warnings(caplog)) == 1


def test_the_log_names_no_credentials(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with ScriptedServer(answer(401, b"who?"), listed("7", "a"), say_nothing) as server:
            config = write_kubeconfig(tmp_path / "config", {"server": server.url}, {"token": "open-sesame"})
            api = ApiServer.from_kubeconfig(config)
            cache = NodeCache(api, Snapshot(), Ends())
            async with running(cache):
                await until(lambda: cache.synced)
            await api.aclose()
            assert server.received[0].headers["authorization"] == "Bearer open-sesame"

    asyncio.run(scenario())
    assert caplog.records
    assert "open-sesame" not in caplog.text + repr([record.__dict__ for record in caplog.records])


def get_node(control_plane: ControlPlane, name: str) -> bytes:
    """A node as the API server itself writes it in protobuf."""
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    return unwrap(control_plane.client.get(f"/api/v1/nodes/{name}", headers=accept).content)


@asynccontextmanager
async def watching(control_plane: ControlPlane, snapshot: Snapshot) -> AsyncIterator[None]:
    """A cache of the real nodes."""
    api = ApiServer.from_kubeconfig(control_plane.kubeconfig())
    async with running(NodeCache(api, snapshot, Ends())):
        yield
    await api.aclose()


def test_real_nodes_are_listed_and_watched(control_plane: ControlPlane) -> None:
    client = control_plane.client
    control_plane.create_nodes(3, labels={"zone": "a"})
    snapshot = Snapshot()

    async def scenario() -> None:
        async with watching(control_plane, snapshot):
            await until(lambda: objects(snapshot).keys() == {"node-0", "node-1", "node-2"})
            await asyncio.to_thread(client.post, "/api/v1/nodes", json={"metadata": {"name": "new"}})
            await until(lambda: "new" in objects(snapshot))
            patch = {"Content-Type": "application/merge-patch+json"}
            labels = b'{"metadata": {"labels": {"accelerator": "h100"}}}'
            await asyncio.to_thread(client.patch, "/api/v1/nodes/new", content=labels, headers=patch)
            await until(lambda: b"h100" in objects(snapshot)["new"])
            await asyncio.to_thread(client.delete, "/api/v1/nodes/new")
            await until(lambda: "new" not in objects(snapshot))
            # Byte for byte what the API server itself says of each.
            await until(
                lambda: objects(snapshot) == {name: get_node(control_plane, name) for name in objects(snapshot)}
            )

    try:
        asyncio.run(scenario())
    finally:
        control_plane.clear()


def test_a_real_list_of_many_pages_is_complete(control_plane: ControlPlane) -> None:
    names = {f"many-{number}" for number in range(2 * PAGE_SIZE + 1)}
    for name in names:
        control_plane.client.post("/api/v1/nodes", json={"metadata": {"name": name}}).raise_for_status()
    snapshot = Snapshot()

    async def scenario() -> None:
        async with watching(control_plane, snapshot):
            await until(lambda: objects(snapshot).keys() == names)

    try:
        asyncio.run(scenario())
    finally:
        control_plane.clear()
