"""When pods were bound, as a watch of the API server tells."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Final

from bench.scheduler.api import PODS, Api, join
from bench.scheduler.errors import MeasureError
from extender.cluster.client.errors import ProtocolError
from extender.cluster.client.status import decode_status
from extender.cluster.watch.frames import FrameDecoder
from extender.cluster.watch.messages import EventType, WatchEvent, decode_event
from extender.cluster.watch.wire import WATCH_STREAM
from wasm_runtime.protobuf.pod import node_name

CHUNK: Final = 65_536


class Bindings:
    """Watches the pods from a version on, in a thread; a context manager that ends it.

    The watch is of whole pods in protobuf: the API server has encoded these bytes for the scheduler's watch anyway. The
    times that pods themselves tell, of their creation and their conditions, are in whole seconds.
    """

    def __init__(self, api: Api, version: str) -> None:
        self.bound: dict[str, float] = {}
        """Seconds of `time.perf_counter` at which a pod's binding was told, by its name, in that order."""
        self.nodes: dict[str, str] = {}
        """The node that a pod was bound to."""
        self._problem = ""
        self._is_ending = False
        self._api = api
        self._version = version
        self._connection, self._response = self._open()
        self._thread = threading.Thread(target=self._run, name="bindings")

    def __enter__(self) -> Bindings:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_ending = True
        if self._connection.sock:
            with suppress(OSError):
                # Not that of ssl.SSLSocket, which takes the connection from under the thread that reads it.
                socket.socket.shutdown(self._connection.sock, socket.SHUT_RDWR)
        join(self._thread)
        self._close()

    def check(self) -> None:
        """Raises MeasureError if the watch has broken off."""
        if self._problem:
            raise MeasureError(f"the watch of the pods broke off: {self._problem}")

    def _run(self) -> None:
        try:
            while not self._is_ending:
                self._follow()
                self._close()
                self._connection, self._response = self._open()
        except (OSError, ValueError, HTTPException, ProtocolError, MeasureError) as error:
            if not self._is_ending:
                self._problem = f"{type(error).__name__}: {error}"

    def _open(self) -> tuple[HTTPSConnection, HTTPResponse]:
        """The watch from the last event on. The API server ends one that was not read for some milliseconds."""
        connection = self._api.connect()
        path = f"{PODS}?watch=1&resourceVersion={self._version}"
        try:
            response = self._api.send(connection, "GET", path, accept=WATCH_STREAM)
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(None)
        return connection, response

    def _close(self) -> None:
        self._response.close()
        self._connection.close()

    def _follow(self) -> None:
        """Takes what the watch tells until it ends."""
        decoder = FrameDecoder()
        while chunk := self._response.read1(CHUNK):
            now = time.perf_counter()
            for frame in decoder.feed(chunk):
                event = decode_event(frame)
                if event.type is EventType.ERROR:
                    raise MeasureError(decode_status(event.object).message)
                self._version = event.identity.resource_version
                self._note(event, now)

    def _note(self, event: WatchEvent, now: float) -> None:
        if event.type not in {EventType.ADDED, EventType.MODIFIED}:
            return
        name = event.identity.name
        node = node_name(event.object)
        if node and name not in self.bound:
            self.nodes[name] = node
            self.bound[name] = now
