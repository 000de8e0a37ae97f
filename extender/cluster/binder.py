"""Assigning pods to nodes, as the cluster's mode allows."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from http import HTTPStatus
from typing import NamedTuple, Protocol
from urllib.parse import quote

from .api import ApiRequest, ApiServer
from .backoff import pauses
from .errors import ClusterError, RefusedError, UnreachableError, UntrustedError

logger = logging.getLogger(__name__)

TIMEOUT_S = 4.0
"""Below the 5 s that kube-scheduler waits for an extender by default."""
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.5

MEANINGS: dict[int, str] = {
    HTTPStatus.NOT_FOUND: "the pod is gone",
    HTTPStatus.CONFLICT: "the pod is not waiting for a node any more",
}
"""What the API server's codes say about a pod that was to be bound."""


class PodKey(NamedTuple):
    """Which pod is meant: a name can come again, with another UID."""

    namespace: str
    name: str
    uid: str
    """Empty: whichever pod has the name now."""

    def __str__(self) -> str:
        """How messages name it."""
        return f"{self.namespace}/{self.name}"


class BindError(Exception):
    """The pod was not bound, or nobody knows; the text is for the pod's events, by way of kube-scheduler."""


class Binder(Protocol):
    """Binds pods to nodes."""

    async def bind(self, pod: PodKey, node: str) -> None:
        """Assign `pod` to `node`; raises BindError."""


class NoBinder:
    """The binder of `cluster.mode: none`, which has no API server to ask."""

    async def bind(self, pod: PodKey, node: str) -> None:
        """Raises BindError, which says what to configure."""
        raise BindError(
            f"cannot bind pod {pod} to node {node}: bind needs an API server and cluster.mode is none; "
            "set cluster.mode to kubeconfig or in-cluster, or take bindVerb out of the scheduler's extender"
        )


class DryRunBinder:
    """The binder of `cluster.mode: dry-run`, which only logs."""

    async def bind(self, pod: PodKey, node: str) -> None:
        """Log what would be bound; always a success."""
        logger.info("dry run: would bind the pod", extra={"pod": str(pod), "uid": pod.uid, "node": node})


class ApiBinder:
    """Binds as kube-scheduler's default binder does, by a v1.Binding of the pod's UID.

    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/framework/plugins/defaultbinder/default_binder.go
    """

    def __init__(self, api: ApiServer, timeout_s: float = TIMEOUT_S) -> None:
        """A bind takes `timeout_s` seconds at most; half of it, if it comes to that, for each of two attempts."""
        self._api = api
        self._timeout_s = timeout_s

    async def bind(self, pod: PodKey, node: str) -> None:
        """Assign `pod` to `node`; raises BindError.

        Tried again while the server is away or overloaded, also after an answer was lost: a pod that turns
        out to be on `node` already is a success.
        """
        request = _binding_request(pod, node)
        deadline = time.monotonic() + self._timeout_s
        for pause in pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S):
            try:
                await self._api.call(request, min(self._timeout_s / 2, deadline - time.monotonic()))
                return
            except ClusterError as error:
                if _is_bound_already(error, node):
                    return
                left = deadline - time.monotonic() - pause
                if not _may_pass(error) or left < self._timeout_s / 4:
                    raise BindError(f"cannot bind pod {pod} to node {node}: {_explain(error)}") from error
            await asyncio.sleep(pause)


def _binding_request(pod: PodKey, node: str) -> ApiRequest:
    for name in pod.namespace, pod.name:
        # A path with one of these would be about something else.
        if name in {"", ".", ".."}:
            raise BindError(f"cannot bind pod {str(pod)!r}: {name!r} is no name")
    metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: value for key, value in metadata.items() if value},
        "target": {"kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/binding"
    return ApiRequest("create", "pods/binding", path, body=json.dumps(binding).encode())


def _is_bound_already(error: ClusterError, node: str) -> bool:
    """Whether the conflict is that the very pod, by its UID, is on `node`.

    Only the sentence tells, see setPodNodeAndMetadata in
    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/storage/storage.go;
    reading the pod would need the right to read every pod of the cluster.
    """
    is_conflict = isinstance(error, RefusedError) and error.code == HTTPStatus.CONFLICT
    return is_conflict and f'is already assigned to node "{node}"' in str(error)


def _may_pass(error: ClusterError) -> bool:
    if isinstance(error, RefusedError):
        return error.may_pass
    return isinstance(error, UnreachableError) and not isinstance(error, UntrustedError)


def _explain(error: ClusterError) -> str:
    if isinstance(error, RefusedError) and error.code in MEANINGS:
        return f"{MEANINGS[error.code]}: {error.message}"
    return str(error)
