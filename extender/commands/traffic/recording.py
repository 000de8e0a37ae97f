"""Recordings of a running extender's traffic: made by `kwx record`, read back to be played.

The extender sends the bytes of the file (extender/admin/recording/file_format.py has the format); this module saves
and reads it. The file holds pods, so only its owner can read it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from extender.admin.recording.file_format import (
    FORMAT,
    GZIP,
    LENGTH_BYTES,
    MAX_RECORDING_BYTES,
    BegunRecord,
    CycleRecord,
    EndedRecord,
    EndReason,
    NodeRecord,
    Record,
)
from extender.commands.plugin.client import AdminClient, RemoteError
from wasm_runtime.engine import MEBIBYTE

PIECE: Final = MEBIBYTE
"""Bytes that are read, or decompressed, at a time."""


MAGIC: Final = b"\x1f\x8b"
"""The first bytes of a gzip file (RFC 1952)."""


class RecordingError(Exception):
    """A recording cannot be made or read. `str()` says why, and what to do."""


class Cycle(NamedTuple):
    """A pod that filter was asked about."""

    seconds: float
    """Seconds since the recording began."""
    uid: str
    name: str
    """`namespace/name`."""
    pod: bytes
    """Protobuf v1.Pod; extender/admin/recording/redact.py says which of its fields are made unreadable."""
    nodes: Sequence[str]
    """Names of the nodes, in the order of the request."""
    changes: Mapping[str, bytes]
    """The nodes that changed since the cycle before: protobuf v1.Node by name, empty for a removed node."""


class Recording(NamedTuple):
    """Cycles of a profile, and the nodes that its guests saw."""

    profile: str
    begun: str
    """RFC 3339, UTC."""
    nodes: Mapping[str, bytes]
    """Protobuf v1.Node by name, as each node was when it was first known; without nodes that are only names."""
    cycles: Sequence[Cycle]
    """At least one."""
    dropped: int
    """Pods that were judged meanwhile and are not recorded."""
    ended: EndReason | None
    """Why the recording ended; None if it was cut off."""

    @property
    def unknown(self) -> int:
        """How many nodes are recorded by their names alone."""
        return len(set[str]().union(*(cycle.nodes for cycle in self.cycles)) - self.nodes.keys())

    def playable(self) -> Recording:
        """The recording without nodes that are only names, and without cycles about such nodes alone.

        Changes of nodes in a cycle that is left out belong to the next one. Raises RecordingError if no cycle is left.
        """
        cycles: list[Cycle] = []
        changes: dict[str, bytes] = {}
        for cycle in self.cycles:
            changes |= cycle.changes
            if nodes := tuple(filter(self.nodes.__contains__, cycle.nodes)):
                cycles.append(cycle._replace(nodes=nodes, changes=changes))
                changes = {}
        if not cycles:
            raise RecordingError(
                "the recording has only the names of the nodes that pods were judged about; record an extender that has"
                " a cluster.mode, or whose kube-scheduler sends whole nodes"
            )
        return self._replace(cycles=cycles)

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Reads a file; of a file that was cut off, the part that is there. Raises RecordingError."""
        reader = _Reader(str(path))
        try:
            with path.open("rb") as file:
                while piece := file.read(PIECE):
                    reader.feed(piece)
        except OSError as error:
            reason = f"{path} cannot be read: {error.strerror}"
            raise RecordingError(f"{reason}; give a file that `kwx record` wrote") from error
        return reader.finish()


def record(
    client: AdminClient,
    path: Path,
    *,
    profile: str | None = None,
    pods: int = 500,
    seconds: float = 60,
    progress: Callable[[int], object] = lambda _: None,
) -> Recording:
    """Records what filter is asked from now on into a new file, until `pods` pods were judged or `seconds` are over.

    Without `profile`, the fallback profile is recorded. `progress` is called with the number of pods so far. Ctrl-C
    ends the recording, which then has what was received before. After an error the file stays, and can be read, if
    it holds a pod. Raises RecordingError, RemoteError.
    """
    reader = _Reader("what the extender sends")
    query = {"profile": profile, "pods": pods, "duration": f"{seconds:g}s"}
    try:
        with (
            _create(path) as file,
            _unlinked_without_pods(path, reader),
            client.stream("/traffic", query, silence=seconds) as pieces,
        ):
            for piece in pieces:
                file.write(piece)
                reader.feed(piece)
                progress(reader.pods)
    except RemoteError as error:
        raise RemoteError(f"{error}; what had come until then is in {path}" if reader.pods else str(error)) from error
    except OSError as error:
        raise RecordingError(f"{path} cannot be written: {error.strerror}; name another file") from error
    except KeyboardInterrupt:
        if not reader.pods:
            raise RecordingError(
                f"no pod had come yet, so there is no {path}; record while pods are scheduled"
            ) from None
        return Recording.read(path)
    return reader.finish()


def _create(path: Path) -> BinaryIO:
    """A new, unbuffered file that only its owner can read. Raises OSError, also if the file exists."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)


@contextmanager
def _unlinked_without_pods(path: Path, reader: _Reader) -> Iterator[None]:
    """Removes a file at the end of the block if it has no pod."""
    try:
        yield
    finally:
        if not reader.pods:
            path.unlink()


class _Reader:
    """Decodes a recording as its bytes come. The methods raise RecordingError."""

    def __init__(self, source: str) -> None:
        """`source` is what messages call the recording."""
        self._source = source
        self._inflate = zlib.decompressobj(GZIP)
        self._decoder = msgspec.msgpack.Decoder(Record)
        self._buffer = bytearray()
        self._size = 0
        self._begun: BegunRecord | None = None
        self._ended: EndedRecord | None = None
        self._names: list[str] = []
        self._known: set[str] = set()
        self._nodes: dict[str, bytes] = {}
        self._changes: dict[str, bytes] = {}
        self._cycles: list[Cycle] = []

    @property
    def pods(self) -> int:
        """The number of pods until now."""
        return len(self._cycles)

    def feed(self, piece: bytes) -> None:
        """Takes the next bytes."""
        try:
            for unfolded in self._unfold(piece):
                self._buffer += unfolded
                for frame in self._frames():
                    self._take(self._decoder.decode(frame))
        except zlib.error as error:
            is_gzip = self._size or piece.startswith(MAGIC)
            raise (self._damaged(str(error)) if is_gzip else self._foreign()) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise (self._damaged(str(error)) if self._begun else self._foreign()) from error

    def finish(self) -> Recording:
        """The recording, once all bytes were fed."""
        if self._begun is None:
            raise self._foreign()
        if self._inflate.eof and (self._buffer or not self._ended):
            raise self._damaged("it has no end")
        if not self._cycles:
            problem = f"{self._source} holds no pod: profile {self._begun.profile} judged none meanwhile"
            raise RecordingError(f"{problem}; record while pods are scheduled by it")
        return Recording(
            self._begun.profile,
            self._begun.at,
            self._nodes,
            self._cycles,
            self._ended.dropped if self._ended else 0,
            self._ended.reason if self._ended else None,
        )

    def _foreign(self) -> RecordingError:
        return RecordingError(f"{self._source} is no recording of `kwx record`; record one")

    def _damaged(self, cause: str) -> RecordingError:
        return RecordingError(f"{self._source} is damaged: {cause}; record anew")

    def _unfold(self, piece: bytes) -> Iterator[bytes]:
        unfolded = b""
        while piece or len(unfolded) == PIECE:
            if self._inflate.eof:
                raise self._damaged("something follows its end")
            unfolded = self._inflate.decompress(piece, PIECE)
            self._size += len(unfolded)
            if self._size > MAX_RECORDING_BYTES:
                problem = f"{self._source} unfolds to more than {MAX_RECORDING_BYTES // MEBIBYTE} MiB"
                raise RecordingError(f"{problem}; record fewer pods, or for a shorter time")
            yield unfolded
            piece = self._inflate.unconsumed_tail or self._inflate.unused_data

    def _frames(self) -> Iterator[bytes]:
        """Takes the complete frames out of the buffer."""
        begin = 0
        while (body := begin + LENGTH_BYTES) <= len(self._buffer):
            end = body + int.from_bytes(self._buffer[begin:body], "big")
            if end > len(self._buffer):
                break
            yield bytes(self._buffer[body:end])
            begin = end
        del self._buffer[:begin]

    def _take(self, record: Record) -> None:
        if self._begun is None and not isinstance(record, BegunRecord):
            raise self._foreign()
        if self._ended or (self._begun and isinstance(record, BegunRecord)):
            raise self._damaged("its records are out of order")
        if isinstance(record, BegunRecord):
            if record.format != FORMAT:
                problem = f"{self._source} has the format {record.format[:100]!r}, this release reads {FORMAT!r}"
                raise RecordingError(f"{problem}; record anew")
            self._begun = record
        elif isinstance(record, NodeRecord):
            self._take_node(record)
        elif isinstance(record, CycleRecord):
            if max(record.nodes, default=-1) >= len(self._names):
                raise self._damaged("a pod is about a node that did not come up before")
            nodes = tuple(map(self._names.__getitem__, record.nodes))
            cycle = Cycle(record.seconds, record.uid, record.name, record.pod, nodes, self._changes)
            self._cycles.append(cycle)
            self._changes = {}
        else:
            self._ended = record

    def _take_node(self, node: NodeRecord) -> None:
        if node.name not in self._known:
            self._known.add(node.name)
            self._names.append(node.name)
        if node.name in self._nodes:
            self._changes[node.name] = node.object
        elif node.object:
            self._nodes[node.name] = node.object
