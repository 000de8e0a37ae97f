"""A resource of the API server, kept current by list and watch."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

from extender.cluster.api import PROTOBUF, ApiRequest, ApiServer
from extender.cluster.backoff import pauses
from extender.cluster.errors import ClusterError, ProtocolError, RefusedError, UnreachableError
from extender.cluster.frames import FrameDecoder
from extender.cluster.messages import EventType, WatchEvent, decode_event, decode_list
from extender.cluster.status import decode_status
from wasm_runtime.protobuf.read import Identity

logger = logging.getLogger(__name__)

WATCH_STREAM: Final = f"{PROTOBUF};stream=watch"
PAGE_SIZE: Final = 500
"""Objects in one answer of a list, so that a large cluster's list keeps neither side busy for long."""
LIST_TIMEOUT: Final = 60.0
"""Seconds for one page of a list."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds before a failed list or watch is tried again."""
LIFETIME: Final = 60
GRACE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Resource:
    """What is kept current."""

    name: str
    """As in a role, and in messages: `nodes`."""
    path: str
    """Of the objects of all namespaces, from the API server's root."""
    key: Callable[[Identity], str]
    """What an object is known by: of a resource with namespaces, the UID."""
    query: Mapping[str, str] = field(default_factory=dict)
    """What narrows a list and a watch to the objects that count."""


class Sink(Protocol):
    """Where objects go, each a key and bare protobuf."""

    def replace(self, objects: Mapping[str, bytes], /) -> None:
        """These are all there are."""

    def put(self, objects: Iterable[tuple[str, bytes]], /) -> None:
        """Adds or replaces objects."""

    def remove(self, key: str, /) -> None:
        """Forgets an object, known or not."""


class Objects:
    """A sink that only keeps. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """The object of a key; None if there is none."""
        return self._objects.get(key)

    def replace(self, objects: Mapping[str, bytes]) -> None:
        """Makes `objects` all that is kept."""
        self._objects = dict(objects)

    def put(self, objects: Iterable[tuple[str, bytes]]) -> None:
        """Adds or replaces objects."""
        self._objects.update(objects)

    def remove(self, key: str) -> None:
        """Forgets an object, known or not."""
        self._objects.pop(key, None)


class Reflector:
    """Lists the objects of a resource, then watches them, and tells a sink of each change.

    The sink keeps what it has while the API server is away. The properties may be read from any thread.
    """

    def __init__(
        self, api: ApiServer, resource: Resource, sink: Sink, *, lifetime: int = LIFETIME, grace: float = GRACE
    ) -> None:
        """Each watch is asked to end after `lifetime` seconds; one silent for `grace` longer is dead.

        So a server that vanished without a word is noticed after the sum of both at the latest.
        """
        self._api = api
        self._resource = resource
        self._sink = sink
        self._lifetime = lifetime
        self._silence = lifetime + grace
        self._version = ""
        self._pauses = pauses(FIRST_PAUSE, LONGEST_PAUSE)
        self._synced = False
        self._problem: tuple[str, float] | None = None

    @property
    def synced(self) -> bool:
        """Whether all objects have been read at least once."""
        return self._synced

    @property
    def problem(self) -> str | None:
        """What keeps the sink from being current, and for how long; None while it is."""
        problem = self._problem
        if problem is None:
            return None
        message, since = problem
        return f"{message} (for {time.monotonic() - since:.0f} s)"

    async def run(self) -> None:
        """Keep the sink current until cancelled; tell failures by `problem` and log, and try again."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ClusterError as error:
                self._note(error)
            except Exception as error:  # A cache that ended would go on looking current.
                logger.exception("the cache of %s met a fault of its own and begins anew", self._resource.name)
                self._version = ""
                self._note(ClusterError(f"internal error: {error!r}"))
            await asyncio.sleep(next(self._pauses))

    async def _list(self) -> None:
        objects: dict[str, bytes] = {}
        query = {**self._resource.query, "limit": str(PAGE_SIZE)}
        while True:
            request = ApiRequest("list", self._resource.name, self._resource.path, query)
            page = decode_list(await self._api.call(request, LIST_TIMEOUT))
            objects.update((self._resource.key(found), content) for found, content in page.objects)
            if not page.continuation:
                break
            query["continue"] = page.continuation
        self._sink.replace(objects)
        self._version = page.version
        self._synced = True
        fields = {"objects": len(objects), "resource_version": page.version}
        logger.info("listed the %s", self._resource.name, extra=fields)

    async def _watch(self) -> None:
        """Follow the changes after `_version` until the server ends the watch."""
        query = {
            **self._resource.query,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._lifetime),
        }
        request = ApiRequest("watch", self._resource.name, self._resource.path, query, accept=WATCH_STREAM)
        async with self._api.stream(request, self._silence) as chunks:
            opened = time.monotonic()
            self._clear()
            try:
                await self._follow(chunks)
            finally:
                # A server that ends each watch at once is one to be left alone for a while.
                if time.monotonic() - opened >= LONGEST_PAUSE:
                    self._pauses = pauses(FIRST_PAUSE, LONGEST_PAUSE)

    async def _follow(self, chunks: AsyncIterator[bytes]) -> None:
        decoder = FrameDecoder()
        async for chunk in chunks:
            for frame in decoder.feed(chunk):
                self._apply(decode_event(frame))
        if not decoder.is_between_frames:
            raise UnreachableError(f"watch {self._resource.name}: the answer ended in the middle of an event")

    def _apply(self, event: WatchEvent) -> None:
        if event.type is EventType.ERROR:
            status = decode_status(event.object)
            self._version = ""
            raise RefusedError(
                f"watch {self._resource.name}: {self._api.address} ended the watch with {status.code}: "
                f"{status.message}",
                status.code,
                status.message,
            )
        if event.type is EventType.DELETED:
            self._sink.remove(self._resource.key(event.identity))
        elif event.type is not EventType.BOOKMARK:
            self._sink.put([(self._resource.key(event.identity), event.object)])
        self._version = event.identity.resource_version

    def _note(self, error: ClusterError) -> None:
        """Remember what is wrong, and log it once; list again where the watch cannot be resumed."""
        message = str(error)
        if isinstance(error, ProtocolError):
            message = f"{self._api.address} does not speak as an API server: {message}"
            self._version = ""
        elif isinstance(error, RefusedError) and error.code == HTTPStatus.GONE:
            self._version = ""
        earlier, since = self._problem or ("", time.monotonic())
        self._problem = (message, since)
        if message != earlier:
            logger.warning("the %s are not current", self._resource.name, extra={"error": message})

    def _clear(self) -> None:
        if self._problem is not None:
            logger.info("the %s are current again", self._resource.name, extra={"problem": self._problem[0]})
        self._problem = None
