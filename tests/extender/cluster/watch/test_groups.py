"""The PodGroups of an API are watched for as long as the API server has the API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.peers.kubeconfig import write_kubeconfig
from extender.cluster import GROUP_APIS, ApiServer, GroupCache, GroupObject
from tests.extender.cluster.scripted import Behaviour, Received, ScriptedServer, answer, say_nothing, stream
from tests.extender.cluster.support import Ends, ageless, running, warnings
from tests.patience import eventually

NATIVE, LABELLED = GROUP_APIS
VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2")
"""Of Kubernetes' own API: Kubernetes 1.37 has the first two, and 1.36 the last one."""
ABSENT = answer(404, b"404 page not found\n")
OTHERS = answer(200, b'{"kind": "APIResourceList", "resources": [{"name": "priorityclasses"}]}')
THERE = answer(200, b'{"kind": "APIResourceList", "resources": [{"name": "workloads"}, {"name": "podgroups"}]}')
FORBIDDEN = answer(403, b'{"kind": "Status", "message": "podgroups is forbidden"}')
LABELLED_PATH = "/apis/scheduling.x-k8s.io/v1alpha1"
Scripts = Mapping[str, list[Behaviour]]


class Sink(dict[str, GroupObject]):
    """What the cache keeps current."""

    def replace(self, objects: Mapping[str, GroupObject]) -> None:
        """These are all there are."""
        self.clear()
        self.update(objects)

    def put(self, objects: Iterable[tuple[str, GroupObject]]) -> None:
        """Adds or replaces."""
        self.update(objects)

    def remove(self, key: str) -> None:
        """Forgets one."""
        self.pop(key, None)


def group(name: str, minimum: int, version: str = "7") -> dict[str, Any]:
    """A PodGroup of scheduler-plugins."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "resourceVersion": version}
    return {"metadata": metadata, "spec": {"minMember": minimum}}


def listed(*groups: dict[str, Any], version: str = "7") -> Behaviour:
    """Answers a list."""
    return answer(200, json.dumps({"metadata": {"resourceVersion": version}, "items": groups}).encode())


def events(*changes: tuple[str, dict[str, Any]]) -> bytes:
    """What a watch sends."""
    return b"".join(json.dumps({"type": kind, "object": found}).encode() + b"\n" for kind, found in changes)


class ByPath:
    """Plays for each path the behaviours that are due there, the last one again and again."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = {path: list(script) for path, script in scripts.items()}

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        path, _, query = request.target.partition("?")
        script = self._scripts.get(f"{path}?watch" if "watch=1" in query else path, [ABSENT])
        await (script.pop(0) if len(script) > 1 else script[0])(request, writer)


@asynccontextmanager
async def caching(
    folder: Path, scripts: Scripts, *, native: bool = False, interval: float = 0.05
) -> AsyncIterator[tuple[GroupCache, Sink, Ends, ScriptedServer]]:
    """A cache of the groups that such a server has."""
    async with ScriptedServer(ByPath(scripts)) as server:
        api = ApiServer.from_kubeconfig(write_kubeconfig(folder / "config", {"server": server.url}))
        sink, ends = Sink(), Ends()
        cache = GroupCache(api, NATIVE if native else LABELLED, sink, ends, interval=interval)
        async with running(cache):
            yield cache, sink, ends, server
        await api.aclose()


@pytest.mark.parametrize("at", range(len(VERSIONS)), ids=VERSIONS)
def test_the_newest_version_that_has_the_kind_is_watched(tmp_path: Path, at: int) -> None:
    *before, path = [f"/apis/scheduling.k8s.io/{version}" for version in VERSIONS[: at + 1]]
    spec = {"priority": 3, "schedulingPolicy": {"gang": {"minCount": 4}}}
    found = {"metadata": {"name": "a", "namespace": "ml", "resourceVersion": "1"}, "spec": spec}
    scripts: Scripts = {
        **{other: [OTHERS] for other in before},
        path: [THERE],
        f"{path}/podgroups": [listed(found)],
        f"{path}/podgroups?watch": [say_nothing],
    }

    async def scenario() -> None:
        async with caching(tmp_path, scripts, native=True, interval=60.0) as (cache, sink, _, server):
            await eventually(lambda: sink == {"ml/a": GroupObject(4, 0, 3)})
            assert (cache.unusable, cache.outdated >= 0.0) == (None, True)
            asked = [got.target.partition("?")[0] for got in server.received]
            assert asked[: at + 2] == [*before, path, f"{path}/podgroups"]
            assert {got.headers["accept"] for got in server.received} == {"application/json"}

    asyncio.run(scenario())


def test_changes_are_followed(tmp_path: Path) -> None:
    over = asyncio.Event()
    changes = events(
        ("ADDED", group("b", 2, "8")),
        ("MODIFIED", group("a", 5, "9")),
        ("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
    )
    scripts: Scripts = {
        LABELLED_PATH: [THERE],
        f"{LABELLED_PATH}/podgroups": [listed(group("a", 4))],
        f"{LABELLED_PATH}/podgroups?watch": [
            stream(changes[:30], changes[30:-9], changes[-9:]),
            stream(events(("DELETED", group("a", 5, "10"))), when=over),
            say_nothing,
        ],
    }

    async def scenario() -> None:
        async with caching(tmp_path, scripts, interval=60.0) as (_, sink, __, ___):
            await eventually(lambda: sink == {"default/a": GroupObject(5), "default/b": GroupObject(2)})
            over.set()
            await eventually(lambda: sink == {"default/b": GroupObject(2)})

    asyncio.run(scenario())


def test_a_kind_that_is_not_there_is_looked_for_until_it_comes_and_again_when_it_has_gone(tmp_path: Path) -> None:
    scripts: Scripts = {
        LABELLED_PATH: [ABSENT, OTHERS, THERE, THERE, ABSENT],
        f"{LABELLED_PATH}/podgroups": [listed(group("a", 4))],
        f"{LABELLED_PATH}/podgroups?watch": [say_nothing],
    }

    async def scenario() -> None:
        async with caching(tmp_path, scripts, interval=0.3) as (cache, sink, _, __):
            await eventually(lambda: cache.unusable is None)
            assert (sink, cache.problem, cache.outdated) == ({}, None, 0.0)
            await eventually(lambda: sink == {"default/a": GroupObject(4)})
            await eventually(lambda: not sink)
            assert (cache.unusable, cache.problem, cache.outdated) == (None, None, 0.0)

    asyncio.run(scenario())


def test_objects_stay_while_it_is_not_known_whether_there_are_any(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scripts: Scripts = {
        LABELLED_PATH: [THERE, FORBIDDEN],
        f"{LABELLED_PATH}/podgroups": [listed(group("a", 4))],
        f"{LABELLED_PATH}/podgroups?watch": [say_nothing],
    }

    async def scenario() -> None:
        async with caching(tmp_path, scripts) as (cache, sink, _, server):
            refused = (
                f"get scheduling.x-k8s.io/v1alpha1: {server.url} answered 403: podgroups is forbidden;"
                " RBAC must allow the verb get on scheduling.x-k8s.io/v1alpha1"
            )
            await eventually(lambda: cache.problem == refused)
            assert (sink, cache.unusable) == ({"default/a": GroupObject(4)}, None)
            assert warnings(caplog) == [refused]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        (
            FORBIDDEN,
            "get scheduling.x-k8s.io/v1alpha1: {url} answered 403: podgroups is forbidden;"
            " RBAC must allow the verb get on scheduling.x-k8s.io/v1alpha1",
        ),
        (
            answer(200, b"<html>"),
            "get scheduling.x-k8s.io/v1alpha1: no list of resources: JSON is malformed: invalid character (byte 0)",
        ),
    ],
)
def test_nothing_is_answered_before_it_is_known_whether_there_are_any(
    tmp_path: Path, behaviour: Behaviour, problem: str
) -> None:
    async def scenario() -> None:
        async with caching(tmp_path, {LABELLED_PATH: [behaviour]}) as (cache, sink, _, server):
            said = problem.format(url=server.url)
            await eventually(lambda: cache.problem == said)
            assert cache.unusable == f"the podgroups.scheduling.x-k8s.io of the cluster are not known yet: {said}"
            assert (sink, cache.outdated > 0.0) == ({}, True)

    asyncio.run(scenario())


def test_a_right_that_is_missing_is_named(tmp_path: Path) -> None:
    scripts: Scripts = {LABELLED_PATH: [THERE], f"{LABELLED_PATH}/podgroups": [FORBIDDEN]}

    async def scenario() -> None:
        async with caching(tmp_path, scripts) as (cache, _, ends, server):
            refused = (
                f"list podgroups.scheduling.x-k8s.io: {server.url} answered 403: podgroups is forbidden;"
                " RBAC must allow the verb list on podgroups.scheduling.x-k8s.io"
            )
            await eventually(lambda: refused in (cache.problem or ""))
            assert ageless(cache.unusable) == (
                f"the podgroups.scheduling.x-k8s.io of the cluster are not known yet: {refused} (for N s)"
            )
            assert ends.all[0] == ("podgroups.scheduling.x-k8s.io", "list", "refused")

    asyncio.run(scenario())


def test_a_watch_that_has_expired_is_followed_by_a_list(tmp_path: Path) -> None:
    gone = events(("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"}))
    scripts: Scripts = {
        LABELLED_PATH: [THERE],
        f"{LABELLED_PATH}/podgroups": [listed(group("a", 4)), listed(group("b", 2))],
        f"{LABELLED_PATH}/podgroups?watch": [stream(gone), say_nothing],
    }

    async def scenario() -> None:
        async with caching(tmp_path, scripts, interval=60.0) as (_, sink, ends, __):
            await eventually(lambda: sink == {"default/b": GroupObject(2)})
            assert ends.all[:3] == [
                ("podgroups.scheduling.x-k8s.io", "list", "done"),
                ("podgroups.scheduling.x-k8s.io", "watch", "expired"),
                ("podgroups.scheduling.x-k8s.io", "list", "done"),
            ]

    asyncio.run(scenario())


def test_an_object_that_cannot_be_read_is_no_end(tmp_path: Path) -> None:
    broken = group("a", 4) | {"spec": {"minMember": "four"}}
    scripts: Scripts = {
        LABELLED_PATH: [THERE],
        f"{LABELLED_PATH}/podgroups": [listed(broken, group("b", 2))],
        f"{LABELLED_PATH}/podgroups?watch": [say_nothing],
    }
    problem = "the PodGroup cannot be read: Expected `int`, got `str` - at `$.spec.minMember`"

    async def scenario() -> None:
        async with caching(tmp_path, scripts, interval=60.0) as (_, sink, __, ___):
            await eventually(lambda: bool(sink))
            assert sink == {"default/a": GroupObject(problem=problem), "default/b": GroupObject(2)}

    asyncio.run(scenario())
