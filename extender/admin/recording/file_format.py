"""The file of a recording: what filter was asked about, and the nodes as they were.

The file is gzip of frames. A frame is a length of four bytes, big-endian, and as many bytes of msgpack: an array of a
record's kind and its fields, in the order in which the classes of `Record` have them. A reader ignores further fields.

`begun` comes first, `ended` last. In between the records are in the order of events: a `node` for each node that is
known at the beginning, for each node that changes and each name that is new; a `cycle` for each pod. A change within a
tenth of a second after a pod was judged may stand before the pod.

The stream is flushed several times a second, so a file that was cut off can be read up to shortly before its end.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from extender.admin.recording.redact import redact
from extender.scheduling.filter_recording import RecordedRequest
from extender.scheduling.node_source import NodeSource
from extender.scheduling.requests import RequestError
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.nodes.node_table import ABSENT, NEVER, NodeTable
from wasm_runtime.protobuf.errors import DecodeError

FORMAT: Final = "kwx.dev/recording/v1"

MAX_RECORDING_BYTES: Final = 1024 * MEBIBYTE
"""Bytes that a recording may have when it is decompressed."""

END_AT_BYTES: Final = MAX_RECORDING_BYTES // 2
"""Decompressed bytes at which a recording ends by itself."""

GZIP: Final = 31
"""`wbits` of zlib for gzip with the largest window."""

LENGTH_BYTES: Final = 4

_LEVEL: Final = 1
"""The compression level of zlib: the fastest, since recordings are made while verbs are served."""


class BegunRecord(Struct, tag="begun", array_like=True):
    """The first record."""

    format: str
    profile: str
    at: str
    """RFC 3339, UTC."""


class NodeRecord(Struct, tag="node", array_like=True):
    """A node as it is from now on. Each new name gets the next number, counted from 0."""

    name: str
    object: bytes
    """Protobuf v1.Node; empty for a node that is unknown or deleted."""


class CycleRecord(Struct, tag="cycle", array_like=True):
    """A pod that filter was asked about."""

    seconds: float
    """Seconds since the recording began."""
    uid: str
    name: str
    """`namespace/name`."""
    pod: bytes
    """Protobuf v1.Pod; extender/admin/recording/redact.py says which of its fields are made unreadable."""
    nodes: list[Annotated[int, Meta(ge=0)]]
    """The numbers of the nodes that filter was asked about, in its order."""


EndReason = Literal["pods", "time", "size", "gone"]
"""Which limit of a recording was reached; `gone` where the profile is no longer live."""


class EndedRecord(Struct, tag="ended", array_like=True):
    """The last record."""

    reason: EndReason
    dropped: int
    """Pods that the recording lacks, since too many others waited or a node could not be read."""


Record = BegunRecord | NodeRecord | CycleRecord | EndedRecord


class RecordingWriter:
    """Makes the bytes of a recording, piece by piece. Only one thread at a time may use it."""

    def __init__(self, nodes: NodeSource) -> None:
        self._source = nodes.apart()
        self._node_table: NodeTable | None = None
        self._epoch, self._position = NEVER, 0
        self._objects: dict[str, bytes] = {}
        self._numbers: dict[str, int] = {}
        self.pods = 0
        """How many pods the recording holds."""
        self._begun = 0.0
        self._deflate = zlib.compressobj(_LEVEL, wbits=GZIP)
        self._encoder = msgspec.msgpack.Encoder()
        self._size = 0
        self._unreadable = 0

    @property
    def is_full(self) -> bool:
        """Whether the recording has reached END_AT_BYTES."""
        return self._size >= END_AT_BYTES

    def begin(self, profile: str) -> bytes:
        """The beginning of the recording, with the nodes as they are."""
        self._begun = time.monotonic()
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        return self._written([BegunRecord(FORMAT, profile, at), *self._changed(self._source.current)])

    def add(self, requests: Iterable[RecordedRequest]) -> bytes:
        """The next piece: requests, and nodes that have changed before them. Once full, no requests are added."""
        return self._written(record for request in requests for record in self._cycle(request))

    def end(self, reason: EndReason, dropped: int) -> bytes:
        """The end of the recording. `dropped` counts the requests that the caller did not add."""
        return self._written([EndedRecord(reason, dropped + self._unreadable)]) + self._deflate.flush()

    def _cycle(self, request: RecordedRequest) -> Iterator[Record]:
        if self.is_full:
            return
        pod, asked = request.sample.pod, request.asked
        try:
            content, node_table = redact(pod.object), self._source.take(asked)
        except (DecodeError, RequestError):
            self._unreadable += 1
            return
        yield from self._changed(node_table)
        number = self._numbers.__getitem__
        try:
            numbers = list(map(number, asked.names))
        except KeyError:
            yield from [self._node(name, ABSENT) for name in dict.fromkeys(asked.names) if name not in self._numbers]
            numbers = list(map(number, asked.names))
        self.pods += 1
        yield CycleRecord(request.at - self._begun, pod.uid, pod.name, content, numbers)

    def _changed(self, node_table: NodeTable) -> Iterator[NodeRecord]:
        """The nodes that differ from what was last written of them."""
        if node_table is not self._node_table:
            self._node_table, self._epoch = node_table, NEVER
        changes = node_table.changes(self._epoch, self._position)
        if changes is None:
            return
        found = {name: content for _, name, content in changes.nodes if name}
        if changes.epoch != self._epoch:  # The changes are all nodes of the table; others are gone.
            found = dict.fromkeys(self._objects, ABSENT) | found
        self._epoch, self._position = changes.epoch, changes.position
        for name, content in found.items():
            if self._objects.get(name, ABSENT) != content:
                yield self._node(name, content)

    def _node(self, name: str, content: bytes) -> NodeRecord:
        self._numbers.setdefault(name, len(self._numbers))
        self._objects[name] = content
        return NodeRecord(name, content)

    def _written(self, records: Iterable[Record]) -> bytes:
        parts: list[bytes] = []
        for record in records:
            encoded = self._encoder.encode(record)
            frame = len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded
            self._size += len(frame)
            parts.append(self._deflate.compress(frame))
        parts.append(self._deflate.flush(zlib.Z_SYNC_FLUSH))
        return b"".join(parts)
