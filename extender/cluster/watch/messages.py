"""Lists and watch events, unwrapped down to the bytes of each object; no I/O."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from extender.cluster.client.envelope import decoding, member, members, unwrap
from extender.cluster.client.errors import ProtocolError
from wasm_runtime.protobuf.read import Identity, identity


class EventType(Enum):
    """What an event of a watch tells.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
    """

    ADDED = b"ADDED"
    MODIFIED = b"MODIFIED"
    DELETED = b"DELETED"
    BOOKMARK = b"BOOKMARK"
    """Nothing changed; only the version from which to resume is newer."""
    ERROR = b"ERROR"
    """The watch failed; the object is a v1.Status."""


class WatchEvent(NamedTuple):
    """One event of a watch."""

    type: EventType
    identity: Identity
    """Its resource_version is where a watch that ended is resumed. A BOOKMARK has nothing else, an ERROR nothing."""
    object: bytes
    """The bare protobuf of the resource, or of the v1.Status."""


class Page(NamedTuple):
    """One answer of a list."""

    version: str
    """The resourceVersion that all pages of a list share, from which to watch."""
    continuation: str
    """What to ask the next page with; empty on the last one."""
    objects: list[tuple[Identity, bytes]]
    """Identity and bare protobuf of each object."""


def decode_list(body: bytes) -> Page:
    r"""Read the answer of a list: `k8s\0`, Unknown{2: List{1: ListMeta, 2: items}}. Raises ProtocolError."""
    version = continuation = ""
    objects: list[tuple[Identity, bytes]] = []
    with decoding("a list"):
        for number, value in members(unwrap(body)):
            if number == 1:
                version, continuation = member(value, 2).decode(), member(value, 3).decode()
            elif number == 2:
                objects.append((identity(value), value))
    if not version:
        raise ProtocolError("a list has no resourceVersion")
    return Page(version, continuation, objects)


def decode_event(frame: bytes) -> WatchEvent:
    r"""Read a frame of a watch: WatchEvent{1: type, 2: RawExtension{1: `k8s\0`, Unknown}}.

    Raises ProtocolError.
    """
    with decoding("a watch event"):
        kind = _event_type(member(frame, 1))
        content = unwrap(member(member(frame, 2), 1))
        if kind is EventType.ERROR:
            return WatchEvent(kind, Identity(), content)
        return WatchEvent(kind, identity(content), content)


def _event_type(name: bytes) -> EventType:
    try:
        return EventType(name)
    except ValueError:
        raise ProtocolError(f"a watch sent an event of the unknown type {name!r}") from None
