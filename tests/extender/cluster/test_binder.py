"""A bind succeeds when the pod is on the node, and otherwise says why in words for the pod's events."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from bench.controlplane import ControlPlane
from bench.peers.kubeconfig import write_kubeconfig
from extender.cluster import ApiBinder, ApiServer, Binder, BindError, DryRunBinder, NoBinder, PodKey
from extender.cluster import binder as binder_module
from extender.cluster.client.api import ApiRequest
from tests.extender.cluster.scripted import Behaviour, Received, ScriptedServer, answer, hang_up, say_nothing
from tests.patience import PATIENCE_S

POD = PodKey("default", "web-0", "1f0c")
CREATED = answer(201, b'{"kind":"Status","status":"Success"}')
PODS = "/api/v1/namespaces/default/pods"


def conflict(node: str) -> Behaviour:
    """Says as the API server does that the pod has a node."""
    message = f'Operation cannot be fulfilled: pod web-0 is already assigned to node "{node}"'
    return answer(409, json.dumps({"kind": "Status", "message": message}).encode())


@asynccontextmanager
async def scripted(
    directory: Path, *script: Behaviour, timeout: float = 4
) -> AsyncIterator[tuple[ScriptedServer, Binder]]:
    """A binder that meets `script`."""
    async with ScriptedServer(*script) as server:
        api = ApiServer.from_kubeconfig(write_kubeconfig(directory / "config", {"server": server.url}))
        yield server, ApiBinder(api, timeout)
        await api.aclose()


async def bind_error(binder: Binder, pod: PodKey = POD, node: str = "node-1") -> str:
    """The message of a bind that fails."""
    with pytest.raises(BindError) as caught:
        await binder.bind(pod, node, {})
    return str(caught.value)


def test_without_a_cluster_bind_says_what_to_configure() -> None:
    assert asyncio.run(bind_error(NoBinder())) == (
        "cannot bind pod default/web-0 to node node-1: bind needs an API server and cluster.mode is none; "
        "set cluster.mode to kubeconfig or in-cluster, or take bindVerb out of the scheduler's extender"
    )


@pytest.mark.parametrize("annotations", [{}, {"example.com/gpus": "0,3"}])
def test_a_dry_run_only_logs(caplog: pytest.LogCaptureFixture, annotations: dict[str, str]) -> None:
    caplog.set_level(logging.INFO)
    asyncio.run(DryRunBinder().bind(POD, "node-1", annotations))
    (record,) = [record for record in caplog.records if record.name.startswith("extender")]
    logged = {key: record.__dict__[key] for key in ("pod", "uid", "node", "annotations") if key in record.__dict__}
    given = {"annotations": annotations} if annotations else {}
    assert logged == {"pod": "default/web-0", "uid": "1f0c", "node": "node-1", **given}


def test_a_binding_is_what_the_default_binder_sends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, CREATED) as (server, binder):
            await binder.bind(POD, "node-1", {})
            (got,) = server.received
            assert (got.method, got.target) == ("POST", f"{PODS}/web-0/binding")
            assert got.headers["content-type"] == "application/json"
            assert json.loads(got.body) == {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": "default", "name": "web-0", "uid": "1f0c"},
                "target": {"kind": "Node", "name": "node-1"},
            }

    asyncio.run(scenario())


def test_annotations_are_part_of_the_binding(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, CREATED) as (server, binder):
            await binder.bind(POD, "node-1", {"example.com/gpus": "0,3", "größe": ""})
            metadata = json.loads(server.received[0].body)["metadata"]
            assert metadata == {
                "namespace": "default",
                "name": "web-0",
                "uid": "1f0c",
                "annotations": {"example.com/gpus": "0,3", "größe": ""},
            }

    asyncio.run(scenario())


def test_names_cannot_leave_their_place_in_the_path(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, answer(404, b"no such pod")) as (server, binder):
            await bind_error(binder, PodKey("default", "../../nodes/a?x=y#z%2F", "1f0c"))
            assert server.received[0].target == f"{PODS}/..%2F..%2Fnodes%2Fa%3Fx%3Dy%23z%252F/binding"

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_is_no_name_is_not_sent(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, CREATED) as (server, binder):
            for pod in PodKey("default", name, "1f0c"), PodKey(name, "web-0", "1f0c"):
                assert (await bind_error(binder, pod)).endswith(f"{name!r} is no name")
            assert not server.received

    asyncio.run(scenario())


def test_an_attempt_ends_long_before_a_wait_on_permit_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside bind, `server.bindTimeout` is for that wait, and a connection may lead nowhere any more."""
    monkeypatch.setattr(binder_module, "MAX_ATTEMPT_S", 0.2)

    async def scenario() -> None:
        async with scripted(tmp_path, say_nothing, CREATED, timeout=10 * PATIENCE_S) as (server, binder):
            await asyncio.wait_for(binder.bind(POD, "node-1", {}), PATIENCE_S)
            assert len(server.received) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("failure", [hang_up, answer(503, b"starting"), answer(429, b"too many"), answer(500, b"?")])
def test_a_failure_that_passes_is_tried_again(tmp_path: Path, failure: Behaviour) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, failure, failure, CREATED) as (server, binder):
            await binder.bind(POD, "node-1", {})
            assert len(server.received) == 3

    asyncio.run(scenario())


def test_a_lost_answer_of_a_bind_that_happened_is_a_success(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, hang_up, conflict("node-1")) as (server, binder):
            await binder.bind(POD, "node-1", {})
            assert len(server.received) == 2

    asyncio.run(scenario())


def test_a_pod_on_another_node_is_a_conflict_that_is_not_repeated(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, conflict("node-12")) as (server, binder):
            assert await bind_error(binder) == (
                "cannot bind pod default/web-0 to node node-1: the pod is not waiting for a node any more: "
                'Operation cannot be fulfilled: pod web-0 is already assigned to node "node-12"'
            )
            assert len(server.received) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("failure", "most", "cause"),
    [
        (answer(503, b"starting"), 15, "create pods/binding: {url} answered 503: starting"),
        (hang_up, 15, "create pods/binding: {url} gave no whole answer: Server disconnected"),
        (say_nothing, 2, "create pods/binding: no answer of {url} within"),
    ],
)
def test_a_bind_ends_with_the_time_for_it(
    tmp_path: Path, failure: Behaviour, most: int, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no more attempts than the time has room for, however short each pause is; the last has what is left."""
    call, granted = ApiServer.call, []

    async def noting(api: ApiServer, request: ApiRequest, timeout: float) -> bytes:
        granted.append(timeout)
        return await call(api, request, timeout)

    monkeypatch.setattr(ApiServer, "call", noting)

    async def scenario() -> None:
        async with scripted(tmp_path, failure) as (server, binder):
            message = await asyncio.wait_for(bind_error(binder), PATIENCE_S)
            assert f"cannot bind pod default/web-0 to node node-1: {cause.format(url=server.url)}" in message
            assert 2 <= len(server.received) <= most
            assert granted[-1] < granted[0]

    asyncio.run(scenario())


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(CREATED) as server:
            url = server.url
        api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": url}))
        message = await bind_error(ApiBinder(api, timeout=4))
        assert f"create pods/binding: {url} cannot be reached: " in message
        assert "refused" in message.lower() or "connect call failed" in message.lower()
        await api.aclose()

    asyncio.run(scenario())


@asynccontextmanager
async def real(control_plane: ControlPlane, kubeconfig: Path | None = None) -> AsyncIterator[Binder]:
    """A binder of the real API server."""
    api = ApiServer.from_kubeconfig(kubeconfig or control_plane.kubeconfig())
    yield ApiBinder(api)
    await api.aclose()


@pytest.fixture
def pod(control_plane: ControlPlane) -> PodKey:
    """A pod without a node."""
    spec = {"containers": [{"name": "main", "image": "none"}]}
    created = control_plane.client.post(PODS, json={"metadata": {"generateName": "web-"}, "spec": spec}).json()
    return PodKey("default", created["metadata"]["name"], created["metadata"]["uid"])


def node_of(control_plane: ControlPlane, pod: PodKey) -> str | None:
    """Where a pod is."""
    node: str | None = control_plane.client.get(f"{PODS}/{pod.name}").json()["spec"].get("nodeName")
    return node


def test_a_pod_is_bound(control_plane: ControlPlane, pod: PodKey) -> None:
    async def scenario() -> None:
        async with real(control_plane) as binder:
            await binder.bind(pod, "node-1", {})

    asyncio.run(scenario())
    assert node_of(control_plane, pod) == "node-1"


def test_to_bind_again_is_a_success_on_the_same_node_only(control_plane: ControlPlane, pod: PodKey) -> None:
    async def scenario() -> None:
        async with real(control_plane) as binder:
            await binder.bind(pod, "node-1", {})
            await binder.bind(pod, "node-1", {})
            assert await bind_error(binder, pod, "node-2") == (
                f"cannot bind pod {pod} to node node-2: the pod is not waiting for a node any more: "
                f'Operation cannot be fulfilled on pods/binding "{pod.name}": '
                f'pod {pod.name} is already assigned to node "node-1"'
            )

    asyncio.run(scenario())
    assert node_of(control_plane, pod) == "node-1"


def test_a_pod_that_does_not_exist_is_gone(control_plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with real(control_plane) as binder:
            assert await bind_error(binder, PodKey("default", "nobody", "1f0c")) == (
                'cannot bind pod default/nobody to node node-1: the pod is gone: pods "nobody" not found'
            )

    asyncio.run(scenario())


def test_another_pod_of_the_same_name_is_not_bound(control_plane: ControlPlane, pod: PodKey) -> None:
    async def scenario() -> None:
        async with real(control_plane) as binder:
            message = await bind_error(binder, pod._replace(uid="of-its-predecessor"))
            assert "Precondition failed: UID in precondition: of-its-predecessor" in message
            await binder.bind(pod, "node-1", {})
            # Nor is it taken for bound because its successor is.
            assert "UID" in await bind_error(binder, pod._replace(uid="of-its-predecessor"))

    asyncio.run(scenario())


def test_an_identity_without_the_right_to_bind_is_told_which(control_plane: ControlPlane, pod: PodKey) -> None:
    control_plane.client.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "nobody"}})
    config = control_plane.service_account_kubeconfig("default", "nobody")

    async def scenario() -> None:
        async with real(control_plane, config) as binder:
            assert await bind_error(binder, pod) == (
                f"cannot bind pod {pod} to node node-1: create pods/binding: {control_plane.server} "
                f'answered 403: pods "{pod.name}" is forbidden: User "system:serviceaccount:default:nobody" '
                'cannot create resource "pods/binding" in API group "" in the namespace "default"; '
                "RBAC must allow the verb create on pods/binding"
            )

    asyncio.run(scenario())
    assert node_of(control_plane, pod) is None


def test_a_bind_of_which_the_real_answer_was_lost_is_a_success(
    control_plane: ControlPlane, pod: PodKey, tmp_path: Path
) -> None:
    answers: list[int] = []

    async def relay(request: Received) -> httpx.Response:
        response = await asyncio.to_thread(control_plane.client.post, request.target, content=request.body)
        answers.append(response.status_code)
        return response

    async def lose(request: Received, _: asyncio.StreamWriter) -> None:
        await relay(request)

    async def pass_on(request: Received, writer: asyncio.StreamWriter) -> None:
        response = await relay(request)
        await answer(response.status_code, response.content)(request, writer)

    async def scenario() -> None:
        async with scripted(tmp_path, lose, pass_on) as (_, binder):
            await binder.bind(pod, "node-1", {})

    asyncio.run(scenario())
    assert answers == [201, 409]
    assert node_of(control_plane, pod) == "node-1"
