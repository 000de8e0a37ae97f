"""Events that are alike become one series, and what waits or is remembered is bounded."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec.structs import replace

from extender.cluster import Event, ObjectReference
from extender.cluster.events.backlog import (
    CONTROLLER,
    INSTANCE,
    MAX_REMEMBERED,
    MAX_WAITING,
    REMEMBERED_S,
    Backlog,
    EventSeries,
)

INTERVAL = 6.0
POD = ObjectReference("Pod", "v1", "web-0", "shop", "1f0c", "7")
EVENT = Event(POD, ObjectReference(), "Normal", "Preferred", "Scheduling", "zone a")


def numbered(number: int) -> Event:
    """An Event that is not like any other."""
    return replace(EVENT, reason=f"Reason{number}")


def backlog_of(*events: Event) -> Backlog:
    """A backlog that has taken these Events at time 0."""
    backlog = Backlog(INTERVAL)
    assert all(backlog.observe(event, 0) for event in events)
    return backlog


def due(backlog: Backlog, now: float) -> EventSeries:
    """The series that is due."""
    series = backlog.next(now)
    assert series is not None
    return series


def written(backlog: Backlog, now: float) -> EventSeries:
    """The series that is due, and is written now."""
    series = due(backlog, now)
    backlog.wrote(series, series.count, now)
    return series


def sent(series: EventSeries) -> tuple[str, str, dict[str, Any]]:
    """Verb, path and decoded body of a series' request."""
    request = series.request()
    assert request.resource == "events.events.k8s.io"
    return request.verb, request.path, json.loads(request.body)


def when(micro_time: str) -> datetime:
    """A v1.MicroTime."""
    return datetime.strptime(micro_time, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def test_the_first_request_creates_the_event() -> None:
    series = due(backlog_of(replace(EVENT, related=ObjectReference("Node", "v1", "node-1"))), 0)
    verb, path, body = sent(series)
    assert (verb, path) == ("create", "/apis/events.k8s.io/v1/namespaces/shop/events")
    assert datetime.now(timezone.utc) - when(body.pop("eventTime")) < timedelta(minutes=1)
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": "shop"},
        "reportingController": CONTROLLER,
        "reportingInstance": INSTANCE,
        "type": "Normal",
        "reason": "Preferred",
        "action": "Scheduling",
        "note": "zone a",
        "regarding": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": "shop",
            "name": "web-0",
            "uid": "1f0c",
            "resourceVersion": "7",
        },
        "related": {"kind": "Node", "apiVersion": "v1", "name": "node-1"},
    }


def test_events_that_are_alike_while_they_wait_are_created_as_one_series() -> None:
    backlog = backlog_of(EVENT, replace(EVENT, note="zone b"), EVENT)
    verb, _, body = sent(due(backlog, 0))
    assert (verb, body["note"], body["series"]["count"]) == ("create", "zone a", 3)
    assert when(body["series"]["lastObservedTime"]) >= when(body["eventTime"])
    written(backlog, 0)
    assert backlog.next(INTERVAL) is None


@pytest.mark.parametrize(
    "change",
    [
        {"type": "Warning"},
        {"reason": "Avoided"},
        {"action": "Scoring"},
        {"regarding": replace(POD, uid="2b1d")},
        {"related": POD},
    ],
)
def test_events_that_differ_are_not_counted_together(change: dict[str, Any]) -> None:
    backlog = backlog_of(EVENT, replace(EVENT, **change))
    assert [written(backlog, 0).count for _ in range(2)] == [1, 1]


def test_a_repeated_event_is_counted_in_the_same_one_after_the_interval() -> None:
    backlog = backlog_of(EVENT)
    first = written(backlog, 10)
    for _ in range(4):
        backlog.observe(EVENT, 10)
    assert backlog.next(10 + INTERVAL - 0.1) is None
    verb, path, body = sent(due(backlog, 10 + INTERVAL))
    assert (verb, path) == ("patch", f"/apis/events.k8s.io/v1/namespaces/shop/events/{first.name}")
    assert set(body) == {"series"}
    assert body["series"]["count"] == 5


def test_what_is_observed_during_a_request_is_written_later() -> None:
    backlog = backlog_of(EVENT)
    series = due(backlog, 0)
    backlog.observe(EVENT, 0)
    backlog.wrote(series, 1, 0)
    assert backlog.next(0) is None
    assert sent(due(backlog, INTERVAL))[2]["series"]["count"] == 2


def test_an_event_that_the_server_has_lost_is_created_again_with_its_count() -> None:
    backlog = backlog_of(EVENT)
    written(backlog, 0)
    backlog.observe(EVENT, INTERVAL)
    series = due(backlog, INTERVAL)
    backlog.wrote(series, 0, INTERVAL)
    assert backlog.next(INTERVAL) is None
    verb, _, body = sent(due(backlog, 2 * INTERVAL))
    assert (verb, body["series"]["count"]) == ("create", 2)


def test_an_event_after_a_long_time_is_a_new_one() -> None:
    backlog = backlog_of(EVENT)
    first = written(backlog, 0)
    backlog.observe(EVENT, INTERVAL + REMEMBERED_S)
    assert written(backlog, INTERVAL + REMEMBERED_S) is first
    later = 2 * (INTERVAL + REMEMBERED_S) + 0.1
    backlog.observe(EVENT, later)
    second = written(backlog, later)
    assert (second.count, second.name == first.name) == (1, False)


def test_no_more_wait_than_there_is_room_for() -> None:
    backlog = backlog_of(*map(numbered, range(MAX_WAITING)))
    assert not backlog.observe(EVENT, 0)
    assert backlog.observe(numbered(0), 0)  # only counted
    written(backlog, 0)
    assert backlog.observe(EVENT, 0)


def test_no_more_are_remembered_than_there_is_room_for() -> None:
    backlog = Backlog(INTERVAL)
    for number in range(MAX_REMEMBERED + 1):
        backlog.observe(numbered(number), 0)
        written(backlog, 0)
    for number in 0, 1:
        backlog.observe(numbered(number), 0)
    assert (written(backlog, 0).count, written(backlog, INTERVAL).count) == (1, 2)


def test_a_series_that_is_postponed_lets_the_others_go_first() -> None:
    backlog = backlog_of(numbered(1), numbered(2))
    first = due(backlog, 0)
    backlog.postpone(first, 5)
    assert written(backlog, 0).event == numbered(2)
    assert backlog.next(4.9) is None
    assert due(backlog, 5) is first


def test_a_series_that_is_given_up_waits_for_its_interval_before_it_begins_anew() -> None:
    backlog = backlog_of(EVENT, EVENT)
    assert backlog.give_up(due(backlog, 0), 0) == 2
    backlog.observe(EVENT, 1)
    assert backlog.next(INTERVAL - 0.1) is None
    verb, _, body = sent(due(backlog, INTERVAL))
    assert (verb, "series" in body) == ("create", False)


def test_what_has_waited_for_too_long_is_counted_as_lost() -> None:
    backlog = backlog_of(numbered(1), numbered(1), numbered(2))
    repeated = written(backlog, 0)
    backlog.observe(numbered(1), 5)
    backlog.observe(numbered(3), 9)
    assert backlog.expire(8, 10) == 2  # the third of number 1, and number 2
    assert (repeated.count, repeated.written) == (2, 2)
    assert written(backlog, 10).event == numbered(3)
    assert backlog.next(1_000) is None


def test_a_series_that_goes_on_has_waited_since_its_last_request() -> None:
    backlog = backlog_of(EVENT)
    series = due(backlog, 0)
    backlog.observe(EVENT, 0)
    backlog.wrote(series, 1, 100)
    assert backlog.expire(100, 100) == 0


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("web-0", "web-0"),
        ("web-0.shop", "web-0.shop"),
        ("x" * 236, "x" * 236),
        ("x" * 237, "event"),
        ("Web 0", "event"),
        ("../x", "event"),
        ("-", "event"),
    ],
)
def test_an_event_is_named_after_its_object(name: str, prefix: str) -> None:
    names = [due(backlog_of(replace(EVENT, regarding=ObjectReference(name=name))), 0).name for _ in range(2)]
    assert [each.rpartition(".")[0] for each in names] == [prefix, prefix]
    assert names[0] != names[1]


@pytest.mark.parametrize("namespace", ["", "a/b", "..", "Shop", "x" * 64])
def test_an_event_whose_object_has_no_namespace_is_in_the_default_one(namespace: str) -> None:
    series = due(backlog_of(replace(EVENT, regarding=replace(POD, namespace=namespace))), 0)
    _, path, body = sent(series)
    assert path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert body["metadata"]["namespace"] == "default"
