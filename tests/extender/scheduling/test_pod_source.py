"""Where the pods come from that a request only names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from extender.cluster import ClusterError, PodKey
from extender.scheduling import pod_source
from extender.scheduling.node_source import NotSyncedError
from extender.scheduling.pod_source import PodNotKnownError, PodSource
from extender.scheduling.requests import PodRequest, RequestError
from extender.webhook.decoding import RequestDecoder
from tests.extender.objects import Object, meta_victims, names_args, pod, preemption_args, victims_args
from wasm_runtime.guests.guest import Pod
from wasm_runtime.protobuf import encode_pod

KEY = PodKey("default", "web-7", "uid-of-web-7")
UNKNOWN = (
    "pod default/web-7 is not known here: no filter request has shown it since the start, and there is no API server"
    " to ask; set cluster.mode to kubeconfig or in-cluster"
)


@dataclass
class Cache:
    """A cache of the cluster's pods, all at version 7, to be answered from or not."""

    pods: Mapping[str, bytes] = field(default_factory=dict)
    unusable: str | None = None
    begun: int = 0
    """How often it was asked to begin."""

    def follow(self) -> str | None:
        self.begun += 1
        return self.unusable

    def get(self, uid: str) -> bytes | None:
        return self.pods.get(uid)

    def find(self, uid: str, version: str) -> bytes | None:
        return self.pods.get(uid) if version == "7" else None


def shown(name: str, **more: Any) -> PodRequest:
    """A pod as a filter request shows it."""
    return RequestDecoder().decode_args(json.dumps(names_args([], pod(name, **more))).encode())[0]


def find(source: PodSource, key: PodKey = KEY) -> PodRequest:
    return asyncio.run(source.find(key))


def key(name: str) -> PodKey:
    return PodKey("default", name, f"uid-of-{name}")


# -- the pod of a bind -----------------------------------------------------------------------------


def test_a_pod_that_filter_has_shown_is_remembered_until_it_is_bound() -> None:
    source = PodSource(None, None)
    source.remember(shown("web-7", scheduler="gpu"))
    for _ in range(2):
        assert find(source) == shown("web-7", scheduler="gpu")
    source.forget("uid-of-web-7")
    source.forget("uid-of-web-7")
    with pytest.raises(PodNotKnownError):
        find(source)


def test_the_pod_is_the_one_that_was_shown_last() -> None:
    source = PodSource(None, None)
    source.remember(shown("web-7"))
    source.remember(shown("web-7", annotations={"is": "new"}))
    assert find(source) == shown("web-7", annotations={"is": "new"})


def test_a_pod_that_nobody_knows_is_an_error_that_says_what_to_configure() -> None:
    with pytest.raises(PodNotKnownError) as unknown:
        find(PodSource(None, None))
    assert str(unknown.value) == UNKNOWN


def test_a_pod_that_was_not_shown_is_read_from_the_api_server() -> None:
    asked = []

    async def read(wanted: PodKey) -> bytes:
        asked.append(wanted)
        return encode_pod(pod("web-7", scheduler="gpu"))

    source = PodSource(Cache(), read)
    content = encode_pod(pod("web-7", scheduler="gpu"))
    assert find(source) == PodRequest(Pod("uid-of-web-7", "default/web-7", content), "gpu")
    assert asked == [KEY]
    source.remember(shown("web-7"))
    assert find(source) == shown("web-7")
    assert asked == [KEY]


def test_what_hinders_the_reading_is_told() -> None:
    async def read(wanted: PodKey) -> bytes:
        raise ClusterError(f"get pods: no answer about {wanted}")

    with pytest.raises(ClusterError) as failed:
        find(PodSource(Cache(), read))
    assert str(failed.value) == "get pods: no answer about default/web-7"


def sized(name: str, size: int) -> PodRequest:
    """A pod that takes so many bytes in all."""
    return PodRequest(Pod(f"uid-of-{name}", f"default/{name}", bytes(size - pod_source.POD_OVERHEAD_BYTES)), "")


def test_the_pods_that_were_shown_longest_ago_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_source, "MAX_REMEMBERED_BYTES", 12_000)
    source = PodSource(None, None)
    for name, size in (("a", 5_000), ("b", 5_000), ("a", 2_000), ("c", 5_000), ("d", 7_000), ("d", 4_000)):
        source.remember(sized(name, size))
    with pytest.raises(PodNotKnownError):
        find(source, key("b"))
    with pytest.raises(PodNotKnownError):
        find(source, key("a"))
    for name, size in (("c", 5_000), ("d", 4_000)):
        assert find(source, key(name)) == sized(name, size)


def test_a_pod_that_is_bound_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_source, "MAX_REMEMBERED_BYTES", 12_000)
    source = PodSource(None, None)
    for name in "abcd":
        source.remember(sized(name, 6_000))
        if name != "a":
            source.forget(f"uid-of-{name}")
    assert find(source, key("a")) == sized("a", 6_000)


def test_a_pod_that_is_too_large_is_not_remembered() -> None:
    source = PodSource(None, None)
    content = b"x" * pod_source.MAX_REMEMBERED_POD_BYTES
    for name, size in (("largest", 0), ("larger", 1)):
        source.remember(PodRequest(Pod(f"uid-of-{name}", f"default/{name}", content + b"x" * size), ""))
    assert find(source, key("largest")).pod.object == content
    with pytest.raises(PodNotKnownError):
        find(source, key("larger"))


def test_a_pod_that_has_grown_too_large_is_not_taken_for_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_source, "MAX_REMEMBERED_POD_BYTES", 10_000)
    source = PodSource(None, None)
    for size in (5_000, 15_000):
        source.remember(sized("a", size))
    with pytest.raises(PodNotKnownError):
        find(source, key("a"))


# -- the pod of a request --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cache", "uid", "version", "found"),
    [
        (None, "uid-of-a", "7", None),
        (Cache({"uid-of-a": b"a"}), "uid-of-a", "7", b"a"),
        (Cache({"uid-of-a": b"a"}), "uid-of-a", "8", None),
        (Cache({"uid-of-a": b"a"}), "uid-of-b", "7", None),
    ],
)
def test_a_pod_of_the_cluster_is_known_at_its_version(
    cache: Cache | None, uid: str, version: str, found: bytes | None
) -> None:
    assert PodSource(cache, None).known(uid, version) == found


# -- victims of a preemption -----------------------------------------------------------------------


def victims(source: PodSource, request: Mapping[str, Any], node: str = "node-3") -> Sequence[bytes]:
    _, preemption = RequestDecoder().decode_preemption(json.dumps(request).encode())
    return source.victims(preemption, node)


BY_UID = preemption_args({"node-3": meta_victims("uid-of-a", "uid-of-b"), "node-4": meta_victims()})
A, B = encode_pod(pod("a")), encode_pod(pod("b"))


STALE = "the pods of the cluster may be outdated for longer than cluster.staleAfter, 30 s: no answer (for 40 s)"


@pytest.mark.parametrize("cache", [None, Cache(), Cache(unusable=STALE)])
def test_victims_that_came_whole_need_no_cluster(cache: Cache | None) -> None:
    whole = victims_args({"node-3": [pod("b"), pod("a")], "node-4": [], "node-5": [pod("c")]})
    source = PodSource(cache, None)
    assert victims(source, whole) == [B, A]
    assert victims(source, whole, "node-4") == []


def test_victims_by_uid_are_those_of_the_cluster() -> None:
    source = PodSource(Cache({"uid-of-a": A, "uid-of-b": B, "uid-of-c": b""}), None)
    assert victims(source, BY_UID) == [A, B]
    assert victims(source, BY_UID, "node-4") == []


def test_victims_of_a_stale_cache_are_used_where_that_is_configured() -> None:
    source = PodSource(Cache({"uid-of-a": A, "uid-of-b": B}, unusable=STALE), None, needs_sync=False)
    assert victims(source, BY_UID) == [A, B]


@pytest.mark.parametrize(
    ("cache", "error"),
    [
        (
            None,
            PodNotKnownError(
                "the victims on node node-3 came as UIDs and a plugin asks for the pods (addpod, removepod):"
                " set cluster.mode to kubeconfig or in-cluster, so that pods are read from the API server,"
                " or nodeCacheCapable: false in the KubeSchedulerConfiguration, so that requests carry them"
            ),
        ),
        (Cache({"uid-of-a": A, "uid-of-b": B}, unusable=STALE), NotSyncedError(STALE)),
        (
            Cache({"uid-of-a": A}),
            PodNotKnownError("the pod of UID uid-of-b, a victim on node node-3, is not in the cluster any more"),
        ),
    ],
)
def test_victims_that_are_not_known_are_an_error_that_says_why(cache: Cache | None, error: Exception) -> None:
    source = PodSource(cache, None)
    with pytest.raises(type(error)) as unknown:
        victims(source, BY_UID)
    assert str(unknown.value) == str(error)
    assert victims(source, BY_UID, "node-4") == []


def test_victims_may_be_asked_for_by_many_threads() -> None:
    names = [f"pod-{at}" for at in range(64)]
    by_uid = preemption_args({name: meta_victims(f"uid-of-{name}") for name in names})
    whole = victims_args({name: [pod(name)] for name in names})
    expected = [[encode_pod(pod(name))] for name in names]
    source = PodSource(Cache({f"uid-of-{name}": encode_pod(pod(name)) for name in names}), None)
    with ThreadPoolExecutor(8) as threads:
        for request in by_uid, whole:
            _, preemption = RequestDecoder().decode_preemption(json.dumps(request).encode())
            assert list(threads.map(partial(source.victims, preemption), names * 8)) == expected * 8


def test_a_victim_that_is_no_pod_is_the_callers_fault() -> None:
    broken: Object = {"metadata": {"uid": "u"}, "spec": 5}
    with pytest.raises(RequestError) as refused:
        victims(PodSource(None, None), victims_args({"node-3": [broken]}))
    assert str(refused.value) == "NodeNameToVictims: the pod of UID u: spec: expected an object, got 5"


class TestFollow:
    PROBLEM = "the pods of the cluster are not known yet"

    def test_plugins_that_want_pods_wait_for_them(self) -> None:
        cache = Cache(unusable=self.PROBLEM)
        with pytest.raises(NotSyncedError, match=f"^{self.PROBLEM}$"):
            PodSource(cache, None).require_synced()
        assert cache.begun == 1
        cache.unusable = None
        PodSource(cache, None).require_synced()

    def test_they_begin_without_where_that_is_wanted(self) -> None:
        cache = Cache(unusable=self.PROBLEM)
        source = PodSource(cache, None, needs_sync=False)
        source.require_synced()
        assert (source.follow(), cache.begun) == (None, 2)

    def test_there_are_none_without_a_cluster(self) -> None:
        source = PodSource(None, None)
        source.require_synced()
        assert source.follow() is None
