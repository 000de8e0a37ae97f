"""Events are read from what guests write, and made such as the API server takes them."""

from __future__ import annotations

import json
import logging

import pytest

from bench.peers.protobuf import text
from extender.cluster import Event, LogRecorder, ObjectReference, failed_scheduling_event
from extender.cluster.events.event import admissible, parse

POD = ObjectReference("Pod", "v1", "web-0", "shop", "1f0c", "7")
EVENT = Event(POD, ObjectReference(), "Normal", "Preferred", "Scheduling", "zone a is cheaper")


def test_the_message_of_a_guest_is_read_whole() -> None:
    message = {
        "RegardingReference": {
            "Kind": "Pod",
            "APIVersion": "v1",
            "Name": "web-0",
            "Namespace": "shop",
            "UID": "1f0c",
            "ResourceVersion": "7",
        },
        "RelatedReference": {"Kind": "Node", "APIVersion": "v1", "Name": "node-1"},
        "Eventtype": "Warning",
        "Reason": "Crowded",
        "Action": "Scoring",
        "Note": "all of zone a is full",
        "Unknown": 1,
    }
    related = ObjectReference("Node", "v1", "node-1")
    assert parse(json.dumps(message).encode()) == Event(
        POD, related, "Warning", "Crowded", "Scoring", "all of zone a is full"
    )


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{", "Input data was truncated"),
        (b'{"Note": 1}', "Expected `str`, got `int` - at `$.Note`"),
        (
            b'{"RegardingReference": {"Name": null}}',
            "Expected `str`, got `null` - at `$.RegardingReference.Name`",
        ),
        (
            b'{"RelatedReference": {"UID": "' + b"u" * 254 + b'"}}',
            "Expected `str` of length <= 253 - at `$.RelatedReference.UID`",
        ),
        (b"{} {}", "JSON is malformed: trailing characters (byte 4)"),
        (b'{"Note": "\xff"}', "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b'{"Other": ' + b"[" * 100_000, "maximum recursion depth exceeded while deserializing an object"),
    ],
)
def test_a_message_that_is_none_is_refused(message: bytes, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(message)
    assert str(caught.value) == problem


def test_an_event_within_the_bounds_stays_as_it_is() -> None:
    assert admissible(EVENT) == EVENT


@pytest.mark.parametrize(
    ("change", "repaired"),
    [
        ({"type": ""}, {"type": "Normal"}),
        ({"type": "normal"}, {"type": "Normal"}),
        ({"type": "WARNING"}, {"type": "Warning"}),
        ({"type": "Error"}, {"type": "Warning"}),
        ({"reason": ""}, {"reason": "Unspecified"}),
        ({"reason": "x" * 129}, {"reason": "x" * 125 + "..."}),
        ({"action": ""}, {"action": "Scheduling"}),
        ({"action": "x" * 128}, {"action": "x" * 128}),
        ({"action": "x" * 129}, {"action": "x" * 125 + "..."}),
        ({"note": ""}, {"note": ""}),
        ({"note": "x" * 1025}, {"note": "x" * 1021 + "..."}),
        ({"note": "ä" * 512}, {"note": "ä" * 512}),
        ({"note": "ä" * 513}, {"note": "ä" * 510 + "..."}),
        ({"note": "half \ud800"}, {"note": "half ?"}),
        ({"related": ObjectReference("Pod")}, {"related": ObjectReference()}),
    ],
)
def test_what_is_out_of_bounds_is_repaired(change: dict[str, object], repaired: dict[str, object]) -> None:
    fields = {name: getattr(EVENT, name) for name in EVENT.__struct_fields__}
    assert admissible(Event(**{**fields, **change})) == Event(**{**fields, **repaired})


def test_an_event_about_nothing_is_refused() -> None:
    with pytest.raises(ValueError) as caught:
        admissible(Event(ObjectReference("Pod"), reason="Lost"))
    assert str(caught.value) == "an Event (reason 'Lost') is about no object: its RegardingReference has no Name"


def test_a_failed_plugin_is_a_warning_about_the_pod() -> None:
    pod = text(1, text(1, "web-0") + text(3, "shop") + text(5, "1f0c") + text(6, "7"))
    assert failed_scheduling_event(pod, "PluginFailed", "plugin spin: score: interrupted") == Event(
        ObjectReference("Pod", "v1", "web-0", "shop", "1f0c"),
        type="Warning",
        reason="PluginFailed",
        action="Scheduling",
        note="plugin spin: score: interrupted",
    )


@pytest.mark.parametrize(
    ("event", "level", "fields"),
    [
        (
            EVENT,
            logging.INFO,
            {
                "regarding": "Pod shop/web-0",
                "type": "Normal",
                "reason": "Preferred",
                "action": "Scheduling",
                "note": "zone a is cheaper",
            },
        ),
        (
            Event(ObjectReference("Node", name="node-1"), POD, "Warning"),
            logging.WARNING,
            {"regarding": "Node node-1", "related": "Pod shop/web-0", "type": "Warning"},
        ),
        (Event(), logging.INFO, {}),
    ],
)
def test_without_a_cluster_events_are_logged(
    caplog: pytest.LogCaptureFixture, event: Event, level: int, fields: dict[str, str]
) -> None:
    caplog.set_level(logging.INFO)
    LogRecorder().record(event)
    (record,) = caplog.records
    names = ("regarding", "related", "type", "reason", "action", "note")
    logged = {name: record.__dict__[name] for name in names if name in record.__dict__}
    assert (record.levelno, record.message, logged) == (level, "an Event was recorded", fields)
