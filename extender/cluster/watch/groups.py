"""The cluster's PodGroups, kept current for as long as the API server has such a kind."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from extender.cluster.client.api import JSON, ApiRequest, ApiServer
from extender.cluster.client.backoff import pauses
from extender.cluster.client.errors import ClusterError, ProtocolError, RefusedError
from extender.cluster.watch.group_objects import GroupApi, GroupObject
from extender.cluster.watch.reflector import (
    BEING_READ,
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    WATCH_GRACE_S,
    WATCH_TIMEOUT_S,
    Count,
    Reflector,
    Resource,
    Sink,
)
from extender.cluster.watch.wire import JSON_WIRE
from wasm_runtime.protobuf.read import Identity

logger = logging.getLogger(__name__)

DISCOVERY_INTERVAL_S: Final = 30.0
"""Seconds between two looks whether the API server has the kind: a custom resource may be defined at any time."""
DISCOVERY_TIMEOUT_S: Final = 10.0
"""Seconds for one answer."""
PODGROUPS: Final = "podgroups"


class _ApiResource(Struct):
    name: str = ""


class _ApiResourceList(Struct):
    resources: list[_ApiResource] | None = None


_RESOURCES: Final = msgspec.json.Decoder(_ApiResourceList)


async def discover(api: ApiServer, kind: GroupApi) -> Resource | None:
    """The PodGroups of an API as the API server has them; None if it has none. Raises ClusterError.

    https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
    """
    for version in kind.versions:
        path = f"/apis/{kind.group}/{version}"
        request = ApiRequest("get", f"{kind.group}/{version}", path, accept=JSON)
        try:
            answer = await api.call(request, DISCOVERY_TIMEOUT_S)
        except RefusedError as error:
            if error.code == HTTPStatus.NOT_FOUND:  # By a line of text: there is no Status for what is not there.
                continue
            raise
        if PODGROUPS in _names(answer, request):
            return Resource(f"{PODGROUPS}.{kind.group}", f"{path}/{PODGROUPS}", wire=JSON_WIRE)
    return None


def _names(answer: bytes, request: ApiRequest) -> set[str]:
    try:
        return {resource.name for resource in _RESOURCES.decode(answer).resources or ()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"{request}: no list of resources: {error}") from error


class GroupCache:
    """The PodGroups of one API. What was read stays while the API server is away, and goes when the API goes.

    The properties may be read from any thread.
    """

    def __init__(
        self,
        api: ApiServer,
        kind: GroupApi,
        sink: Sink[GroupObject],
        count: Count,
        *,
        stale_after: float = math.inf,
        interval: float = DISCOVERY_INTERVAL_S,
        lifetime: int = WATCH_TIMEOUT_S,
        grace: float = WATCH_GRACE_S,
    ) -> None:
        """`sink` gets the objects by `namespace/name`. The API is looked for every `interval` seconds.

        The rest as for a Reflector.
        """
        self._api = api
        self._kind = kind
        self._sink = sink
        self._count = count
        self._stale_after = stale_after
        self._interval = interval
        self._lifetime = lifetime
        self._grace = grace
        self._resource: Resource | None = None
        self._reflector: Reflector[GroupObject] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._begun = time.monotonic()
        self._problem: str | None = BEING_READ
        """What keeps it from being known whether there is such an API."""
        self._is_discovered = False

    @property
    def unusable(self) -> str | None:
        """Why nothing may be answered from the objects, if that is so."""
        if not self._is_discovered:
            return f"the {PODGROUPS}.{self._kind.group} of the cluster are not known yet: {self._problem}"
        return self._reflector.unusable if self._reflector else None

    @property
    def problem(self) -> str | None:
        """What keeps the objects from being current; None while they are, or there are none."""
        return self._problem or (self._reflector.problem if self._reflector else None)

    @property
    def outdated(self) -> float:
        """For how many seconds changes may have been missed."""
        if not self._is_discovered:
            return time.monotonic() - self._begun
        return self._reflector.outdated if self._reflector else 0.0

    async def run(self) -> None:
        """Keeps the sink current until cancelled; tells failures by `problem` and log, and tries again."""
        failures = pauses(FIRST_PAUSE_S, MAX_PAUSE_S)
        try:
            while True:
                if await self._look():
                    failures = pauses(FIRST_PAUSE_S, MAX_PAUSE_S)
                    await asyncio.sleep(self._interval)
                else:
                    await asyncio.sleep(next(failures))
                if self._watching and self._watching.done():
                    self._watching.result()
        finally:
            await self._stop()

    async def _look(self) -> bool:
        """Looks whether the API server has the API, and watches what it has. Returns whether that is known now."""
        try:
            found = await discover(self._api, self._kind)
        except ClusterError as error:
            if str(error) != self._problem:
                logger.warning("it is not known which groups of pods there are", extra={"error": str(error)})
            self._problem = str(error)
            return False
        self._problem = None
        if found != self._resource or not self._is_discovered:
            await self._watch(found)
            self._is_discovered = True
        return True

    async def _watch(self, resource: Resource | None) -> None:
        """Watches a resource in the place of the one before; without one there are no objects."""
        await self._stop()
        if resource is None:
            self._sink.replace({})
            return
        fields = {"resource": resource.name, "path": resource.path}
        logger.info("groups of pods are watched", extra=fields)
        self._reflector = Reflector(
            self._api,
            resource,
            self._sink,
            self._entry,
            self._count,
            stale_after=self._stale_after,
            lifetime=self._lifetime,
            grace=self._grace,
        )
        self._resource = resource
        self._watching = asyncio.get_running_loop().create_task(self._reflector.run(), name=resource.name)

    async def _stop(self) -> None:
        watching, self._watching = self._watching, None
        self._resource = self._reflector = None
        if watching:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _entry(self, found: Identity, content: bytes) -> tuple[str, GroupObject]:
        return f"{found.namespace}/{found.name}", self._kind.decode(content)
