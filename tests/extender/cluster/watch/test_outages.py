"""The node cache, the binder and the recorder outlive what happens to a real API server."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.controlplane import ControlPlane, Process
from bench.controlplane.process import answers
from extender.cluster import ApiBinder, ApiServer, BindError, Event, EventRecorder, NodeCache, ObjectReference, PodKey
from extender.cluster.client.api import MAX_OBJECT_BYTES, ApiRequest
from extender.cluster.events import recorder as recorder_module
from extender.cluster.watch import reflector
from tests.extender.cluster.support import Ends, objects, running, warnings
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import filtered, names_args
from tests.patience import PATIENCE_S, eventually
from wasm_runtime.nodes.node_table import NodeTable

READY_TIMEOUT = 60.0


class Outages:
    """A control plane whose API server can be taken away."""

    def __init__(self, control_plane: ControlPlane, cleanup: ExitStack) -> None:
        self.control_plane = control_plane
        self.client = control_plane.client
        self._cleanup = cleanup
        # What is started ends with the thread that started it, so that thread lives as long as we do.
        self._thread = cleanup.enter_context(ThreadPoolExecutor(1))
        self._process = next(part for part in control_plane.processes if part.name == "kube-apiserver")
        self._command = Path(f"/proc/{self._process.pid}/cmdline").read_text().rstrip("\0").split("\0")

    async def stop(self) -> None:
        """End the API server."""
        await self._do(partial(_end, self._process))

    async def start(self) -> None:
        """Start it again, on the same port and the same etcd, and wait until it is ready."""
        await self._do(self._start)

    async def compact(self) -> None:
        """Make etcd forget all versions but the newest, which a server that runs does every five minutes."""
        await asyncio.to_thread(self._compact)

    def _compact(self) -> None:
        (etcd,) = (option.partition("=")[2] for option in self._command if option.startswith("--etcd-servers="))
        newest = self._ask(f"{etcd}/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._ask(f"{etcd}/v3/kv/compaction", {"revision": newest, "physical": True})

    def _ask(self, url: str, body: Mapping[str, Any]) -> Any:
        return httpx.post(url, json=body, trust_env=False).raise_for_status().json()

    async def _do(self, action: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, action)

    def _start(self) -> None:
        self._process = Process("kube-apiserver-again", self._command, self.control_plane.directory)
        self._cleanup.callback(_end, self._process)
        self._process.wait_until(lambda: answers(f"{self.control_plane.server}/readyz"), READY_TIMEOUT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Make it say nothing any more for a while, with all connections open."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)


def _end(process: Process) -> None:
    """End a process as if it crashed: an API server takes seconds to say goodbye to those that watch."""
    crash = threading.Timer(0.2, os.killpg, (process.pid, signal.SIGKILL))
    crash.start()
    process.stop()
    crash.cancel()


@pytest.fixture(scope="module")
def outages() -> Iterator[Outages]:
    """A control plane of this module alone."""
    with ControlPlane() as control_plane, ExitStack() as cleanup:
        yield Outages(control_plane, cleanup)


@pytest.fixture(autouse=True)
def nodes(outages: Outages) -> Iterator[None]:
    """Three nodes, of each test alone. Nobody waits for kwok to make them Ready: it takes outages hard."""
    for at in range(3):
        outages.client.post("/api/v1/nodes", json={"metadata": {"name": f"node-{at}"}}).raise_for_status()
    yield
    outages.control_plane.clear()


@asynccontextmanager
async def api_of(outages: Outages) -> AsyncIterator[ApiServer]:
    """An admin's access."""
    api = ApiServer.from_kubeconfig(outages.control_plane.kubeconfig())
    try:
        yield api
    finally:
        await api.aclose()


async def create(outages: Outages, name: str) -> None:
    """Add a node."""
    created = await asyncio.to_thread(outages.client.post, "/api/v1/nodes", json={"metadata": {"name": name}})
    created.raise_for_status()


async def delete(outages: Outages, name: str) -> None:
    """Remove a node."""
    (await asyncio.to_thread(outages.client.delete, f"/api/v1/nodes/{name}")).raise_for_status()


def holds(node_table: NodeTable, *names: str) -> Callable[[], bool]:
    """Whether guests see just these nodes."""
    return lambda: objects(node_table).keys() == set(names)


@pytest.mark.parametrize("compacted", [False, True], ids=["as it was", "etcd compacted"])
def test_a_restart_of_the_server_loses_no_change(outages: Outages, compacted: bool) -> None:
    async def scenario() -> None:
        async with api_of(outages) as api:
            node_table = NodeTable()
            cache = NodeCache(api, node_table, Ends())
            async with running(cache):
                await eventually(holds(node_table, "node-0", "node-1", "node-2"))
                await outages.stop()
                await eventually(lambda: "cannot be reached" in (cache.problem or ""))
                assert cache.synced
                assert holds(node_table, "node-0", "node-1", "node-2")()
                if compacted:
                    await outages.compact()
                await outages.start()
                await create(outages, "new")
                await delete(outages, "node-1")
                await eventually(holds(node_table, "node-0", "node-2", "new"))
                await eventually(lambda: cache.problem is None)

    asyncio.run(scenario())


def test_what_happened_before_the_servers_memory_is_read_by_a_new_list(
    outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with api_of(outages) as api:
            node_table, ends = NodeTable(), Ends()
            cache = NodeCache(api, node_table, ends)
            async with running(cache):
                await eventually(holds(node_table, "node-0", "node-1", "node-2"))
            # A server that starts knows no change from before: the version of the cache is too old for it.
            await delete(outages, "node-1")
            await create(outages, "new")
            await outages.stop()
            await outages.start()
            async with running(cache):
                await eventually(holds(node_table, "node-0", "node-2", "new"))
                await eventually(lambda: cache.problem is None)
            assert ends.all == [
                ("nodes", "list", "done"),
                ("nodes", "watch", "expired"),
                ("nodes", "list", "done"),
            ]

    asyncio.run(scenario())
    assert any("410: too old resource version" in warning for warning in warnings(caplog)), warnings(caplog)


def test_a_server_that_froze_is_noticed_and_found_again(outages: Outages) -> None:
    async def scenario() -> None:
        async with api_of(outages) as api:
            node_table = NodeTable()
            cache = NodeCache(api, node_table, Ends(), lifetime=2, grace=0.5)
            async with running(cache):
                await eventually(holds(node_table, "node-0", "node-1", "node-2"))
                with outages.frozen():
                    await eventually(lambda: "has fallen silent" in (cache.problem or ""))
                await create(outages, "new")
                await eventually(holds(node_table, "node-0", "node-1", "node-2", "new"))
                await eventually(lambda: cache.problem is None)

    asyncio.run(scenario())


class Interrupted(ApiServer):
    """Access that loses the server, and etcd its memory, between the first page of a list and the second."""

    outages: Outages
    is_interrupted = False

    async def call(self, request: ApiRequest, timeout: float, limit: int = MAX_OBJECT_BYTES) -> bytes:
        """As an ApiServer does."""
        if "continue" in request.query and not self.is_interrupted:
            self.is_interrupted = True
            await delete(self.outages, "node-1")
            await create(self.outages, "new")
            await self.outages.stop()
            await self.outages.compact()
            await self.outages.start()
        return await super().call(request, timeout, limit)


def test_a_list_whose_version_is_compacted_between_its_pages_begins_anew(
    outages: Outages, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reflector, "PAGE_SIZE", 2)

    async def scenario() -> None:
        api = Interrupted.from_kubeconfig(outages.control_plane.kubeconfig())
        assert isinstance(api, Interrupted)
        api.outages = outages
        node_table, ends = NodeTable(), Ends()
        cache = NodeCache(api, node_table, ends)
        async with running(cache):
            await eventually(lambda: cache.problem is None)
            assert holds(node_table, "node-0", "node-2", "new")()
            assert ends.all == [("nodes", "list", "expired"), ("nodes", "list", "done")]
        await api.aclose()

    asyncio.run(scenario())
    assert any("answered 410" in warning for warning in warnings(caplog)), warnings(caplog)


def test_a_bind_to_a_server_that_froze_fails_in_time(outages: Outages) -> None:
    async def scenario() -> None:
        async with api_of(outages) as api:
            with outages.frozen(), pytest.raises(BindError, match=r"no (connection to|answer of) https"):
                bind = ApiBinder(api, timeout=4).bind(PodKey("default", "web-0", ""), "node-0", {})
                await asyncio.wait_for(bind, PATIENCE_S)

    asyncio.run(scenario())


def test_events_are_written_when_the_server_is_back(
    outages: Outages, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder_module, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(recorder_module, "MAX_PAUSE_S", 0.5)
    nodes = [ObjectReference("Node", "v1", f"node-{number}") for number in range(3)]

    def counts() -> dict[str, int]:
        found = outages.client.get("/apis/events.k8s.io/v1/events", params={"fieldSelector": "reason=Crowded"})
        return {each["regarding"]["name"]: each.get("series", {}).get("count", 1) for each in found.json()["items"]}

    async def scenario() -> None:
        async with api_of(outages) as api:
            recorder = EventRecorder(api, interval=0.1)
            async with running(recorder):
                recorder.record(Event(nodes[0], reason="Crowded"))
                await eventually(lambda: counts() == {"node-0": 1})
                await outages.stop()
                for node in nodes:
                    recorder.record(Event(node, reason="Crowded"))
                    recorder.record(Event(node, reason="Crowded"))
                await outages.start()
                await eventually(lambda: counts() == {"node-0": 3, "node-1": 2, "node-2": 2})

    asyncio.run(scenario())
    assert warnings(caplog) == []


def metrics(extender: Extender) -> dict[str, float]:
    """What the extender measures of its caches, by name and labels."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(extender.admin.get("/metrics").text)
        for sample in family.samples
        if sample.name.startswith(("kwx_nodes", "kwx_pods", "kwx_cluster_reads_total"))
    }


def report(extender: Extender) -> tuple[int, str]:
    """What the extender says of its readiness."""
    answer = extender.admin.get("/readyz?verbose")
    return answer.status_code, answer.text


def is_well(extender: Extender) -> bool:
    """Whether its nodes are current."""
    return report(extender) == (200, "[+]nodes ok\n[+]plugins ok\n[+]threads ok\n[+]verbs ok\nreadyz check passed\n")


def is_stale(extender: Extender) -> bool:
    """Whether it knows for long enough that it has lost the server."""
    return metrics(extender)["kwx_nodes_outdated_seconds"] > 0.3 and "cannot be reached" in report(extender)[1]


STALE = "the nodes of the cluster may be outdated for longer than cluster.staleAfter, 0.3 s: watch nodes: "


def test_the_extender_goes_on_while_the_server_is_away_unless_configured_otherwise(
    outages: Outages, tmp_path: Path
) -> None:
    """By default it stays ready: out of a Service's endpoints it would answer nothing at all."""
    request, passed = names_args(["node-0", "node-1"]), filtered(["node-0", "node-1"])
    settings = {"goes-on": {}, "fails": {"staleAfter": "300ms"}}
    settings["ignores"] = settings["fails"] | {"notSyncedPolicy": "Ignore"}
    with ExitStack() as stack:
        extenders = {}
        for name, more in settings.items():
            (tmp_path / name).mkdir()
            cluster = {"mode": "kubeconfig", "kubeconfig": str(outages.control_plane.kubeconfig()), **more}
            extender = Extender(tmp_path / name, profile("default", plugin("accelerator")), cluster=cluster)
            extenders[name] = stack.enter_context(extender)
        for extender in extenders.values():
            extender.wait_until(partial(is_well, extender))
            assert extender.post("/filter", request) == passed
            assert metrics(extender) == {
                "kwx_nodes": 3,
                "kwx_nodes_outdated_seconds": 0,
                "kwx_pods": 0,
                "kwx_pods_outdated_seconds": 0,
                "kwx_cluster_reads_total done nodes list": 1,
            }
        asyncio.run(outages.stop())
        for extender in extenders.values():
            extender.wait_until(partial(is_stale, extender))
            assert metrics(extender)["kwx_cluster_reads_total unreachable nodes watch"] > 0
        for name, status, line in (
            ("goes-on", 200, "[+]nodes ok, but watch nodes: "),
            ("fails", 503, f"[-]nodes failed: {STALE}"),
            ("ignores", 200, f"[+]nodes ok, but {STALE}"),
        ):
            found = report(extenders[name])
            assert (found[0], found[1][: len(line)]) == (status, line)
        answers = {name: extender.post("/filter", request) for name, extender in extenders.items()}
        assert answers.pop("fails")["Error"].startswith(STALE)
        assert answers == {"goes-on": passed, "ignores": passed}
        asyncio.run(outages.start())
        for extender in extenders.values():
            extender.wait_until(partial(is_well, extender), READY_TIMEOUT)
            assert extender.post("/filter", request) == passed
