"""A resource of the API server, kept current by list and watch."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import starmap
from typing import Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import anyio

from extender.cluster.client.api import ApiRequest, ApiServer
from extender.cluster.client.backoff import pauses
from extender.cluster.client.errors import (
    ClusterError,
    ProtocolError,
    RefusedError,
    UnauthorizedError,
    UnreachableError,
    UntrustedError,
)
from extender.cluster.watch.messages import EventType, WatchEvent
from extender.cluster.watch.wire import PROTOBUF_WIRE, Wire
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.protobuf.read import Identity

T = TypeVar("T")
Entry_contra = TypeVar("Entry_contra", contravariant=True)

logger = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
"""Objects in one answer of a list, so that a large cluster's list keeps neither side busy for long."""
LIST_TIMEOUT_S: Final = 60.0
"""Seconds for one page of a list."""
MAX_PAGE_BYTES: Final = 512 * MEBIBYTE
"""Bytes of one page of a list: 1 MiB an object."""
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0
"""Seconds before a failed list or watch is tried again."""
GATHER_S: Final = 0.01
"""Seconds for which a watch is not read after an event that came alone, so that several events are read together."""
AT_ONCE_S: Final = 0.001
"""A chunk that comes within so many seconds was there already."""
WATCH_TIMEOUT_S: Final = 60
WATCH_GRACE_S: Final = 10.0
BEING_READ: Final = "they are being read"

Verb = Literal["list", "watch"]
End = Literal[
    "done", "expired", "broken", "unauthorized", "refused", "untrusted", "unreachable", "protocol", "internal"
]
"""How a list or a watch ended: `done` if its time was over, broken if an event of type ERROR ended it."""


class _BrokenError(RefusedError):
    """The server ended a watch by an event of type ERROR."""


_ENDS: Final[tuple[tuple[type[ClusterError], End], ...]] = (
    (_BrokenError, "broken"),
    (UnauthorizedError, "unauthorized"),
    (RefusedError, "refused"),
    (UntrustedError, "untrusted"),
    (UnreachableError, "unreachable"),
    (ProtocolError, "protocol"),
    (ClusterError, "internal"),
)
"""The end of the first class that an error is of."""

_LOST: Final = frozenset[End]({"expired", "broken", "protocol", "internal"})
"""Ends after which a watch is not resumed: all is listed anew."""

Count = Callable[[str, Verb, End], None]
"""Counts a list or a watch that has ended, of the resource of that name."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What is kept current."""

    name: str
    """As in a role, and in messages: `nodes`."""
    path: str
    """Of the objects of all namespaces, from the API server's root."""
    query: Mapping[str, str] = field(default_factory=dict)
    """What narrows a list and a watch to the objects that count."""
    wire: Wire = PROTOBUF_WIRE
    """How the objects come."""


class Sink(Protocol[Entry_contra]):
    """Where objects go, each a key and what is kept of the object."""

    def replace(self, objects: Mapping[str, Entry_contra], /) -> None:
        """These are all there are."""

    def put(self, objects: Iterable[tuple[str, Entry_contra]], /) -> None:
        """Adds or replaces objects."""

    def remove(self, key: str, /) -> None:
        """Forgets an object, known or not."""


class _Lapse(NamedTuple):
    """Why and since when, on the clock of `time.monotonic`, the sink is not current."""

    cause: str
    since: float

    @property
    def age(self) -> float:
        """Seconds until now."""
        return time.monotonic() - self.since

    def __str__(self) -> str:
        return f"{self.cause} (for {self.age:.0f} s)"


class Reflector(Generic[T]):
    """Lists the objects of a resource, then watches them, and tells a sink of each change.

    The sink keeps what it has while the API server is away. The properties may be read from any thread.
    """

    def __init__(
        self,
        api: ApiServer,
        resource: Resource,
        sink: Sink[T],
        entry: Callable[[Identity, bytes], tuple[str, T]],
        count: Count,
        *,
        stale_after: float = math.inf,
        lifetime: int = WATCH_TIMEOUT_S,
        grace: float = WATCH_GRACE_S,
    ) -> None:
        """`entry` makes of a bare protobuf object what the sink takes.

        Each watch is asked to end after `lifetime` seconds; one without a whole event for `grace` longer is dead,
        and so is one of which an event takes longer than `grace` to come.
        So a server that vanished without a word is noticed after the sum of both at the latest.
        """
        self._api = api
        self._resource = resource
        self._sink = sink
        self._entry = entry
        self._count = count
        self._stale_after = stale_after
        self._lifetime = lifetime
        self._grace = grace
        self._silence = lifetime + grace
        self._version = ""
        self._pauses = pauses(FIRST_PAUSE_S, MAX_PAUSE_S)
        self._synced = False
        self._heard = time.monotonic()
        """When the server last sent something in a watch. The sink may lack what has changed since."""
        self._owes_event = False
        """Whether a part of an event has come. Until the rest comes, the sink lacks that event."""
        self._lapse: _Lapse | None = _Lapse(BEING_READ, self._heard)

    @property
    def synced(self) -> bool:
        """Whether all objects have been read at least once."""
        return self._synced

    @property
    def problem(self) -> str | None:
        """What keeps the sink from being current, and for how long; None while it is."""
        lapse = self._lapse
        return str(lapse) if lapse else None

    @property
    def outdated(self) -> float:
        """For how many seconds the sink may have missed changes; 0 while it is current.

        They count from when the server last sent something, however late its silence is noticed.
        """
        lapse = self._lapse
        return lapse.age if lapse else 0.0

    @property
    def unusable(self) -> str | None:
        """Why the sink must not be used: it was never filled, or is outdated for more than `stale_after` seconds."""
        lapse = self._lapse
        if not self._synced:
            return f"the {self._resource.name} of the cluster are not known yet: {lapse}"
        if lapse and lapse.age > self._stale_after:
            limit = f"for longer than cluster.staleAfter, {self._stale_after:g} s"
            return f"the {self._resource.name} of the cluster may be outdated {limit}: {lapse}"
        return None

    async def run(self) -> None:
        """Keep the sink current until cancelled; tell failures by `problem` and log, and try again."""
        while True:
            if not self._version:
                await self._attempt("list", self._list)
            if self._version:
                await self._attempt("watch", self._watch)
            await asyncio.sleep(next(self._pauses))

    async def _attempt(self, verb: Verb, action: Callable[[], Awaitable[None]]) -> None:
        end: End = "done"
        try:
            await action()
        except ClusterError as error:
            end = _end(error)
            self._note(end, error)
        except Exception as error:  # A cache that ended would go on looking current.
            logger.exception("the cache of %s met a fault of its own and begins anew", self._resource.name)
            end = "internal"
            self._note(end, ClusterError(f"internal error: {error!r}"))
        self._count(self._resource.name, verb, end)

    async def _list(self) -> None:
        objects: dict[str, T] = {}
        query, wire = {**self._resource.query, "limit": str(PAGE_SIZE)}, self._resource.wire
        while True:
            request = ApiRequest("list", self._resource.name, self._resource.path, query, accept=wire.list_type)
            page = wire.decode_list(await self._api.call(request, LIST_TIMEOUT_S, MAX_PAGE_BYTES))
            objects.update(starmap(self._entry, page.objects))
            if not page.continuation:
                break
            query["continue"] = page.continuation
        self._sink.replace(objects)
        self._version = page.version
        self._synced = True
        self._owes_event = False
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
        accept = self._resource.wire.watch_type
        request = ApiRequest("watch", self._resource.name, self._resource.path, query, accept=accept)
        try:
            with anyio.fail_after(self._grace if self._owes_event else self._silence) as patience:
                async with self._api.stream(request, self._silence) as chunks:
                    await self._follow(chunks, patience)
        except TimeoutError:
            how = "has fallen silent"
            if self._owes_event:
                how = f"takes longer than {self._grace:g} s for an event"
                self._version = ""  # A list brings what it owes.
            raise UnreachableError(f"{request}: {self._api.address} {how}") from None

    async def _follow(self, chunks: AsyncIterator[bytes], patience: anyio.CancelScope) -> None:
        opened = self._heard = time.monotonic()
        if not self._owes_event:
            self._clear()
        decoder = self._resource.wire.decoder()
        try:
            async for chunk in _gathered(chunks):
                was_between = decoder.is_between_frames
                frames = decoder.feed(chunk)
                for frame in frames:
                    self._apply(self._resource.wire.decode_event(frame))
                self._owes_event = not decoder.is_between_frames
                if not self._owes_event:
                    patience.deadline = anyio.current_time() + self._silence
                elif frames or was_between:
                    patience.deadline = anyio.current_time() + self._grace
            if not decoder.is_between_frames:
                raise UnreachableError(f"watch {self._resource.name}: the answer ended in the middle of an event")
            self._heard = time.monotonic()
            self._owes_event = False
            self._clear()
        finally:
            # A server that ends each watch at once is one to be left alone for a while.
            if time.monotonic() - opened >= MAX_PAUSE_S:
                self._pauses = pauses(FIRST_PAUSE_S, MAX_PAUSE_S)

    def _apply(self, event: WatchEvent) -> None:
        self._heard = time.monotonic()
        if event.type is EventType.ERROR:
            status = self._resource.wire.decode_status(event.object)
            raise _BrokenError(
                f"watch {self._resource.name}: {self._api.address} ended the watch with {status.code}: "
                f"{status.message}",
                status.code,
                status.message,
            )
        if event.type is not EventType.BOOKMARK:
            key, entry = self._entry(event.identity, event.object)
            if event.type is EventType.DELETED:
                self._sink.remove(key)
            else:
                self._sink.put([(key, entry)])
        self._version = event.identity.resource_version
        self._clear()

    def _note(self, end: End, error: ClusterError) -> None:
        """Remember what is wrong, and log it once; list again where the watch cannot be resumed."""
        if end in _LOST:
            self._version = ""
        cause = f"{self._api.address} does not speak as an API server: {error}" if end == "protocol" else str(error)
        earlier = self._lapse
        self._lapse = _Lapse(cause, earlier.since if earlier else self._heard)
        if not earlier or cause != earlier.cause:
            logger.warning("the %s are not current", self._resource.name, extra={"error": cause})

    def _clear(self) -> None:
        if self._lapse and self._lapse.cause != BEING_READ:
            logger.info("the %s are current again", self._resource.name, extra={"problem": self._lapse.cause})
        self._lapse = None


def _end(error: ClusterError) -> End:
    if isinstance(error, RefusedError) and error.code == HTTPStatus.GONE:
        return "expired"
    return next(end for kind, end in _ENDS if isinstance(error, kind))


async def _gathered(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks as they come. After each chunk that it had to wait for, it pauses for `GATHER_S`."""
    asked = time.monotonic()
    async for chunk in chunks:
        waited = time.monotonic() - asked
        yield chunk
        if waited > AT_ONCE_S:
            await asyncio.sleep(GATHER_S)
        asked = time.monotonic()
