"""Events reach the API server, whatever happens to it, in few requests."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.controlplane import ControlPlane
from bench.peers.kubeconfig import write_kubeconfig
from extender.cluster import ApiServer, Event, EventRecorder, ObjectReference
from extender.cluster.client.api import MAX_OBJECT_BYTES, ApiRequest
from extender.cluster.events import recorder as module
from extender.cluster.events.backlog import CONTROLLER, MAX_WAITING
from tests.extender.cluster.scripted import Behaviour, ScriptedServer, answer, hang_up
from tests.extender.cluster.support import running, warnings
from tests.patience import eventually

POD = ObjectReference("Pod", "v1", "web-0", "default", "1f0c", "7")
EVENT = Event(POD, ObjectReference("Node", "v1", "node-1"), "Normal", "Preferred", "Scheduling", "zone a is cheaper")
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CREATED = answer(201, b'{"kind":"Event"}')
HTML = b"<html>Sign in</html>"
PATCHED = answer(200, b'{"kind":"Event"}')


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for the recorder to look or to try again."""
    monkeypatch.setattr(module, "TICK_S", 0.01)
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)


def numbered(number: int) -> Event:
    """An Event that is not like any other."""
    return replace(EVENT, reason=f"Reason{number}")


class CountingServer(ApiServer):
    """The real API server, and what it is asked."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[str] = []

    async def call(self, request: ApiRequest, timeout: float, limit: int = MAX_OBJECT_BYTES) -> bytes:
        """Note a request, and send it."""
        self.asked.append(str(request))
        return await super().call(request, timeout, limit)


@asynccontextmanager
async def scripted(directory: Path, *script: Behaviour, interval: float = 0.01) -> AsyncIterator[Any]:
    """A server with a script, and a recorder that has yet to be run."""
    async with ScriptedServer(*script) as server:
        api = ApiServer.from_kubeconfig(write_kubeconfig(directory / "config", {"server": server.url}))
        yield server, EventRecorder(api, interval=interval)
        await api.aclose()


@asynccontextmanager
async def real(config: Path, interval: float = 0.01) -> AsyncIterator[tuple[EventRecorder, list[str]]]:
    """A recorder at work against the real API server, and what it asks."""
    api = CountingServer.from_kubeconfig(config)
    assert isinstance(api, CountingServer)
    recorder = EventRecorder(api, interval=interval)
    async with running(recorder):
        yield recorder, api.asked
    await api.aclose()


def events(control_plane: ControlPlane, namespace: str = "default") -> list[dict[str, Any]]:
    """The Events of ours that the API server has."""
    found = control_plane.client.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").json()["items"]
    return [event for event in found if event.get("reportingController") == CONTROLLER]


@pytest.fixture
def clean(control_plane: ControlPlane) -> Any:
    """A control plane without Events, before and after."""
    control_plane.clear()
    yield control_plane
    control_plane.clear()


def test_an_event_can_be_read_back_whole_and_counts_what_follows(clean: ControlPlane) -> None:
    async def scenario() -> None:
        async with real(clean.kubeconfig()) as (recorder, asked):
            recorder.record(EVENT)
            await eventually(lambda: asked == ["create events.events.k8s.io"])
            await eventually(lambda: len(events(clean)) == 1)
            for _ in range(4):
                recorder.record(replace(EVENT, note="zone b is cheaper now"))
            await eventually(lambda: events(clean)[0].get("series", {}).get("count") == 5)
            assert set(asked[1:]) == {"patch events.events.k8s.io"}

    asyncio.run(scenario())
    (event,) = events(clean)
    metadata = event.pop("metadata")
    assert (re.sub("[0-9a-f]{16}$", "", metadata["name"]), metadata["namespace"]) == ("web-0.", "default")
    assert event.pop("eventTime") < event["series"].pop("lastObservedTime")
    assert {key: value for key, value in event.items() if not key.startswith("deprecated")} == {
        "type": "Normal",
        "reason": "Preferred",
        "action": "Scheduling",
        "note": "zone a is cheaper",
        "regarding": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "web-0",
            "uid": "1f0c",
            "resourceVersion": "7",
        },
        "related": {"kind": "Node", "apiVersion": "v1", "name": "node-1"},
        "reportingController": CONTROLLER,
        "reportingInstance": socket.gethostname(),
        "series": {"count": 5},
    }


def test_a_flood_of_events_from_many_threads_costs_a_request_for_each_that_differs(clean: ControlPlane) -> None:
    async def scenario() -> None:
        async with real(clean.kubeconfig(), interval=60) as (recorder, asked):

            def flood(number: int) -> None:
                for _ in range(2_500):
                    recorder.record(EVENT)
                for each in range(number * 50, (number + 1) * 50):
                    recorder.record(numbered(each))

            with ThreadPoolExecutor(4) as threads:
                assert list(threads.map(flood, range(4))) == [None] * 4
            await eventually(lambda: len(asked) == 201)
            await eventually(lambda: len(events(clean)) == 201)
            assert set(asked) == {"create events.events.k8s.io"}

    asyncio.run(scenario())
    assert [event["series"]["count"] for event in events(clean) if "series" in event] == [10_000]


def test_no_more_requests_follow_each_other_than_a_burst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK_S", 60.0)

    async def scenario() -> None:
        async with scripted(tmp_path, CREATED) as (server, recorder):
            for number in range(100):
                recorder.record(numbered(number))
            async with running(recorder):
                await eventually(lambda: len(server.received) == module.MAX_BURST)
                await asyncio.sleep(0.1)
                assert len(server.received) == module.MAX_BURST

    asyncio.run(scenario())


def test_what_there_is_no_room_for_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, CREATED) as (_, recorder):
            for number in range(MAX_WAITING + 5):
                recorder.record(numbered(number))
            async with running(recorder):
                await eventually(lambda: bool(warnings(caplog)))

    asyncio.run(scenario())
    assert lost(caplog) == [("1000 different Events wait for the API server already", 5)]


def lost(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    """Cause and number of the Events that the log says were lost."""
    records = [record.__dict__ for record in caplog.records if record.message == "Events were lost"]
    return [(record["error"], record["events"]) for record in records]


@pytest.mark.parametrize(
    "change",
    [
        {"type": ""},
        {"type": "Fatal"},
        {"reason": ""},
        {"reason": "x" * 5_000},
        {"action": ""},
        {"action": "ä" * 5_000},
        {"note": ""},
        {"note": "ä" * 5_000},
        {"note": "\0 and \ud800"},
        {"regarding": ObjectReference(name="node-1")},
        {"regarding": ObjectReference("Pod", name="../Web 0", namespace="../default")},
        {"regarding": ObjectReference("Pod", name="x" * 5_000, namespace="x" * 5_000)},
        {"related": ObjectReference("Pod")},
    ],
)
def test_the_api_server_takes_what_was_repaired(
    clean: ControlPlane, change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with real(clean.kubeconfig()) as (recorder, asked):
            fields = {name: getattr(EVENT, name) for name in EVENT.__struct_fields__}
            recorder.record(Event(**{**fields, **change}))
            await eventually(lambda: len(asked) == 1)
            await eventually(lambda: len(events(clean)) == 1)

    asyncio.run(scenario())
    assert warnings(caplog) == []


def test_an_event_about_nothing_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, CREATED) as (server, recorder), running(recorder):
            recorder.record(Event(reason="Lost"))
            await eventually(lambda: bool(warnings(caplog)))
            assert not server.received

    asyncio.run(scenario())
    assert lost(caplog) == [("an Event (reason 'Lost') is about no object: its RegardingReference has no Name", 1)]


def test_an_identity_without_the_right_to_record_is_told_once(
    clean: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    clean.client.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "mute"}})

    async def scenario() -> None:
        async with real(clean.service_account_kubeconfig("default", "mute")) as (recorder, asked):
            for number in range(3):
                recorder.record(numbered(number))
            await eventually(lambda: len(asked) == 3)
            await eventually(lambda: bool(warnings(caplog)))
            recorder.record(numbered(3))
            await eventually(lambda: len(asked) == 4)

    asyncio.run(scenario())
    assert lost(caplog) == [
        (
            f"create events.events.k8s.io: {clean.server} answered 403: events.events.k8s.io is forbidden: "
            'User "system:serviceaccount:default:mute" cannot create resource "events" in API group "events.k8s.io" '
            'in the namespace "default"; RBAC must allow the verb create on events.events.k8s.io',
            3,
        )
    ]
    assert events(clean) == []


def test_a_namespace_that_does_not_exist_is_told(clean: ControlPlane, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with real(clean.kubeconfig()) as (recorder, _):
            recorder.record(replace(EVENT, regarding=replace(POD, namespace="nowhere")))
            await eventually(lambda: bool(warnings(caplog)))

    asyncio.run(scenario())
    assert lost(caplog) == [
        (f'create events.events.k8s.io: {clean.server} answered 404: namespaces "nowhere" not found', 1)
    ]


def test_an_event_that_was_deleted_comes_again_with_its_count(clean: ControlPlane) -> None:
    async def scenario() -> None:
        async with real(clean.kubeconfig()) as (recorder, asked):
            recorder.record(EVENT)
            await eventually(lambda: len(events(clean)) == 1)
            clean.client.delete(EVENTS).raise_for_status()
            recorder.record(EVENT)
            await eventually(lambda: [event.get("series", {}).get("count") for event in events(clean)] == [2])
            assert [request.split()[0] for request in asked] == ["create", "patch", "create"]

    asyncio.run(scenario())


@pytest.mark.parametrize("failure", [hang_up, answer(503, b"starting"), answer(429, b"too many"), answer(500, b"?")])
def test_a_failure_that_passes_is_tried_again(
    tmp_path: Path, failure: Behaviour, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, failure, failure, CREATED) as (server, recorder):
            recorder.record(numbered(1))
            recorder.record(numbered(2))
            async with running(recorder):
                await eventually(lambda: len(server.received) == 4)
            reasons = [json.loads(got.body)["reason"] for got in server.received]
            assert sorted(reasons[2:]) == ["Reason1", "Reason2"]

    asyncio.run(scenario())
    assert warnings(caplog) == []


def test_an_answer_that_was_lost_means_no_second_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        exists = answer(409, b'{"kind":"Status","message":"events.events.k8s.io \\"web-0.x\\" already exists"}')
        async with scripted(tmp_path, hang_up, exists, PATCHED) as (server, recorder):
            recorder.record(EVENT)
            recorder.record(EVENT)
            async with running(recorder):
                await eventually(lambda: len(server.received) == 3)
            first, second, third = server.received
            name = json.loads(first.body)["metadata"]["name"]
            assert (second.method, json.loads(second.body)["metadata"]["name"]) == ("POST", name)
            assert (third.method, third.target) == ("PATCH", f"{EVENTS}/{name}")
            assert third.headers["content-type"] == "application/merge-patch+json"
            assert json.loads(third.body)["series"]["count"] == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("body", [HTML, b'{"kind":"Pod"}', b"k8s", b""])
def test_a_success_that_is_none_costs_the_event(tmp_path: Path, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Such as a page to log in at."""

    async def scenario() -> str:
        async with scripted(tmp_path, answer(200, body)) as (server, recorder):
            recorder.record(EVENT)
            async with running(recorder):
                await eventually(lambda: bool(warnings(caplog)))
            return str(server.url)

    url = asyncio.run(scenario())
    none = f"sent a success that is none: {body.decode()!r}; look what stands before the API server"
    assert lost(caplog) == [(f"create events.events.k8s.io: {url} {none}", 1)]


@pytest.mark.parametrize(
    ("first", "code", "asked"), [(hang_up, 409, "create"), (CREATED, 404, "patch")], ids=["exists", "deleted"]
)
def test_a_proxys_page_does_not_say_that_an_event_exists_or_was_deleted(
    tmp_path: Path, first: Behaviour, code: int, asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> str:
        async with scripted(tmp_path, first, answer(code, HTML)) as (server, recorder), running(recorder):
            recorder.record(EVENT)
            await eventually(lambda: bool(server.received))
            recorder.record(EVENT)
            await eventually(lambda: bool(warnings(caplog)))
            return str(server.url)

    url = asyncio.run(scenario())
    told = f"{asked} events.events.k8s.io: {url} answered {code}: {HTML.decode()}"
    assert [cause for cause, _ in lost(caplog)] == [told]


def test_a_server_that_stays_away_costs_the_events_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "SEND_TIMEOUT_S", 0.0)

    async def scenario() -> str:
        async with scripted(tmp_path, answer(503, b"starting")) as (server, recorder):
            for number in range(3):
                recorder.record(numbered(number))
            async with running(recorder):
                await eventually(lambda: bool(warnings(caplog)))
            assert len(server.received) == 1
            return str(server.url)

    url = asyncio.run(scenario())
    assert lost(caplog) == [(f"not written within 0 s: create events.events.k8s.io: {url} answered 503: starting", 3)]


def test_a_fault_of_the_recorder_itself_costs_one_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, CREATED) as (server, recorder):
            recorder.record(replace(EVENT, regarding=replace(POD, uid="\ud800")))  # JSON cannot have it
            recorder.record(EVENT)
            async with running(recorder):
                await eventually(lambda: len(server.received) == 1)

    asyncio.run(scenario())
    assert [record.message for record in caplog.records] == ["an Event met a fault of the recorder's own"]
