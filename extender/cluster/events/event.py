"""Events about the objects of the cluster: what they are, and who takes them."""

from __future__ import annotations

import logging
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct, field

from wasm_runtime.protobuf.read import identity

logger = logging.getLogger(__name__)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

TYPES: Final = {"": NORMAL, "normal": NORMAL}
"""What a type means, in lower case. Any other is worth a warning."""


class Bound(NamedTuple):
    """How long a text of an Event may be, and what stands in for an empty one."""

    most: int
    """Bytes of UTF-8."""
    default: str
    """Stands in for an empty text, where one is needed."""


BOUNDS: Final = {
    "reason": Bound(128, "Unspecified"),
    "action": Bound(128, "Scheduling"),
    "note": Bound(1024, ""),
}
"""Texts of an Event, from `legacyValidateEvent` in
https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/events.go"""


Field = Annotated[str, msgspec.Meta(max_length=253)]
"""A part of a reference: no name in Kubernetes is longer (RFC 1123)."""


class ObjectReference(Struct, frozen=True, rename="pascal"):
    """An object of the cluster; none if it has no name."""

    kind: Field = ""
    api_version: Field = field(default="", name="APIVersion")
    name: Field = ""
    namespace: Field = ""
    uid: Field = field(default="", name="UID")
    resource_version: Field = ""

    def __str__(self) -> str:
        """How messages name it."""
        return " ".join(filter(None, (self.kind, "/".join(filter(None, (self.namespace, self.name))))))


class Event(Struct, frozen=True, rename="pascal"):
    """What is to be known of an object.

    Its JSON is that of `EventMessage` in `scheduler/plugin/host.go` of kubernetes-sigs/kube-scheduler-wasm-extension.
    """

    regarding: ObjectReference = field(default=ObjectReference(), name="RegardingReference")
    related: ObjectReference = field(default=ObjectReference(), name="RelatedReference")
    type: str = field(default="", name="Eventtype")
    reason: str = ""
    """Why, as one word in camel case."""
    action: str = ""
    """What was being done."""
    note: str = ""


class Recorder(Protocol):
    """Takes Events."""

    def record(self, event: Event, /) -> None:
        """Records an Event. From any thread; never waits for anything and never raises."""


class LogRecorder:
    """The recorder for where there is no cluster: Events go into our log."""

    def record(self, event: Event) -> None:
        """Logs an Event, at the level of its type."""
        fields = {
            "regarding": str(event.regarding),
            "related": str(event.related),
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": event.note,
        }
        level = logging.WARNING if event.type == WARNING else logging.INFO
        logger.log(level, "an Event was recorded", extra={key: value for key, value in fields.items() if value})


def parse(message: bytes) -> Event:
    """The Event that a guest hands over as JSON. Raises ValueError, which says what is wrong with it."""
    try:
        return msgspec.json.decode(message, type=Event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def failed_scheduling_event(pod: bytes, reason: str, error: str) -> Event:
    """The extender's own Event about a pod, a protobuf v1.Pod, that no plugin has judged because of `error`."""
    found = identity(pod)
    regarding = ObjectReference("Pod", "v1", found.name, found.namespace, found.uid)
    return Event(regarding, type=WARNING, reason=reason, action="Scheduling", note=error)


def admissible(event: Event) -> Event:
    """The Event as the API server takes it: cut, and with what is missing. Raises ValueError if it is about nothing."""
    if not event.regarding.name:
        raise ValueError(
            f"an Event (reason {event.reason[:80]!r}) is about no object: its RegardingReference has no Name"
        )
    texts = {name: _cut(getattr(event, name) or bound.default, bound.most) for name, bound in BOUNDS.items()}
    related = event.related if event.related.name else ObjectReference()
    return msgspec.structs.replace(event, related=related, type=TYPES.get(event.type.lower(), WARNING), **texts)


def _cut(text: str, most: int) -> str:
    """The beginning of a text in at most that many bytes of UTF-8; three dots tell that there was more."""
    content = text.encode(errors="replace")
    if len(content) > most:
        content = content[: most - 3]
        return content.decode(errors="ignore") + "..."
    return content.decode()
