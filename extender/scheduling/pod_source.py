"""Where the pods come from that a request only names: those of earlier requests, the cluster's, the API server."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from extender.cluster import PodKey
from extender.scheduling.node_source import NotSyncedError
from extender.scheduling.requests import PodRequest, Preemption, encode_victim
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.guests.guest import Pod
from wasm_runtime.protobuf import scheduler_name

MAX_REMEMBERED_BYTES: Final = 64 * MEBIBYTE
"""What pods of filter requests may take that are kept for their bind."""
MAX_REMEMBERED_POD_BYTES: Final = 2 * MEBIBYTE
"""Bytes of such a pod. etcd takes 1.5 MiB (`--max-request-bytes`): a larger one is none, and would push others out."""
POD_OVERHEAD_BYTES: Final = 1024
"""What a pod takes beside its object: names, and its place in a dictionary."""

Reader = Callable[[PodKey], Awaitable[bytes]]
"""Reads a pod, a protobuf v1.Pod. Raises ClusterError."""


class PodNotKnownError(Exception):
    """The object of a pod is needed and not to be had. `str()` says what to configure."""


class PodLister(Protocol):
    """Looks pods of the cluster up in a cache."""

    @property
    def unusable(self) -> str | None:
        """Why nothing may be answered from it; None while something may."""

    def follow(self) -> str | None:
        """Begins to keep the pods, if that has not begun. Why nothing may be answered from them, if that is so."""

    def get(self, uid: str) -> bytes | None:
        """A pod, a protobuf v1.Pod."""

    def find(self, uid: str, version: str) -> bytes | None:
        """The pod at a resourceVersion; None if pods are not kept, or the pod has another version."""


class GroupLister(Protocol):
    """Keeps the groups of the cluster's pods."""

    def follow(self) -> str | None:
        """Begins to keep them, if that has not begun. Why nothing may be answered from them, if that is so."""


class PodSource:
    """Finds pods. For the serving thread only, but for `victims` and `follow`."""

    def __init__(
        self,
        cache: PodLister | None,
        read: Reader | None,
        groups: GroupLister | None = None,
        *,
        needs_sync: bool = True,
    ) -> None:
        """With `cluster.mode: none` and `dry-run` there is neither a cache nor a reader, and there are no groups.

        Without `needs_sync`, what is in the cache is used even while it is not to be answered from.
        """
        self._cache = cache
        self._groups = groups
        self._needs_sync = needs_sync
        self._read = read
        self._remembered: OrderedDict[str, PodRequest] = OrderedDict()
        self._bytes = 0

    def remember(self, request: PodRequest) -> None:
        """Keeps the pod of a request until it is bound, or newer ones push it out."""
        self.forget(request.pod.uid)
        if len(request.pod.object) > MAX_REMEMBERED_POD_BYTES:
            return
        self._remembered[request.pod.uid] = request
        self._bytes += _size(request)
        while self._bytes > MAX_REMEMBERED_BYTES:
            self._bytes -= _size(self._remembered.popitem(last=False)[1])

    def known(self, uid: str, version: str) -> bytes | None:
        """The cluster's pod at a resourceVersion, if it is kept: it spares converting that of a request."""
        return None if self._cache is None else self._cache.find(uid, version)

    def forget(self, uid: str) -> None:
        """Drops a pod that is bound."""
        if request := self._remembered.pop(uid, None):
            self._bytes -= _size(request)

    def follow(self, groups: bool = False) -> str | None:
        """Begins to keep the cluster's pods, if there is one and that has not begun; with `groups` their groups, too.

        Why plugins that want to know them have to wait, if that is so. May be asked from any thread.
        """
        problem = self._cache.follow() if self._cache else None
        if groups and self._groups:
            problem = self._groups.follow() or problem
        return problem if self._needs_sync else None

    def require_synced(self, *, groups: bool = False) -> None:
        """Raises NotSyncedError if plugins that want to know pods, or groups, have to wait for them."""
        if problem := self.follow(groups):
            raise NotSyncedError(problem)

    async def find(self, key: PodKey) -> PodRequest:
        """The pod of a bind request. Raises PodNotKnownError or ClusterError."""
        known = self._remembered.get(key.uid)
        if known is not None:
            return known
        if self._read is None:
            raise PodNotKnownError(
                f"pod {key} is not known here: no filter request has shown it since the start, and there is no"
                " API server to ask; set cluster.mode to kubeconfig or in-cluster"
            )
        found = await self._read(key)
        return PodRequest(Pod(key.uid, str(key), found), scheduler_name(found))

    def victims(self, preemption: Preemption, node: str) -> Sequence[bytes]:
        """The pods that would be evicted from a node, each a protobuf v1.Pod. May be asked from any thread.

        Raises NotSyncedError, PodNotKnownError or RequestError.
        """
        uids = preemption.uids(node)
        if preemption.objects is not None:
            return [encode_victim(uid, preemption.objects[uid]) for uid in uids]
        return [self._victim(uid, node) for uid in uids]

    def _victim(self, uid: str, node: str) -> bytes:
        if self._cache is None:
            raise PodNotKnownError(
                f"the victims on node {node} came as UIDs and a plugin asks for the pods (addpod, removepod):"
                " set cluster.mode to kubeconfig or in-cluster, so that pods are read from the API server,"
                " or nodeCacheCapable: false in the KubeSchedulerConfiguration, so that requests carry them"
            )
        pod = self._cache.get(uid)
        problem = self._cache.unusable
        if problem and (self._needs_sync or pod is None):
            raise NotSyncedError(problem)
        if pod is None:
            raise PodNotKnownError(f"the pod of UID {uid}, a victim on node {node}, is not in the cluster any more")
        return pod


def _size(request: PodRequest) -> int:
    return len(request.pod.object) + POD_OVERHEAD_BYTES
