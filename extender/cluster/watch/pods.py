"""The cluster's pods: which one is meant, reading one, and all that run or wait."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

from extender.cluster.client.api import ApiRequest, ApiServer
from extender.cluster.client.envelope import decoding, unwrap
from extender.cluster.client.errors import ClusterError, PodGoneError, RefusedError
from extender.cluster.watch.reflector import WATCH_GRACE_S, WATCH_TIMEOUT_S, Count, Reflector, Resource
from wasm_runtime.protobuf.pod import node_name
from wasm_runtime.protobuf.read import Identity, identity

READ_TIMEOUT_S: Final = 1.0
"""Seconds: a read comes before a bind, and both have to end within what kube-scheduler waits."""

UNFINISHED: Final = Resource(
    "pods",
    "/api/v1/pods",
    {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"},
)
"""A pod that has finished uses nothing of a node any more, and is left out."""


class PodKey(NamedTuple):
    """Which pod is meant: a name can come again, with another UID."""

    namespace: str
    name: str
    uid: str
    """Empty: whichever pod has the name now."""

    def __str__(self) -> str:
        """How messages name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """Where the API server has it, percent-encoded. Raises ClusterError where nothing can be."""
        for name in self.namespace, self.name:
            # A path with one of these would be about something else.
            if name in {"", ".", ".."}:
                raise ClusterError(f"pod {str(self)!r}: {name!r} is no name")
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/pods/{quote(self.name, safe='')}"


async def read_pod(api: ApiServer, key: PodKey, timeout: float = READ_TIMEOUT_S) -> bytes:
    """A pod as bare v1.Pod protobuf, within `timeout` seconds. Raises ClusterError, PodGoneError among them."""
    try:
        answer = await api.call(ApiRequest("get", "pods", key.path), timeout)
    except RefusedError as error:
        if error.means(HTTPStatus.NOT_FOUND):
            raise PodGoneError(f"the pod is gone: {error.message}") from error
        raise
    with decoding("a pod"):
        pod = unwrap(answer)
        uid = identity(pod).uid
    if key.uid not in {"", uid}:
        raise PodGoneError(f"the pod is gone, another has its name: its UID is {uid}, not {key.uid}")
    return pod


class VersionedPod(NamedTuple):
    """A pod as it was at a resourceVersion."""

    version: str
    content: bytes
    """Bare v1.Pod protobuf."""
    node: str
    """The node that it is on; empty if it is on none."""


class Follower(Protocol):
    """Who is told of each change of the pods, by UID."""

    def replace(self, pods: Mapping[str, tuple[str, bytes]], /) -> None:
        """These are all there are, each its node and its content."""

    def observe(self, uid: str, node: str, pod: bytes, /) -> None:
        """A pod is new or has changed."""

    def delete(self, uid: str, /) -> None:
        """A pod has ended, known or not."""


class PodCache(Reflector[VersionedPod]):
    """The pods of the cluster that have not finished, by UID.

    What was read stays while the API server is away. It takes the memory that those pods take in protobuf.
    `get`, `find` and the properties may be asked for from any thread.
    """

    def __init__(
        self,
        api: ApiServer,
        count: Count,
        follower: Follower | None = None,
        *,
        stale_after: float = math.inf,
        lifetime: int = WATCH_TIMEOUT_S,
        grace: float = WATCH_GRACE_S,
    ) -> None:
        """All but `follower` as for a Reflector."""
        self._pods = _Pods(follower)
        super().__init__(
            api,
            UNFINISHED,
            self._pods,
            self._pods.entry,
            count,
            stale_after=stale_after,
            lifetime=lifetime,
            grace=grace,
        )

    @property
    def size(self) -> int:
        """The number of pods."""
        return len(self._pods.by_uid)

    def get(self, uid: str) -> bytes | None:
        """A pod as bare v1.Pod protobuf; None if none of that UID is known."""
        pod = self._pods.by_uid.get(uid)
        return pod and pod.content

    def find(self, uid: str, version: str) -> bytes | None:
        """The same at a resourceVersion; None if another one is known."""
        pod = self._pods.by_uid.get(uid)
        return pod.content if pod and pod.version == version else None


class _Pods:
    def __init__(self, follower: Follower | None) -> None:
        self.by_uid: dict[str, VersionedPod] = {}
        self._follower = follower

    def entry(self, pod: Identity, content: bytes) -> tuple[str, VersionedPod]:
        """What is kept of a pod: what is kept already, if it has not changed, so that a list doubles nothing."""
        known = self.by_uid.get(pod.uid)
        if known and known.version == pod.resource_version:
            return pod.uid, known
        return pod.uid, VersionedPod(pod.resource_version, content, node_name(content))

    def replace(self, pods: Mapping[str, VersionedPod]) -> None:
        self.by_uid = dict(pods)
        if self._follower:
            self._follower.replace({uid: (pod.node, pod.content) for uid, pod in pods.items()})

    def put(self, pods: Iterable[tuple[str, VersionedPod]]) -> None:
        for uid, pod in pods:
            self.by_uid[uid] = pod
            if self._follower:
                self._follower.observe(uid, pod.node, pod.content)

    def remove(self, uid: str) -> None:
        self.by_uid.pop(uid, None)
        if self._follower:
            self._follower.delete(uid)
