"""Reads the facts that checks need from an API server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from extender.cluster.client.api import JSON, ApiRequest, ApiServer
from extender.cluster.client.errors import ProtocolError, RefusedError
from extender.cluster.waker import NAME
from extender.cluster.watch.group_objects import GROUP_APIS
from extender.commands.doctor.objects import (
    ConfigMap,
    Deployment,
    Event,
    NamedService,
    Pod,
    Service,
    Version,
    Workload,
    workloads,
)
from extender.commands.doctor.rights import Right
from wasm_runtime.engine import MEBIBYTE

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
"""Seconds for one request."""
MAX_BYTES: Final = 64 * MEBIBYTE
"""Bytes of one answer."""
MAX_OBJECTS: Final = 500
"""Objects of one answer to a list."""
MAX_PAGES: Final = 20
"""Answers of one list, each with MAX_OBJECTS."""
SETTLED: Final = timedelta(seconds=30)
"""Age from which a pod without a node counts as waiting: a younger one may not have been tried yet."""
SYSTEM: Final = "kube-system"

_SERVICE_NAME: Final = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\..*)?")


class _ListMetadata(Struct, rename="camel"):
    remaining_item_count: int = 0
    continue_: str = field(default="", name="continue")


class _List(Struct, Generic[T]):
    items: list[T] = []
    metadata: _ListMetadata = field(default_factory=_ListMetadata)


class _Version(Struct):
    major: str
    minor: str


class _Resource(Struct):
    name: str = ""


class _Resources(Struct):
    resources: list[_Resource] = []


class _ReviewStatus(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _ReviewStatus


class Cluster:
    """An API server. Each call raises ClusterError."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def aclose(self) -> None:
        """Closes the connections to the API server."""
        await self._api.aclose()

    async def version(self) -> Version:
        """The minor of the API server."""
        found = await self._get("version", "/version", _Version)
        return Version(int(found.major), int(re.sub(r"\D.*", "", found.minor)))

    async def workloads(self, namespaces: Iterable[str]) -> list[Workload]:
        """The workloads that run a kube-scheduler or an extender, in the order of the namespaces."""
        found: list[Workload] = []
        for namespace in namespaces:
            path = quote(namespace, safe="")
            deployments = await self._list(
                "deployments.apps", f"/apis/apps/v1/namespaces/{path}/deployments", Deployment
            )
            pods = await self._list("pods", f"/api/v1/namespaces/{path}/pods", Pod)
            found += workloads(deployments, pods)
        return found

    async def pods(self, namespace: str | None, selector: str) -> list[Pod]:
        """The pods that a label selector matches, in a namespace or in all."""
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return await self._list("pods", f"/api/v1{within}/pods", Pod, labelSelector=selector)

    async def config_map(self, namespace: str, name: str) -> ConfigMap:
        """The ConfigMap with a name."""
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(name, safe='')}"
        return await self._get("configmaps", path, ConfigMap)

    async def service(self, host: str) -> NamedService:
        """The Service that a URL's host names; with an empty name if the host is no name of a Service."""
        named = _SERVICE_NAME.fullmatch(host)
        if not named:
            return NamedService("", None)
        name, namespace = named[1], named[2]
        path = f"/api/v1/namespaces/{namespace}/services/{name}"
        return NamedService(f"{namespace}/{name}", await self._find("services", path, Service))

    async def has_wake_object(self, namespace: str) -> bool:
        """Whether the CSIStorageCapacity exists that the extender writes to, so that kube-scheduler retries pods."""
        path = f"/apis/storage.k8s.io/v1/namespaces/{quote(namespace, safe='')}/csistoragecapacities/{NAME}"
        return await self._find("csistoragecapacities.storage.k8s.io", path, dict) is not None

    async def group_apis(self) -> frozenset[str]:
        """The API groups that have PodGroups of a version that the extender reads."""
        found = set()
        for api in GROUP_APIS:
            for version in api.versions:
                answer = await self._find("podgroups", f"/apis/{api.group}/{version}", _Resources)
                if answer and any(resource.name == "podgroups" for resource in answer.resources):
                    found.add(api.group)
        return frozenset(found)

    async def nodes(self) -> int:
        """The number of nodes."""
        found = await self._page("nodes", "/api/v1/nodes", dict, limit="1")
        return len(found.items) + found.metadata.remaining_item_count

    async def unscheduled(self) -> list[Pod]:
        """Pods that have waited for a node for longer than SETTLED; at most MAX_OBJECTS are read."""
        selector = "spec.nodeName=,status.phase=Pending"
        found = await self._page("pods", "/api/v1/pods", Pod, limit=str(MAX_OBJECTS), fieldSelector=selector)
        until = datetime.now(timezone.utc) - SETTLED
        return [
            pod
            for pod in found.items
            if not pod.spec.scheduling_gates
            and pod.metadata.creation_timestamp
            and pod.metadata.creation_timestamp < until
        ]

    async def scheduled(self) -> list[Event]:
        """Events about pods that were scheduled, at most MAX_OBJECTS."""
        path, limit = "/apis/events.k8s.io/v1/events", str(MAX_OBJECTS)
        return (
            await self._page("events.events.k8s.io", path, Event, limit=limit, fieldSelector="reason=Scheduled")
        ).items

    async def lacks(self, rights: Iterable[Right], account: tuple[str, str] | None) -> list[Right]:
        """The rights that a ServiceAccount, given by namespace and name, lacks; with None, the client's own user."""
        return [right for right in rights if not await self._may(right, account)]

    async def _may(self, right: Right, account: tuple[str, str] | None) -> bool:
        kind = "subjectaccessreviews" if account else "selfsubjectaccessreviews"
        attributes = right._asdict()
        spec: dict[str, Any] = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
        if account:
            namespace, name = account
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
            spec |= {"user": f"system:serviceaccount:{namespace}:{name}", "groups": groups}
        body = json.dumps({"spec": spec}).encode()
        resource = f"{kind}.authorization.k8s.io"
        request = ApiRequest("create", resource, f"/apis/authorization.k8s.io/v1/{kind}", body=body, accept=JSON)
        return _decode(request, await self._api.call(request, TIMEOUT_S), _Review).status.allowed

    async def _find(self, resource: str, path: str, kind: type[T]) -> T | None:
        """The object at a path; None if there is none."""
        try:
            return await self._get(resource, path, kind)
        except RefusedError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def _get(self, resource: str, path: str, kind: type[T]) -> T:
        request = ApiRequest("get", resource, path, accept=JSON)
        return _decode(request, await self._api.call(request, TIMEOUT_S), kind)

    async def _list(self, resource: str, path: str, kind: type[T], **query: str) -> list[T]:
        found: list[T] = []
        query["limit"] = str(MAX_OBJECTS)
        for _ in range(MAX_PAGES):
            page = await self._page(resource, path, kind, **query)
            found += page.items
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        return found

    async def _page(self, resource: str, path: str, kind: type[T], **query: str) -> _List[T]:
        request = ApiRequest("list", resource, path, query, accept=JSON)
        return _decode(request, await self._api.call(request, TIMEOUT_S, MAX_BYTES), _List[kind])  # type: ignore[valid-type]


def _decode(request: ApiRequest, body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"{request}: the answer is none of an API server's: {error}") from error
