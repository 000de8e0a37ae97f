"""Assigning pods to nodes, as the cluster's mode allows."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Protocol

from extender.cluster.client.api import ApiRequest, ApiServer
from extender.cluster.client.backoff import pauses
from extender.cluster.client.errors import ClusterError, RefusedError
from extender.cluster.client.status import says_success
from extender.cluster.watch.pods import PodKey

logger = logging.getLogger(__name__)

BIND_TIMEOUT_S: Final = 4.0
"""Seconds: below the 5 that kube-scheduler waits for an extender by default."""
MAX_ATTEMPT_S: Final = 10.0
"""Seconds for one attempt, however long a bind may take: a connection may lead nowhere any more, as after the end of
an API server behind a load balancer, and other binds wait for their turn meanwhile."""
FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 0.5
"""Seconds before a bind is tried again."""

MEANINGS: Final[dict[HTTPStatus, str]] = {
    HTTPStatus.NOT_FOUND: "the pod is gone",
    HTTPStatus.CONFLICT: "the pod is not waiting for a node any more",
}
"""What the API server's codes say about a pod that was to be bound."""

UNKNOWN: Final = "; whether the pod is bound all the same is not known"

_ASSIGNED: Final = "is already assigned to node"


class BindError(Exception):
    """The pod was not bound, or nobody knows; the text is for the pod's events, by way of kube-scheduler."""

    def __init__(self, text: str, *, may_be_bound: bool = False) -> None:
        super().__init__(text)
        self.may_be_bound = may_be_bound
        """Whether nobody knows."""


class Binder(Protocol):
    """Binds pods to nodes."""

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str]) -> None:
        """Assign `pod` to `node`, and give it `annotations`; raises BindError."""


class NoBinder:
    """The binder of `cluster.mode: none`, which has no API server to ask."""

    async def bind(self, pod: PodKey, node: str, _: Mapping[str, str]) -> None:
        """Raises BindError, which says what to configure."""
        raise BindError(
            f"cannot bind pod {pod} to node {node}: bind needs an API server and cluster.mode is none; "
            "set cluster.mode to kubeconfig or in-cluster, or take bindVerb out of the scheduler's extender"
        )


class DryRunBinder:
    """The binder of `cluster.mode: dry-run`, which only logs."""

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str]) -> None:
        """Log what would be bound; always a success."""
        fields = {"pod": str(pod), "uid": pod.uid, "node": node}
        given = {"annotations": dict(annotations)} if annotations else {}
        logger.info("dry run: would bind the pod", extra={**fields, **given})


class ApiBinder:
    """Binds as kube-scheduler's default binder does, by a v1.Binding of the pod's UID.

    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/framework/plugins/defaultbinder/default_binder.go
    """

    def __init__(self, api: ApiServer, timeout: float = BIND_TIMEOUT_S) -> None:
        """A bind takes `timeout` seconds at most; an attempt half of it at most, and no more than `MAX_ATTEMPT_S`."""
        self._api = api
        self._timeout = timeout

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str]) -> None:
        """Assign `pod` to `node`, and give it `annotations`; raises BindError.

        Tried again while the server is away or overloaded, also after an answer was lost: a pod that turns
        out to be on `node` already is a success. The error says so if the pod may be bound in spite of it.
        """
        request = _binding_request(pod, node, annotations)
        deadline = time.monotonic() + self._timeout
        may_be_bound = False
        for pause in pauses(FIRST_PAUSE_S, MAX_PAUSE_S):
            try:
                seconds = min(self._timeout / 2, MAX_ATTEMPT_S, deadline - time.monotonic())
                await self._api.write(request, seconds, says_success)
                return
            except ClusterError as error:
                if _is_bound_already(error, node):
                    return
                may_be_bound = (may_be_bound or error.may_have_happened) and not _is_final(error)
                left = deadline - time.monotonic() - pause
                if not error.may_pass or left < self._timeout / 4:
                    cause = f"{_explain(error)}{UNKNOWN if may_be_bound else ''}"
                    told = f"cannot bind pod {pod} to node {node}: {cause}"
                    raise BindError(told, may_be_bound=may_be_bound) from error
            await asyncio.sleep(pause)


def _binding_request(pod: PodKey, node: str, annotations: Mapping[str, str]) -> ApiRequest:
    try:
        path = f"{pod.path}/binding"
    except ClusterError as error:
        raise BindError(f"cannot bind {error}") from error
    metadata = {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "annotations": dict(annotations),
    }
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: value for key, value in metadata.items() if value},
        "target": {"kind": "Node", "name": node},
    }
    return ApiRequest("create", "pods/binding", path, body=json.dumps(binding).encode())


def _is_bound_already(error: ClusterError, node: str) -> bool:
    """Whether the conflict is that the very pod, by its UID, is on `node`.

    Only the sentence tells, see setPodNodeAndMetadata in
    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/storage/storage.go;
    reading the pod would be one request more, of a server that may be overloaded.
    """
    return _is_assigned(error) and f'{_ASSIGNED} "{node}"' in str(error)


def _is_final(error: ClusterError) -> bool:
    """Whether the pod is surely not on the node, whatever became of earlier attempts: it is gone or elsewhere."""
    return _is_assigned(error) or (isinstance(error, RefusedError) and error.means(HTTPStatus.NOT_FOUND))


def _is_assigned(error: ClusterError) -> bool:
    return isinstance(error, RefusedError) and error.means(HTTPStatus.CONFLICT) and _ASSIGNED in error.message


def _explain(error: ClusterError) -> str:
    if isinstance(error, RefusedError):
        for code, meaning in MEANINGS.items():
            if error.means(code):
                return f"{meaning}: {error.message}"
    return str(error)
