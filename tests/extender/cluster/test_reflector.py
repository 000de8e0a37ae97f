"""What a cache does about a server that is silent, slow or away, and how it tells of that."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest

from bench.peers.kubeconfig import write_kubeconfig
from bench.peers.protobuf import event, framed, node, status
from extender.cluster import ApiServer, NodeCache
from extender.cluster.watch import reflector
from tests.extender.cluster.scene import QUIET, bookmark, listed, play, told
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
from tests.extender.cluster.support import Ends, ageless, running, warnings
from tests.patience import eventually
from wasm_runtime.nodes.node_table import NodeTable


def test_a_watch_that_fell_silent_is_given_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = listed("7", "a"), QUIET, stream(told("ADDED", "b", "8"), linger=60)
        async with play(tmp_path, *script, lifetime=1, grace=0.2) as scene:
            await eventually(lambda: scene.nodes.keys() == {"a", "b"})
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
            await eventually(lambda: scene.lists == 2)
            url = scene.server.url
            assert ageless(scene.cache.problem) == f"watch nodes: {url} takes longer than 0.5 s for an event (for N s)"
            assert "may be outdated" in (scene.cache.unusable or "")
            when.set()
            await eventually(lambda: scene.cache.problem is None)
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
            await eventually(lambda: "has fallen silent" in (scene.cache.problem or ""))

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
            await eventually(lambda: len(scene.watches) == 2)
            assert scene.cache.problem
            when.set()
            await eventually(lambda: scene.cache.problem is None)
            assert scene.lists == lists

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        (answer(500, b"etcd is away"), "list nodes: {url} answered 500: etcd is away (for N s)"),
        (
            answer(403, b'{"kind":"Status","message":"nodes is forbidden"}'),
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
            await eventually(lambda: len(scene.ends.all) == 1)
            told = problem.format(url=scene.server.url)
            assert ageless(scene.cache.problem) == told
            assert ageless(scene.cache.unusable) == f"the nodes of the cluster are not known yet: {told}"
            assert not scene.cache.synced
            await eventually(lambda: scene.cache.problem is None)
            assert (scene.cache.synced, scene.cache.unusable, scene.cache.outdated) == (True, None, 0)
            assert scene.nodes.keys() == {"a"}

    asyncio.run(scenario())


def test_a_cache_that_is_outdated_for_long_is_unusable_until_it_is_current_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = listed("7", "a"), stream(), hang_up, hang_up, hang_up, QUIET
        async with play(tmp_path, *script, stale_after=0.1) as scene:
            await eventually(lambda: "outdated" in (scene.cache.unusable or ""))
            assert scene.cache.unusable == (
                "the nodes of the cluster may be outdated for longer than cluster.staleAfter, 0.1 s: "
                f"{scene.cache.problem}"
            )
            await eventually(lambda: scene.cache.problem is None)
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
            await eventually(lambda: scene.cache.problem is None)
            await asyncio.sleep(0.2)
            before = time.monotonic()
            when.set()
            await eventually(lambda: scene.cache.problem is not None)
            outdated = scene.cache.outdated
            assert silence < outdated <= time.monotonic() - before
            assert not silence or "outdated" in (scene.cache.unusable or "")

    asyncio.run(scenario())


def test_before_it_has_begun_a_cache_is_unusable(tmp_path: Path) -> None:
    api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"}))
    cache = NodeCache(api, NodeTable(), Ends())
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
            await eventually(lambda: len(scene.ends.all) >= 2)
            assert scene.ends.all[:2] == [("nodes", "list", "done"), ("nodes", "watch", end)]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("behaviour", "end"),
    [(answer(410, b"too old"), "expired"), (answer(500, b"no"), "refused"), (answer(200, b"[]"), "protocol")],
)
def test_how_a_list_ends_is_counted(tmp_path: Path, behaviour: Behaviour, end: str) -> None:
    async def scenario() -> None:
        async with play(tmp_path, behaviour, listed("7", "a"), QUIET) as scene:
            await eventually(lambda: len(scene.ends.all) == 2)
            assert scene.ends.all == [("nodes", "list", end), ("nodes", "list", "done")]

    asyncio.run(scenario())


def test_a_fault_of_our_own_is_counted_and_all_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        changed = stream(told("MODIFIED", "a", "8"), linger=60)
        async with play(tmp_path, listed("7", "a"), changed, listed("9", "a"), QUIET) as scene:
            with monkeypatch.context() as patched:
                patched.setattr(reflector.Reflector, "_apply", None)
                await eventually(lambda: len(scene.ends.all) == 2)
            await eventually(lambda: scene.nodes == {"a": node("a", "9")})
            assert scene.ends.all[1:] == [("nodes", "watch", "internal"), ("nodes", "list", "done")]

    asyncio.run(scenario())
    (said,) = [record.__dict__["error"] for record in caplog.records if record.levelno == logging.WARNING]
    assert said == "internal error: TypeError(\"'NoneType' object is not callable\")"


def test_a_server_that_ends_every_watch_at_once_is_not_overrun(tmp_path: Path) -> None:
    async def scenario() -> None:
        begun = time.monotonic()
        async with play(tmp_path, listed("7", "a"), stream()) as scene:
            await eventually(lambda: len(scene.watches) == 5)
            # Pauses of at least 0.05, 0.1, 0.2 and 0.4 seconds.
            assert time.monotonic() - begun >= 0.75

    asyncio.run(scenario())


def test_a_problem_that_stays_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with play(tmp_path, answer(500, b"no")) as scene:
            await eventually(lambda: scene.lists == 3)

    asyncio.run(scenario())
    assert len(warnings(caplog)) == 1


def test_the_log_names_no_credentials(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with ScriptedServer(answer(401, b"who?"), listed("7", "a"), say_nothing) as server:
            config = write_kubeconfig(tmp_path / "config", {"server": server.url}, {"token": "open-sesame"})
            api = ApiServer.from_kubeconfig(config)
            cache = NodeCache(api, NodeTable(), Ends())
            async with running(cache):
                await eventually(lambda: cache.synced)
            await api.aclose()
            assert server.received[0].headers["authorization"] == "Bearer open-sesame"

    asyncio.run(scenario())
    assert caplog.records
    assert "open-sesame" not in caplog.text + repr([record.__dict__ for record in caplog.records])
