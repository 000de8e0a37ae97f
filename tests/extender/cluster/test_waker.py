"""Rejected pods are woken by one small write, and what stands in its way is logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from bench.controlplane import ControlPlane
from bench.peers.kubeconfig import write_kubeconfig
from extender.cluster import ApiServer, Waker
from extender.cluster import waker as module
from extender.cluster.client.api import MAX_OBJECT_BYTES, ApiRequest
from extender.cluster.waker import WakeEnd
from tests.extender.cluster.scripted import Behaviour, ScriptedServer, answer, hang_up, say_nothing
from tests.extender.cluster.support import running, warnings
from tests.manifests.overlay import SERVICE, WAKE_PODS
from tests.patience import eventually

DONE = answer(200, b'{"kind":"CSIStorageCapacity"}')
HTML = b"<html>Sign in</html>"
OBJECT = "/apis/storage.k8s.io/v1/namespaces/kwx-system/csistoragecapacities/kwx-wake"
PATCH = "patch csistoragecapacities.storage.k8s.io"
MEND = "manifests/components/wake-pods has the object and the right to patch it"
WOKEN = "rejected pods were woken"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for the waker to look or to try again."""
    monkeypatch.setattr(module, "WAKE_INTERVAL_S", 0.05)
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)


@asynccontextmanager
async def waker(config: Path, count: Callable[[WakeEnd], object] = lambda _: None) -> AsyncIterator[Waker]:
    """A waker that has yet to be run."""
    api = ApiServer.from_kubeconfig(config)
    yield Waker(api, count=count)
    await api.aclose()


@asynccontextmanager
async def scripted(
    directory: Path, *script: Behaviour, count: Callable[[WakeEnd], object] = lambda _: None
) -> AsyncIterator[tuple[ScriptedServer, Waker]]:
    """A server with a script, and a waker that has yet to be run."""
    async with (
        ScriptedServer(*script) as server,
        waker(write_kubeconfig(directory / "config", {"server": server.url}), count) as made,
    ):
        yield server, made


def wakes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Where it was written to, as the log says."""
    return [record.__dict__["object"] for record in caplog.records if record.message == WOKEN]


def test_a_wake_changes_one_annotation_of_one_object(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, DONE) as (server, waker):
            waker.wake()  # before anything runs, as at a start
            async with running(waker):
                await eventually(lambda: len(server.received) == 1)
        (got,) = server.received
        assert (got.method, got.target) == ("PATCH", OBJECT)
        assert got.headers["content-type"] == "application/merge-patch+json"
        body = json.loads(got.body)
        woken = datetime.fromisoformat(body["metadata"]["annotations"].pop("kwx.dev/woken-at"))
        assert body == {"metadata": {"annotations": {}}}
        assert timedelta() <= datetime.now(timezone.utc) - woken < timedelta(minutes=1)

    asyncio.run(scenario())


def test_wakes_from_many_threads_share_a_write_and_one_during_it_gets_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        asked_meanwhile = asyncio.Event()

        async def answer_late(*arguments: Any) -> None:
            await asked_meanwhile.wait()
            await DONE(*arguments)

        async with scripted(tmp_path, answer_late, DONE) as (server, waker), running(waker):
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(lambda _: waker.wake(), range(100)))
            await eventually(lambda: len(server.received) == 1)
            waker.wake()
            asked_meanwhile.set()
            await eventually(lambda: len(server.received) == 2)
            # It has looked again, and there was nothing to be done.
            await asyncio.sleep(3 * module.WAKE_INTERVAL_S)
            assert len(server.received) == 2

    asyncio.run(scenario())


def test_the_first_write_is_made_at_once_and_the_next_one_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAKE_INTERVAL_S", 3_600.0)
    ended: list[WakeEnd] = []

    async def scenario() -> None:
        async with scripted(tmp_path, DONE, count=ended.append) as (server, waker), running(waker):
            waker.wake()
            await eventually(lambda: ended == ["done"])
            waker.wake()
            await asyncio.sleep(0)
            assert len(server.received) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("failure", [hang_up, answer(503, b"starting"), answer(429, b"too many"), answer(500, b"?")])
def test_a_failure_that_passes_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failure: Behaviour
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with scripted(tmp_path, failure, failure, DONE) as (server, waker), running(waker):
            waker.wake()
            await eventually(lambda: bool(wakes(caplog)))
            assert len(server.received) == 3

    asyncio.run(scenario())
    assert (wakes(caplog), warnings(caplog)) == (["kwx-system/kwx-wake"], [])


@pytest.mark.parametrize(
    ("failure", "timeout", "cause"),
    [
        (say_nothing, 0.5, f"{PATCH}: no answer of {{url}} within 0.5 s"),
        (hang_up, 5.0, f"{PATCH}: {{url}} gave no whole answer: Server disconnected without sending a response."),
        (answer(503, b"starting"), 5.0, f"{PATCH}: {{url}} answered 503: starting"),
    ],
)
def test_a_server_that_stays_away_is_given_up_and_asked_again_for_the_next_wake(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    failure: Behaviour,
    timeout: float,
    cause: str,
) -> None:
    monkeypatch.setattr(module, "CALL_TIMEOUT_S", timeout)
    monkeypatch.setattr(module, "WAKE_TIMEOUT_S", 0.8)
    urls = []

    async def scenario() -> None:
        async with scripted(tmp_path, failure) as (server, waker), running(waker):
            urls.append(server.url)
            for count in (1, 2):
                waker.wake()
                await eventually(lambda: len(warnings(caplog)) == count)  # noqa: B023 (called at once)
            assert len(server.received) >= 2

    asyncio.run(scenario())
    assert warnings(caplog) == [cause.format(url=urls[0])] * 2


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (200, "{url} sent a success that is none: '<html>Sign in</html>'; look what stands before the API server"),
        (403, "{url} answered 403: <html>Sign in</html>"),
        (404, "{url} answered 404: <html>Sign in</html>"),
    ],
)
def test_the_page_of_a_proxy_wakes_nobody_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, cause: str
) -> None:
    """The object and the right to patch it may well be there."""
    caplog.set_level(logging.DEBUG)
    urls = []

    async def scenario() -> None:
        async with scripted(tmp_path, answer(code, HTML)) as (server, waker), running(waker):
            urls.append(server.url)
            waker.wake()
            await eventually(lambda: bool(wakes(caplog) or warnings(caplog)))

    asyncio.run(scenario())
    assert (wakes(caplog), warnings(caplog)) == ([], [f"{PATCH}: {cause.format(url=urls[0])}"])


def test_what_somebody_has_to_mend_is_told_once_and_again_after_it_worked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There may be something to wake each second: each write is counted, and none that was made is worth a line."""
    ends: list[WakeEnd] = []
    caplog.set_level(logging.DEBUG)
    forbidden = answer(403, HTML)

    async def scenario() -> None:
        async with (
            scripted(tmp_path, forbidden, forbidden, DONE, forbidden, count=ends.append) as (_, waker),
            running(waker),
        ):
            for asked in range(1, 5):
                waker.wake()
                await eventually(lambda: len(ends) == asked)  # noqa: B023 (called at once)

    asyncio.run(scenario())
    assert (len(wakes(caplog)), len(warnings(caplog))) == (1, 2)
    assert ends == ["failed", "failed", "done", "failed"]
    assert {record.levelname for record in caplog.records if record.message == WOKEN} == {"DEBUG"}


def test_a_fault_of_its_own_does_not_end_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such as an error of a library that nobody has met yet."""
    caplog.set_level(logging.DEBUG)

    class Broken(ApiServer):
        broken = True

        async def call(self, request: ApiRequest, timeout: float, limit: int = MAX_OBJECT_BYTES) -> bytes:
            if self.broken:
                self.broken = False
                raise RuntimeError("unheard of")
            return await super().call(request, timeout, limit)

    async def scenario() -> None:
        async with ScriptedServer(DONE) as server:
            api = Broken.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}))
            waker = Waker(api)
            async with running(waker):
                for told in ("rejected pods were not woken for a fault of our own", WOKEN):
                    waker.wake()
                    await eventually(lambda: told in caplog.messages)  # noqa: B023 (called at once)
            await api.aclose()

    asyncio.run(scenario())


# -- the real API server ---------------------------------------------------------------------------


@pytest.fixture
def wakeable(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with the object and the right to patch it."""
    SERVICE.identity(control_plane)  # makes the namespace
    with WAKE_PODS.applied(control_plane):
        yield control_plane


def wake_once(config: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Has the waker write once, and waits for what it says of that."""
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with waker(config) as made, running(made):
            made.wake()
            await eventually(lambda: bool(wakes(caplog) or warnings(caplog)))

    asyncio.run(scenario())


def test_the_account_of_the_manifests_can_wake(wakeable: ControlPlane, caplog: pytest.LogCaptureFixture) -> None:
    before = wakeable.client.get(OBJECT).json()["metadata"]
    wake_once(SERVICE.identity(wakeable), caplog)
    after = wakeable.client.get(OBJECT).json()["metadata"]
    assert (wakes(caplog), warnings(caplog)) == (["kwx-system/kwx-wake"], [])
    # Only what changes the version is an event to those who watch.
    assert before["resourceVersion"] != after["resourceVersion"]
    assert after["annotations"].keys() - before["annotations"].keys() == {"kwx.dev/woken-at"}


def test_without_the_right_the_log_says_what_is_missing(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    wake_once(SERVICE.identity(control_plane), caplog)
    assert warnings(caplog) == [
        f'{PATCH}: {control_plane.server} answered 403: csistoragecapacities.storage.k8s.io "kwx-wake" is forbidden:'
        ' User "system:serviceaccount:kwx-system:kwx-extender" cannot patch resource "csistoragecapacities" in API'
        ' group "storage.k8s.io" in the namespace "kwx-system"; RBAC must allow the verb patch on'
        f" csistoragecapacities.storage.k8s.io; {MEND}"
    ]


def test_without_the_object_the_log_says_what_is_missing(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    wake_once(control_plane.kubeconfig(), caplog)
    assert warnings(caplog) == [
        f"{PATCH}: {control_plane.server} answered 404:"
        f' csistoragecapacities.storage.k8s.io "kwx-wake" not found; {MEND}'
    ]
