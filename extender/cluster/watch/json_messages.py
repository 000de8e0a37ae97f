"""Lists and watch events in JSON, taken apart down to the JSON of each object; no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from extender.cluster.client.errors import ProtocolError
from extender.cluster.watch.messages import EventType, Page, WatchEvent
from wasm_runtime.protobuf.read import Identity


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = field(default="", name="resourceVersion")


class _Object(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)


class _ListMetadata(Struct):
    resource_version: str = field(default="", name="resourceVersion")
    continuation: str = field(default="", name="continue")


class _List(Struct):
    metadata: _ListMetadata = field(default_factory=_ListMetadata)
    items: list[Raw] | None = None


class _Event(Struct):
    type: str
    object: Raw


_OBJECT: Final = msgspec.json.Decoder(_Object)
_LIST: Final = msgspec.json.Decoder(_List)
_EVENT: Final = msgspec.json.Decoder(_Event)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_json_list(body: bytes) -> Page:
    """Read the answer of a list. Raises ProtocolError."""
    with _decoding("a list"):
        found = _LIST.decode(body)
        objects = [(_identity(item), bytes(item)) for item in found.items or ()]
    if not found.metadata.resource_version:
        raise ProtocolError("a list has no resourceVersion")
    return Page(found.metadata.resource_version, found.metadata.continuation, objects)


def decode_json_event(line: bytes) -> WatchEvent:
    """Read a line of a watch. Raises ProtocolError."""
    with _decoding("a watch event"):
        event = _EVENT.decode(line)
        try:
            kind = EventType(event.type.encode())
        except ValueError:
            raise ProtocolError(f"a watch sent an event of the unknown type {event.type!r}") from None
        if kind is EventType.ERROR:
            return WatchEvent(kind, Identity(), bytes(event.object))
        return WatchEvent(kind, _identity(event.object), bytes(event.object))


def _identity(item: Raw) -> Identity:
    metadata = _OBJECT.decode(item).metadata
    return Identity(metadata.name, metadata.namespace, metadata.uid, metadata.resource_version)


@contextmanager
def _decoding(what: str) -> Iterator[None]:
    """Makes errors of decoding `what` ProtocolError, which says that the server's answer is at fault."""
    try:
        yield
    except _UNREADABLE as error:
        raise ProtocolError(f"{what} that is no valid JSON: {error}") from error
