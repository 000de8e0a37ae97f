"""The cluster's pods: which one is meant, reading one, and all that run or wait."""

from __future__ import annotations

from http import HTTPStatus
from operator import attrgetter
from typing import Final, NamedTuple
from urllib.parse import quote

from extender.cluster.api import ApiRequest, ApiServer
from extender.cluster.envelope import decoding, unwrap
from extender.cluster.errors import ClusterError, PodGoneError, RefusedError
from extender.cluster.reflector import Objects, Reflector, Resource
from wasm_runtime.protobuf.read import identity

TIMEOUT: Final = 1.0
"""Seconds: a read comes before a bind, and both have to end within what kube-scheduler waits."""

UNFINISHED: Final = Resource(
    "pods",
    "/api/v1/pods",
    attrgetter("uid"),
    {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"},
)
"""Pods by UID. One that has finished uses nothing of a node any more, and is left out."""


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


async def read_pod(api: ApiServer, key: PodKey, timeout: float = TIMEOUT) -> bytes:
    """A pod as bare v1.Pod protobuf, within `timeout` seconds. Raises ClusterError, PodGoneError among them."""
    try:
        answer = await api.call(ApiRequest("get", "pods", key.path), timeout)
    except RefusedError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            raise PodGoneError(f"the pod is gone: {error.message}") from error
        raise
    with decoding("a pod"):
        pod = unwrap(answer)
        uid = identity(pod).uid
    if key.uid not in {"", uid}:
        raise PodGoneError(f"the pod is gone, another has its name: its UID is {uid}, not {key.uid}")
    return pod


class PodCache(Reflector):
    """The pods of the cluster that have not finished, by UID.

    What was read stays while the API server is away. It takes the memory that those pods take in protobuf.
    `get` and the properties may be called from any thread.
    """

    def __init__(self, api: ApiServer) -> None:
        self._pods = Objects()
        super().__init__(api, UNFINISHED, self._pods)

    def get(self, uid: str) -> bytes | None:
        """A pod as bare v1.Pod protobuf; None if none of that UID is known."""
        return self._pods.get(uid)
