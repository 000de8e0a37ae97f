"""What becomes of what guests log and record."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from extender.cluster import Event, ObjectReference
from extender.scheduling.guest_log import GuestLog
from wasm_runtime.abi import Severity
from wasm_runtime.engine import GuestEvent, GuestJournal, Log
from wasm_runtime.guests.guest import Pod

POD = Pod("uid-of-web-7", "default/web-7", b"POD")
OURS = {"plugin": "p", "pod": "default/web-7"}
FIELDS = ("plugin", "pod", "node", "guest", "dropped")


class Events(list[Event]):
    """A recorder that keeps what it gets."""

    def record(self, event: Event) -> None:
        self.append(event)


@pytest.fixture
def guest_log() -> GuestLog:
    return GuestLog()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str, dict[str, Any]]]:
    """Level, message and fields of what was logged."""
    return [
        (record.levelno, record.getMessage(), {key: record.__dict__[key] for key in FIELDS if key in record.__dict__})
        for record in caplog.records
    ]


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        (Severity.INFO, logging.INFO),
        (Severity.WARNING, logging.WARNING),
        (Severity.ERROR, logging.ERROR),
        (Severity.FATAL, logging.CRITICAL),
    ],
)
def test_a_severity_is_a_level(
    guest_log: GuestLog, caplog: pytest.LogCaptureFixture, severity: Severity, level: int
) -> None:
    caplog.set_level(logging.INFO)
    guest_log.report("p", POD, GuestJournal([Log(severity, "100% full", ())], 0))
    assert lines(caplog) == [(level, "100% full", OURS | {"guest": {}})]


@pytest.mark.parametrize(
    ("pairs", "guest"),
    [
        (("rack", "r7", "free", "0"), {"rack": "r7", "free": "0"}),
        (("rack", "r7", "free"), {"rack": "r7", "free": ""}),
        (("rack", "r7", "rack", "r8"), {"rack": "r8"}),
        (
            ("plugin", "other", "pod", "other", "message", "other"),
            {"plugin": "other", "pod": "other", "message": "other"},
        ),
    ],
)
def test_keys_of_a_guest_stay_apart_from_ours(
    guest_log: GuestLog, caplog: pytest.LogCaptureFixture, pairs: tuple[str, ...], guest: dict[str, str]
) -> None:
    guest_log.report("p", POD, GuestJournal([Log(Severity.ERROR, "full", pairs, "node-3")], 0))
    assert lines(caplog) == [(logging.ERROR, "full", OURS | {"node": "node-3", "guest": guest})]


def test_what_was_dropped_is_counted_and_the_limit_named(guest_log: GuestLog, caplog: pytest.LogCaptureFixture) -> None:
    guest_log.report("p", POD, GuestJournal([Log(Severity.ERROR, "full", ())], 17))
    assert lines(caplog) == [
        (logging.ERROR, "full", OURS | {"guest": {}}),
        (
            logging.WARNING,
            "the guest logs more than is kept of one verb; raise the plugin's outputLimit",
            OURS | {"dropped": 17},
        ),
    ]


def test_what_is_logged_between_pods_has_no_pod(guest_log: GuestLog, caplog: pytest.LogCaptureFixture) -> None:
    guest_log.report("p", None, GuestJournal([Log(Severity.ERROR, "full", (), "node-3"), GuestEvent(b"[]")], 17))
    assert [(message, fields) for _, message, fields in lines(caplog)] == [
        ("full", {"plugin": "p", "node": "node-3", "guest": {}}),
        ("the guest recorded what is no Event: Expected `object`, got `array`", {"plugin": "p"}),
        (
            "the guest logs more than is kept of one verb; raise the plugin's outputLimit",
            {"plugin": "p", "dropped": 17},
        ),
    ]


def test_events_go_to_the_recorder_between_the_lines(guest_log: GuestLog, caplog: pytest.LogCaptureFixture) -> None:
    events = guest_log.recorder = Events()
    message = (
        b'{"RegardingReference":{"Kind":"Pod","APIVersion":"v1","Name":"web-7","Namespace":"default","UID":"u",'
        b'"ResourceVersion":"5"},"RelatedReference":{"Kind":"Node","Name":"node-3"},"Eventtype":"Warning",'
        b'"Reason":"Full","Action":"Packing","Note":"rack r7 is full","More":1}'
    )
    guest_log.report(
        "p", POD, GuestJournal([GuestEvent(message), Log(Severity.ERROR, "full", ()), GuestEvent(b"{}")], 0)
    )
    pod = ObjectReference("Pod", "v1", "web-7", "default", "u", "5")
    related = ObjectReference("Node", "", "node-3")
    assert events == [Event(pod, related, "Warning", "Full", "Packing", "rack r7 is full"), Event()]
    assert [message for _, message, _ in lines(caplog)] == ["full"]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "Input data was truncated"),
        (b"hello", "JSON is malformed: invalid character (byte 0)"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"Reason":5}', "Expected `str`, got `int` - at `$.Reason`"),
        (
            b'{"RegardingReference":{"UID":null}}',
            "Expected `str`, got `null` - at `$.RegardingReference.UID`",
        ),
        (b'{"Reason":"\xff"}', "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_what_is_no_event_is_said_and_not_recorded(
    guest_log: GuestLog, caplog: pytest.LogCaptureFixture, message: bytes, problem: str
) -> None:
    events = guest_log.recorder = Events()
    guest_log.report("p", POD, GuestJournal([GuestEvent(message)], 0))
    assert events == []
    assert lines(caplog) == [(logging.WARNING, f"the guest recorded what is no Event: {problem}", OURS)]
