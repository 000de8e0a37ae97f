"""Which Events the API server has still to be told, and when; no I/O."""

from __future__ import annotations

import re
import secrets
import socket
import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

import msgspec

from extender.cluster.client.api import ApiRequest
from extender.cluster.events.event import Event, ObjectReference

RESOURCE: Final = "events.events.k8s.io"
CONTROLLER: Final = "kwx.dev/extender"
INSTANCE: Final = socket.gethostname()[:128] or CONTROLLER

MAX_WAITING: Final = 1_000
"""Series of which something is still to be written."""
MAX_REMEMBERED: Final = 4_096
"""Series that are written, so that a further observation is counted in the same Event."""
REMEMBERED_S: Final = 360.0
"""Seconds. One that is observed again later begins a new Event. client-go has the same time."""

LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAMESPACE: Final = re.compile(LABEL)
MAX_NAMESPACE_LENGTH: Final = 63
NAME: Final = re.compile(rf"{LABEL}(\.{LABEL})*")
MAX_NAME_LENGTH: Final = 253 - 17
"""Characters that a suffix of 16 digits leaves of a DNS subdomain (RFC 1123)."""


@dataclass(slots=True)
class EventSeries:
    """An Event and how often it was observed. The API server has the first note; the others are only counted."""

    event: Event
    name: str
    due: float
    """When it may be written, on the clock of `time.monotonic`."""
    waiting: float = 0.0
    """Since when something of it is to be written."""
    began: datetime = datetime.min
    seen: datetime = datetime.min
    count: int = 0
    written: int = 0
    """The count that the API server has; 0 before it has the Event."""

    def observe(self, now: float) -> None:
        """Counts once more."""
        self.seen = datetime.now(timezone.utc)
        if self.count == self.written:
            self.waiting = now
        if self.count == 0:
            self.began = self.seen
        self.count += 1

    def request(self) -> ApiRequest:
        """The request that brings the API server up to date about the series."""
        path = f"/apis/events.k8s.io/v1/namespaces/{_namespace(self.event)}/events"
        if self.written:
            patch = msgspec.json.encode({"series": self._series})
            return ApiRequest("patch", RESOURCE, f"{path}/{self.name}", body=patch)
        return ApiRequest("create", RESOURCE, path, body=msgspec.json.encode(self._manifest()))

    @property
    def _series(self) -> dict[str, Any]:
        return {"count": self.count, "lastObservedTime": _micro_time(self.seen)}

    def _manifest(self) -> dict[str, Any]:
        event = self.event
        manifest = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": _namespace(event)},
            "eventTime": _micro_time(self.began),
            "reportingController": CONTROLLER,
            "reportingInstance": INSTANCE,
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": event.note,
            "regarding": _reference(event.regarding),
        }
        if event.related.name:
            manifest["related"] = _reference(event.related)
        if self.count > 1:
            manifest["series"] = self._series
        return manifest


class Backlog:
    """Counts Events that are alike but for their notes as one series, which is written once an interval at most.

    Both the series that wait and those that are remembered are bounded. All methods may be called from any thread.
    What makes Events alike: `getKey` in
    https://github.com/kubernetes/client-go/blob/v0.36.3/tools/events/event_broadcaster.go
    """

    def __init__(self, interval: float) -> None:
        """`interval` is in seconds."""
        self._interval = interval
        self._lock = threading.Lock()
        self._waiting: dict[Event, EventSeries] = {}
        self._written: OrderedDict[Event, EventSeries] = OrderedDict()

    def observe(self, event: Event, now: float) -> bool:
        """Takes an Event that is admissible; False if too many wait already."""
        key = _key(event)
        with self._lock:
            series = self._waiting.get(key)
            if series is None:
                if len(self._waiting) >= MAX_WAITING:
                    return False
                series = self._written.pop(key, None)
                if series is None or now > series.due + REMEMBERED_S:
                    series = EventSeries(event, _name(event), now)
                self._waiting[key] = series
            series.observe(now)
        return True

    def next(self, now: float) -> EventSeries | None:
        """The series to be written now; None if none is due."""
        with self._lock:
            return next((series for series in self._waiting.values() if series.due <= now), None)

    def wrote(self, series: EventSeries, count: int, now: float) -> None:
        """The API server has that count now; 0 means that it has lost the Event."""
        with self._lock:
            key = _key(series.event)
            del self._waiting[key]
            series.written = count
            series.due = now + self._interval
            if series.count > count:
                series.waiting = now
                self._waiting[key] = series
            else:
                self._remember(key, series)

    def postpone(self, series: EventSeries, due: float) -> None:
        """Puts a series behind all others."""
        with self._lock:
            series.due = due
            self._waiting[_key(series.event)] = self._waiting.pop(_key(series.event))

    def give_up(self, series: EventSeries, now: float) -> int:
        """Forgets what is not written of a series; returns how many Events that are."""
        with self._lock:
            return self._give_up(series, now)

    def expire(self, since: float, now: float) -> int:
        """Forgets what has waited since before `since`; returns how many Events that are."""
        with self._lock:
            old = [series for series in self._waiting.values() if series.waiting < since]
            return sum(self._give_up(series, now) for series in old)

    def _give_up(self, series: EventSeries, now: float) -> int:
        lost = series.count - series.written
        series.count = series.written
        series.due = now + self._interval
        self._remember(_key(series.event), self._waiting.pop(_key(series.event)))
        return lost

    def _remember(self, key: Event, series: EventSeries) -> None:
        self._written[key] = series
        if len(self._written) > MAX_REMEMBERED:
            self._written.popitem(last=False)


def _key(event: Event) -> Event:
    return msgspec.structs.replace(event, note="")


def _name(event: Event) -> str:
    """A name that no other Event has; it begins with that of the object if it can."""
    name = event.regarding.name
    prefix = name if len(name) <= MAX_NAME_LENGTH and NAME.fullmatch(name) else "event"
    return f"{prefix}.{secrets.token_hex(8)}"


def _namespace(event: Event) -> str:
    """The namespace of the object; `default` for an object without one, or with what can be none."""
    namespace = event.regarding.namespace
    return namespace if len(namespace) <= MAX_NAMESPACE_LENGTH and NAMESPACE.fullmatch(namespace) else "default"


def _reference(reference: ObjectReference) -> dict[str, str]:
    parts = {
        "kind": reference.kind,
        "apiVersion": reference.api_version,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
        "resourceVersion": reference.resource_version,
    }
    return {key: value for key, value in parts.items() if value}


def _micro_time(moment: datetime) -> str:
    """A v1.MicroTime: always six digits of a second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
