"""One pod is read by its key, and the pods that have not finished are kept by UID."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.controlplane import ControlPlane
from bench.peers.kubeconfig import write_kubeconfig
from bench.peers.protobuf import enveloped, event, framed, node_list, text
from extender.cluster import ApiServer, ClusterError, PodCache, PodGoneError, PodKey, read_pod
from extender.cluster.client.envelope import unwrap
from extender.cluster.client.errors import ProtocolError, RefusedError, UnreachableError
from tests.extender.cluster.scripted import Behaviour, ScriptedServer, answer, say_nothing, stream
from tests.extender.cluster.support import Ends, ageless, running
from tests.patience import eventually

KEY = PodKey("default", "web-0", "1f0c")
PODS = "/api/v1/namespaces/default/pods"
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


def pod(name: str, uid: str, version: str = "7") -> bytes:
    """A bare v1.Pod with nothing but metadata."""
    return text(1, text(1, name) + text(3, "default") + text(5, uid) + text(6, version))


@asynccontextmanager
async def scripted(directory: Path, *script: Behaviour) -> AsyncIterator[tuple[ScriptedServer, ApiServer]]:
    """A server with a script, and the access to it."""
    async with ScriptedServer(*script) as server:
        api = ApiServer.from_kubeconfig(write_kubeconfig(directory / "config", {"server": server.url}))
        yield server, api
        await api.aclose()


@asynccontextmanager
async def access(config: Path) -> AsyncIterator[ApiServer]:
    """The real API server."""
    api = ApiServer.from_kubeconfig(config)
    yield api
    await api.aclose()


@pytest.fixture
def pods(control_plane: ControlPlane) -> Iterator[dict[str, str]]:
    """UIDs by name of two real pods."""
    spec = {"containers": [{"name": "main", "image": "none"}]}
    created = [
        control_plane.client.post(PODS, json={"metadata": {"name": name}, "spec": spec}).json()["metadata"]
        for name in ("web-0", "web-1")
    ]
    yield {each["name"]: each["uid"] for each in created}
    control_plane.clear()


def from_server(control_plane: ControlPlane, name: str) -> bytes:
    """A pod as the API server itself writes it in protobuf."""
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    return unwrap(control_plane.client.get(f"{PODS}/{name}", headers=accept).content)


@pytest.mark.parametrize("uid", ["1f0c", ""])
def test_a_pod_is_read_byte_for_byte(tmp_path: Path, uid: str) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, answer(200, enveloped(pod("web-0", "1f0c"), "Pod"))) as (server, api):
            assert await read_pod(api, KEY._replace(uid=uid)) == pod("web-0", "1f0c")
            assert [(got.method, got.target) for got in server.received] == [("GET", f"{PODS}/web-0")]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("behaviour", "kind", "message"),
    [
        (
            answer(404, b'{"kind": "Status", "message": "pods \\"web-0\\" not found"}'),
            PodGoneError,
            'the pod is gone: pods "web-0" not found',
        ),
        (
            answer(200, enveloped(pod("web-0", "2b1d"), "Pod")),
            PodGoneError,
            "the pod is gone, another has its name: its UID is 2b1d, not 1f0c",
        ),
        (answer(404, b"<html>"), RefusedError, "get pods: {url} answered 404: <html>"),
        (
            answer(403, b'{"kind": "Status", "message": "pods is forbidden"}'),
            RefusedError,
            "get pods: {url} answered 403: pods is forbidden; RBAC must allow the verb get on pods",
        ),
        (answer(200, b"{}"), ProtocolError, "expected Kubernetes protobuf, got b'{{}}'"),
        (
            answer(200, enveloped(b"\xff", "Pod")),
            ProtocolError,
            "a pod that is no valid protobuf: no end of the varint at byte 0",
        ),
        (say_nothing, UnreachableError, "get pods: no answer of {url} within 0.2 s"),
    ],
)
def test_a_pod_that_cannot_be_read_is_told(
    tmp_path: Path, behaviour: Behaviour, kind: type[ClusterError], message: str
) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, behaviour) as (server, api):
            with pytest.raises(ClusterError) as caught:
                await read_pod(api, KEY, timeout=0.2)
            assert (type(caught.value), str(caught.value)) == (kind, message.format(url=server.url))

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_is_no_name_is_not_asked_for(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with scripted(tmp_path, answer(200, b"")) as (server, api):
            with pytest.raises(ClusterError) as caught:
                await read_pod(api, KEY._replace(name=name))
            assert str(caught.value) == f"pod 'default/{name}': {name!r} is no name"
            assert not server.received

    asyncio.run(scenario())


def test_a_real_pod_is_read_while_it_is_there(control_plane: ControlPlane, pods: dict[str, str]) -> None:
    key = PodKey("default", "web-0", pods["web-0"])

    async def scenario() -> None:
        async with access(control_plane.kubeconfig()) as api:
            assert await read_pod(api, key) == from_server(control_plane, "web-0")
            with pytest.raises(PodGoneError, match="another has its name"):
                await read_pod(api, key._replace(uid="of-its-predecessor"))
            control_plane.client.delete(f"{PODS}/web-0", params={"gracePeriodSeconds": 0}).raise_for_status()
            with pytest.raises(PodGoneError, match='the pod is gone: pods "web-0" not found'):
                await read_pod(api, key)

    asyncio.run(scenario())


def test_pods_are_known_by_uid_and_a_name_that_comes_again_is_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        pages = (
            answer(200, node_list("7", pod("web-0", "a"), continuation="next")),
            answer(200, node_list("7", pod("web-1", "b"))),
        )
        changes = (
            framed(event("DELETED", pod("web-0", "a", "8"))),
            framed(event("ADDED", pod("web-0", "c", "9"))),
            framed(event("MODIFIED", pod("web-1", "b", "10"))),
        )
        async with scripted(tmp_path, *pages, stream(*changes, linger=60)) as (server, api):
            cache = PodCache(api, Ends())
            assert (cache.synced, cache.get("a")) == (False, None)
            async with running(cache):
                await eventually(lambda: cache.get("b") == pod("web-1", "b", "10"))
            assert (cache.synced, cache.problem, cache.size) == (True, None, 2)
            assert (cache.get("a"), cache.get("c")) == (None, pod("web-0", "c", "9"))
            found = [cache.find(*asked) for asked in (("a", "7"), ("a", "8"), ("b", "7"), ("b", "10"), ("c", "9"))]
            assert found == [None, None, None, pod("web-1", "b", "10"), pod("web-0", "c", "9")]
            assert [got.query for got in server.received] == [
                {"fieldSelector": UNFINISHED, "limit": "500"},
                {"fieldSelector": UNFINISHED, "limit": "500", "continue": "next"},
                {
                    "fieldSelector": UNFINISHED,
                    "watch": "1",
                    "resourceVersion": "7",
                    "allowWatchBookmarks": "true",
                    "timeoutSeconds": "60",
                },
            ]
            assert {got.target.partition("?")[0] for got in server.received} == {"/api/v1/pods"}

    asyncio.run(scenario())


class Told:
    """Takes note of what a cache tells who follows it."""

    def __init__(self) -> None:
        self.steps: list[object] = []

    def replace(self, pods: Mapping[str, tuple[str, bytes]]) -> None:
        """A list."""
        self.steps.append(dict(pods))

    def observe(self, uid: str, node: str, pod: bytes) -> None:
        """A pod is new or has changed."""
        self.steps.append((uid, node, pod))

    def delete(self, uid: str) -> None:
        """A pod has ended."""
        self.steps.append(uid)


def test_who_follows_the_pods_is_told_of_each_change(tmp_path: Path) -> None:
    placed = pod("web-1", "b") + text(2, text(1, "a volume") + text(10, "node-7"))

    async def scenario() -> None:
        listed = answer(200, node_list("7", pod("web-0", "a"), placed))
        moved = pod("web-0", "a", "8") + text(2, text(10, "node-9"))
        changes = (framed(event("MODIFIED", moved)), framed(event("DELETED", pod("web-1", "b", "9"))))
        async with scripted(tmp_path, listed, stream(*changes, linger=60)) as (_, api):
            told = Told()
            async with running(PodCache(api, Ends(), told)):
                await eventually(lambda: len(told.steps) == 3)
            assert told.steps == [
                {"a": ("", pod("web-0", "a")), "b": ("node-7", placed)},
                ("a", "node-9", moved),
                "b",
            ]

    asyncio.run(scenario())


def test_pods_that_a_new_list_has_not_are_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = answer(200, node_list("7", pod("web-0", "a"))), answer(200, node_list("9", pod("web-1", "b")))
        async with scripted(tmp_path, first, answer(410, b"too old"), second, stream(linger=60)) as (_, api):
            cache = PodCache(api, Ends())
            async with running(cache):
                await eventually(lambda: cache.get("b") is not None)
            assert cache.get("a") is None

    asyncio.run(scenario())


def test_a_pod_that_a_new_list_has_unchanged_is_kept_as_it_is(tmp_path: Path) -> None:
    """Else a new list would take the memory of all pods once more."""

    async def scenario() -> None:
        first, again = (
            answer(200, node_list(version, *(pod(f"web-{uid}", uid, at) for uid, at in pods.items())))
            for version, pods in (("7", {"a": "3", "b": "4"}), ("9", {"a": "3", "b": "8"}))
        )
        async with scripted(tmp_path, first, stream(), answer(410, b"too old"), again, stream(linger=60)) as (_, api):
            cache = PodCache(api, Ends())
            async with running(cache):
                await eventually(lambda: cache.size == 2)
                kept = cache.get("a")
                await eventually(lambda: cache.get("b") == pod("web-b", "b", "8"))
            assert cache.get("a") is kept

    asyncio.run(scenario())


def test_a_cache_of_pods_that_is_forbidden_says_so(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    control_plane.client.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "blind"}})

    async def scenario() -> None:
        async with access(control_plane.service_account_kubeconfig("default", "blind")) as api:
            cache = PodCache(api, Ends())
            async with running(cache):
                await eventually(lambda: "403" in (cache.problem or ""))
            assert ageless(cache.problem) == (
                f"list pods: {control_plane.server} answered 403: pods is forbidden: "
                'User "system:serviceaccount:default:blind" cannot list resource "pods" in API group "" '
                "at the cluster scope; RBAC must allow the verb list on pods (for N s)"
            )
            assert not cache.synced

    asyncio.run(scenario())
    messages = [record.message for record in caplog.records if record.name.startswith("extender.")]
    assert messages == ["the pods are not current"]


def test_real_pods_are_kept_until_they_finish(control_plane: ControlPlane, pods: dict[str, str]) -> None:
    client, merge = control_plane.client, {"Content-Type": "application/merge-patch+json"}

    def status_of(name: str, status: dict[str, Any]) -> None:
        client.patch(f"{PODS}/{name}/status", json={"status": status}, headers=merge).raise_for_status()

    async def scenario() -> None:
        async with access(control_plane.kubeconfig()) as api:
            cache = PodCache(api, Ends())
            async with running(cache):
                await eventually(lambda: all(cache.get(uid) for uid in pods.values()))
                assert cache.get(pods["web-0"]) == from_server(control_plane, "web-0")
                status_of("web-0", {"phase": "Running"})
                await eventually(lambda: cache.get(pods["web-0"]) == from_server(control_plane, "web-0"))
                status_of("web-0", {"phase": "Succeeded"})
                await eventually(lambda: cache.get(pods["web-0"]) is None)
                client.delete(f"{PODS}/web-1", params={"gracePeriodSeconds": 0}).raise_for_status()
                await eventually(lambda: cache.get(pods["web-1"]) is None)
            # Nor does a list have the one that has finished.
            again = PodCache(api, Ends())
            async with running(again):
                await eventually(lambda: again.synced)
            assert again.get(pods["web-0"]) is None

    asyncio.run(scenario())
