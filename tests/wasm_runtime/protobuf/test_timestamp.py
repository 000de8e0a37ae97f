"""Times are those of metav1.Time: RFC 3339 as Go parses it, in seconds."""

import json
import random
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_runtime.protobuf import EncodeError
from wasm_runtime.protobuf.timestamp import timestamp
from wasm_runtime.protobuf.varint import varint

from .oracle import GoTypes, Object

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

SEED = 36
SPELLINGS = 4000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-11-21T05:24:08Z", 1_795_238_648),
        ("2026-11-21T05:24:08.999999999Z", 1_795_238_648),
        ("2026-11-21T05:24:08,5Z", 1_795_238_648),
        ("2026-11-21T06:54:08+01:30", 1_795_238_648),
        ("2026-11-20T21:24:08-08:00", 1_795_238_648),
        ("2026-11-22T05:24:08+24:00", 1_795_238_648),
        ("2000-02-29T0:00:00Z", 951_782_400),
        ("0001-01-01T00:00:00Z", -62_135_596_800),
        ("0000-02-29T00:00:00Z", -62_162_121_600),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ],
)
def test_seconds_since_1970(text: str, seconds: int) -> None:
    assert timestamp(text) == b"\x08" + varint(seconds)


@given(st.datetimes())
def test_agrees_with_datetime(time: datetime) -> None:
    whole = time.replace(microsecond=0, tzinfo=timezone.utc)
    assert timestamp(f"{time.isoformat()}Z") == b"\x08" + varint(int(whole.timestamp()))


@pytest.mark.parametrize(
    "value",
    [
        *("", "2026", "2026-11-21", "2026-11-21T05:24:08", "2026-11-21 05:24:08Z", "2026-11-21t05:24:08z"),
        *("2026-02-29T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-13-01T00:00:00Z"),
        *("2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00.Z"),
        *("2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00+0100", "2026-01-01T00:00:00Z\n"),
        *("٢026-01-01T00:00:00Z", "2026-01-01T00:00:00." + "0" * 64 + "Z", 0, 1.5, True, [], {}),
    ],
)
def test_what_is_none_is_refused(value: object) -> None:
    with pytest.raises(EncodeError, match="expected a time in RFC 3339, got "):
        timestamp(value)


def test_random_spellings_are_taken_or_refused_as_go_does(gotypes: GoTypes) -> None:
    answers = gotypes.compare(created(text) for text in spellings())
    assert {answer for answer in answers if (answer.ours == "") != (answer.go == "OK")} == set()
    assert {answer.go.split()[0] for answer in answers} == {"OK", "REJECT"}


def spellings() -> list[str]:
    """Times with one to three of their characters replaced, dropped or doubled."""
    chance = random.Random(SEED)
    made = []
    for _ in range(SPELLINGS):
        text = list(
            chance.choice(["2024-02-29T23:59:59Z", "0400-12-31T09:00:10.25+23:59", "1900-03-01T1:02:03,4-00:30"])
        )
        for _ in range(chance.randint(1, 3)):
            text[chance.randrange(len(text))] = chance.choice(["", *"0123456789", *"-+:.,TZ tz", "00"])
        made.append("".join(text))
    return made


def created(text: str) -> Object:
    return Object("Pod", json.dumps({"metadata": {"creationTimestamp": text}}))
