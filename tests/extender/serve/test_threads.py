"""Threads that die or cannot be started: /readyz tells of what is missing, and all goes on once it can."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from extender.cluster import PodKey
from extender.config import Address
from extender.rollouts.revision import RolloutStage
from extender.serve.background import Background
from extender.serve.servers import listen, make_admin_connections, serve_admin
from extender.webhook.protocol import Answer
from extender.webhook.workers import NoThreadError, Workers
from tests.extender import kwx, versions
from tests.extender.objects import NODE_NAMES, binding_args, filter_error, filtered
from tests.extender.rollouts.inside import Inside
from tests.patience import PATIENCE_S, wait_until
from tests.wasm_runtime.world import settle
from wasm_runtime import supervision
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable

NO_THREAD = "can't start new thread"


class NoThreads:
    """While `is_so`, no thread whose name begins so can be started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names = ""
        self.is_so = False
        start = threading.Thread.start

        def start_or_fail(thread: threading.Thread) -> None:
            if self.is_so and thread.name.startswith(self.names):
                raise RuntimeError(NO_THREAD)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_or_fail)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> NoThreads:
    return NoThreads(monkeypatch)


def break_guest(plugin: Plugin) -> None:
    with plugin.guest(Pod("1", "default/web", b""), Nodes(NodeTable(), ["node-7"]), "filter") as (guest, _):
        guest.is_broken = True


def test_an_order_for_which_no_thread_can_be_started_fails_and_the_next_does_not(
    tmp_path: Path, no_threads: NoThreads
) -> None:
    (tmp_path / "told.wasm").write_bytes(versions.module(3))
    with Inside(tmp_path, kwx.profile("default", kwx.plugin("told"), scoreRange=100)) as inside:
        no_threads.is_so = True
        rollout = inside.begin(versions.module(7))
        mend = "try again, or let the extender have more threads (pids) or memory"
        assert (rollout.stage, rollout.problem) == (
            RolloutStage.FAILED,
            f"no thread can be started for it: {NO_THREAD}; {mend}",
        )
        no_threads.is_so = False
        inside.upload(versions.module(7))
        assert inside.score("web") == 7


class TestVerbs:
    """A verb that no thread can be had for is answered so, and is not carried out later."""

    NONE = f"no thread can be started for it: {NO_THREAD}; let the extender have more threads (pids) or memory"

    def test_filter_says_so_and_goes_on(self, tmp_path: Path, no_threads: NoThreads) -> None:
        digits = kwx.plugin("filter_by_digit", "72ends in 7")
        with Inside(tmp_path, kwx.profile("default", digits)) as inside:
            no_threads.is_so = True
            assert inside.filter("web") == filter_error(self.NONE)
            no_threads.is_so = False
            kept = [name for name in NODE_NAMES if name != "node-7"]
            assert inside.filter("web") == filtered(kept, failed={"node-7": "ends in 7"})

    def test_a_bind_that_was_answered_with_an_error_binds_nothing(self, tmp_path: Path, no_threads: NoThreads) -> None:
        """The thread of the pod before it could have taken it over."""
        binder = HeldBinder()
        steps = kwx.plugin("binding_from_config", "aaaaafa", name="a")
        with Inside(tmp_path, kwx.profile("default", steps), binder=binder) as inside:
            for name in ("web-1", "web-2", "web-3"):
                inside.filter(name)

            async def bind_both() -> list[Any]:
                first = asyncio.ensure_future(_answer(inside.begin_to_ask("/bind", binding_args(pod_name="web-1"))))
                await asyncio.wait_for(binder.is_asked.wait(), PATIENCE_S)
                no_threads.is_so = True
                second = await _answer(inside.begin_to_ask("/bind", binding_args(pod_name="web-2")))
                no_threads.is_so = False
                binder.may_go_on.set()
                return [json.loads(each.body)["Error"] for each in (await first, second)]

            assert inside.run(bind_both()) == ["", self.NONE]
            assert inside.bind("web-3") == ""
            assert binder.bound == ["default/web-1 to node-7", "default/web-3 to node-7"]


class TestWorkers:
    def test_they_have_a_thread_each_again_once_threads_can_be_started(self, no_threads: NoThreads) -> None:
        """What no thread could be had for must not be taken for an idle thread: verbs would wait for one another."""
        workers, held, at_once = Workers(4, "judge"), threading.Event(), threading.Barrier(4)
        first = workers.submit(held.wait, PATIENCE_S)
        no_threads.is_so = True
        for _ in range(4):
            with pytest.raises(NoThreadError) as caught:
                workers.submit(held.is_set)
            assert str(caught.value) == TestVerbs.NONE
        no_threads.is_so = False
        held.set()
        assert first.result(PATIENCE_S)
        waits = [workers.submit(at_once.wait, PATIENCE_S) for _ in range(4)]
        assert sorted(each.result(PATIENCE_S) for each in waits) == [0, 1, 2, 3]

    def test_what_comes_while_all_work_waits_its_turn_and_idle_threads_are_used_again(self) -> None:
        workers, held = Workers(2, "judge"), threading.Event()
        both = [workers.submit(held.wait, PATIENCE_S) for _ in range(2)]
        later = [workers.submit(threading.get_ident) for _ in range(20)]
        assert not any(each.done() for each in later)
        held.set()
        assert [each.result(PATIENCE_S) for each in both] == [True, True]
        assert (
            len({each.result(PATIENCE_S) for each in later} | {workers.submit(threading.get_ident).result(PATIENCE_S)})
            <= 2
        )

    def test_an_error_is_the_callers_and_the_thread_goes_on(self) -> None:
        workers = Workers(1, "judge")
        failed = workers.submit(int, "seven")
        assert isinstance(failed.exception(PATIENCE_S), ValueError)
        assert workers.submit(int, "7").result(PATIENCE_S) == 7

    def test_the_end_of_the_process_waits_for_those_that_work_and_no_other(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "working\ndone\n", "")

    def test_what_is_done_is_not_held(self) -> None:
        """Neither by the thread that it was started for: a profile that was replaced would never go."""

        class Held:
            def __call__(self) -> int:
                return 7

        workers, seen = Workers(1, "judge"), []
        for _ in range(2):
            held = Held()
            seen.append(weakref.ref(held))
            assert workers.submit(held).result(PATIENCE_S) == 7
            del held
            wait_until(lambda: seen[-1]() is None, "it is let go")

    def test_threads_end_with_who_submits_to_them(self) -> None:
        workers = Workers(3, "gone")
        names = [workers.submit(threading.current_thread).result(PATIENCE_S).name]
        del workers
        wait_until(lambda: not any(each.name == "gone" for each in threading.enumerate()), "the threads end")
        assert names == ["gone"]


ENDS = """
import threading, time
from extender.webhook.workers import Workers

workers, working = Workers(2, "judge"), threading.Event()
workers.submit(len, "").result()

def work():
    print("working", flush=True)
    working.set()
    time.sleep(0.3)
    print("done", flush=True)

workers.submit(work)
working.wait()
"""


class HeldBinder:
    """The first bind waits until it may go on."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.bound: list[str] = []

    async def bind(self, pod: PodKey, node: str, _: Mapping[str, str]) -> None:
        self.is_asked.set()
        await asyncio.wait_for(self.may_go_on.wait(), PATIENCE_S)
        self.bound.append(f"{pod} to {node}")


async def _answer(coming: Answer | Awaitable[Answer]) -> Answer:
    return coming if isinstance(coming, Answer) else await coming


class TestBackground:
    @pytest.fixture
    def background(self) -> Iterator[Background]:
        background = Background()
        yield background
        background.stop()

    @pytest.mark.parametrize("error", [OSError("it is gone"), SystemExit(1), None], ids=str)
    def test_begins_anew_what_ends(self, background: Background, error: BaseException | None) -> None:
        begun: list[str] = []

        async def work() -> None:
            begun.append(threading.current_thread().name)
            if len(begun) > 1:
                await asyncio.sleep(math.inf)
            if error:
                raise error

        background.spawn(work, "watch")
        wait_until(lambda: len(begun) == 2, "it is begun anew")
        assert begun == ["background"] * 2
        cause = error or RuntimeError("it has come to an end")
        assert supervision.problems(vital=False) == [f"watch has failed and is begun anew: {cause!r}"]

    def test_goes_on_when_the_loop_ends(self, background: Background) -> None:
        begun = threading.Event()

        async def work() -> None:
            begun.set()
            await asyncio.sleep(math.inf)

        def end() -> None:
            raise SystemExit(1)

        background._loop.call_soon_threadsafe(end)
        background.spawn(work, "watch")
        assert begun.wait(60)


def test_the_admin_address_is_served_again_after_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    served = listen(Path("extender.yaml"), "server.adminAddress", Address("127.0.0.1", 0))
    servers: list[uvicorn.Server] = []
    serve = uvicorn.Server.serve

    async def serve_and_tell(server: uvicorn.Server, sockets: Any) -> None:
        servers.append(server)
        await serve(server, sockets)

    monkeypatch.setattr(uvicorn.Server, "serve", serve_and_tell)

    async def answer(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    background = Background()
    try:
        background.spawn(partial(serve_admin, answer, make_admin_connections(), served), "admin server")
        host, port = served.getsockname()
        for at in range(2):
            wait_until(lambda: len(servers) == at + 1, "the server begins")  # noqa: B023 (called at once)
            assert httpx.get(f"http://{host}:{port}/", trust_env=False, timeout=60).status_code == 204
            servers[at].should_exit = True
    finally:
        background.stop()
        served.close()


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_plugin_without_a_guest_is_told_until_there_is_one(
    tmp_path: Path, no_threads: NoThreads, policy: str
) -> None:
    digits = kwx.plugin("filter_by_digit", "72ends in 7", failurePolicy=policy)
    with Inside(tmp_path, kwx.profile("default", digits)) as inside:
        (plugin,) = inside.live.plugins

        def told() -> str | None:
            service = inside.service
            return service.missing if policy == "Fail" else service.oddities

        assert told() is None
        no_threads.is_so = True
        break_guest(plugin)
        assert told() == (
            f"plugin filter_by_digit has no guest, and none can be made: {NO_THREAD}; it is tried again now and then"
        )
        assert (inside.service.missing is None) is (policy == "Ignore")
        no_threads.is_so = False
        plugin._pool._retry_at = time.monotonic()
        plugin.maintain(NodeTable())
        settle(plugin._pool)
        assert told() is None
        kept = [name for name in NODE_NAMES if name != "node-7"]
        assert inside.filter("web") == filtered(kept, failed={"node-7": "ends in 7"})
