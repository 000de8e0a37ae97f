"""The cluster's nodes, kept current in a snapshot that guests see."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from http import HTTPStatus

from wasm_runtime.snapshot import Snapshot

from .api import PROTOBUF, ApiRequest, ApiServer
from .backoff import pauses
from .errors import ClusterError, ProtocolError, RefusedError, UnreachableError
from .frames import FrameDecoder
from .messages import EventType, WatchEvent, decode_event, decode_list
from .status import decode_status

logger = logging.getLogger(__name__)

PATH = "/api/v1/nodes"
WATCH_STREAM = f"{PROTOBUF};stream=watch"
PAGE_SIZE = 500
"""Nodes in one answer of a list, so that a large cluster's list keeps neither side busy for long."""
LIST_TIMEOUT_S = 60.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class NodeCache:
    """Lists the nodes, then watches them, and writes each change as bare v1.Node protobuf into a `Snapshot`.

    What was read stays in the snapshot while the API server is away: a guest rather sees the nodes of a
    minute ago than none. The properties may be read from any thread.
    """

    def __init__(self, api: ApiServer, snapshot: Snapshot, *, watch_s: int = 60, grace_s: float = 10.0) -> None:
        """Each watch is asked to end after `watch_s` seconds; one silent for `grace_s` longer is dead.

        So a server that vanished without a word is noticed after the sum of both at the latest.
        """
        self._api = api
        self._snapshot = snapshot
        self._watch_s = watch_s
        self._silence_s = watch_s + grace_s
        self._version = ""
        self._pauses = pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._synced = False
        self._problem: tuple[str, float] | None = None

    @property
    def synced(self) -> bool:
        """Whether all nodes have been read at least once."""
        return self._synced

    @property
    def problem(self) -> str | None:
        """What keeps the snapshot from being current, and for how long; None while it is."""
        problem = self._problem
        if problem is None:
            return None
        message, since = problem
        return f"{message} (for {time.monotonic() - since:.0f} s)"

    async def run(self) -> None:
        """Keep the snapshot current until cancelled; tell failures by `problem` and log, and try again."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ClusterError as error:
                self._note(error)
            except Exception as error:  # A cache that ended would go on looking current.
                logger.exception("the node cache met a fault of its own and begins anew")
                self._version = ""
                self._note(ClusterError(f"internal error: {error!r}"))
            await asyncio.sleep(next(self._pauses))

    async def _list(self) -> None:
        nodes: dict[str, bytes] = {}
        query = {"limit": str(PAGE_SIZE)}
        while True:
            page = decode_list(await self._api.call(ApiRequest("list", "nodes", PATH, query), LIST_TIMEOUT_S))
            nodes.update(page.objects)
            if not page.continuation:
                break
            query["continue"] = page.continuation
        self._snapshot.replace(nodes)
        self._version = page.version
        self._synced = True
        logger.info("listed the nodes", extra={"nodes": len(nodes), "resource_version": page.version})

    async def _watch(self) -> None:
        """Follow the changes after `_version` until the server ends the watch."""
        query = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._watch_s),
        }
        request = ApiRequest("watch", "nodes", PATH, query, accept=WATCH_STREAM)
        async with self._api.stream(request, self._silence_s) as chunks:
            opened = time.monotonic()
            self._clear()
            try:
                await self._follow(chunks)
            finally:
                # A server that ends each watch at once is one to be left alone for a while.
                if time.monotonic() - opened >= LONGEST_PAUSE_S:
                    self._pauses = pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S)

    async def _follow(self, chunks: AsyncIterator[bytes]) -> None:
        decoder = FrameDecoder()
        async for chunk in chunks:
            for frame in decoder.feed(chunk):
                self._apply(decode_event(frame))
        if not decoder.is_between_frames:
            raise UnreachableError("watch nodes: the answer ended in the middle of an event")

    def _apply(self, event: WatchEvent) -> None:
        if event.type is EventType.ERROR:
            status = decode_status(event.object)
            self._version = ""
            message = f"watch nodes: {self._api.address} ended the watch with {status.code}: {status.message}"
            raise RefusedError(message, status.code, status.message)
        if event.type is EventType.DELETED:
            self._snapshot.remove(event.name)
        elif event.type is not EventType.BOOKMARK:
            self._snapshot.put([(event.name, event.object)])
        self._version = event.version

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
            logger.warning("the nodes are not current", extra={"error": message})

    def _clear(self) -> None:
        if self._problem is not None:
            logger.info("the nodes are current again", extra={"problem": self._problem[0]})
        self._problem = None
