"""Quantities are those of Go's ParseQuantity."""

import json
import random
import re

import pytest

from wasm_runtime.protobuf import EncodeError
from wasm_runtime.protobuf.quantity import quantity

from .oracle import Answer, GoTypes, Object

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

SEED = 36
SPELLINGS = 4000


@pytest.mark.parametrize("text", ["0", "1", "100m", "1.5Gi", "-3", "+.5e-3", "1E", "12E6", "1e+18", "007", "1.", ".5"])
def test_text_stays_as_it_is(text: str) -> None:
    assert quantity(text) == b"\x0a" + bytes([len(text)]) + text.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4, b"4"),
        (-1, b"-1"),
        (0.5, b"0.5"),
        (1e30, b"1e+30"),
        (1e-7, b"1e-07"),
        (10**20, b"100000000000000000000"),
    ],
)
def test_numbers_become_text(value: float, text: bytes) -> None:
    assert quantity(value) == b"\x0a" + bytes([len(text)]) + text


def test_spaces_around_it_are_dropped() -> None:
    assert quantity("  1Gi ") == quantity("1Gi")


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            " ",
            "-",
            ".",
            "Ki",
            "m",
            "e3",
            "1e",
            "1 Gi",
            "1gi",
            "0x1",
            "1e1.5",
            "1e+",
            "٣",
            "1\n",
            "1" * 65,
            "1e9999999999999999999",
        ),
        *(True, None, [], {}, float("nan"), float("inf"), 1 << 128, -(1 << 1000)),
    ],
)
def test_what_is_none_is_refused(value: object) -> None:
    with pytest.raises(EncodeError, match="expected a quantity, got "):
        quantity(value)


def test_random_spellings_are_taken_or_refused_as_go_does(gotypes: GoTypes) -> None:
    answers = gotypes.compare(capacity(spelling) for spelling in spellings())
    assert {answer for answer in answers if (answer.ours == "") != (answer.go == "OK")} == set()
    assert {answer.go.split()[0] for answer in answers} == {"OK", "REJECT"}


def spellings() -> list[str]:
    """Strings of the characters that quantities have, many of them nearly one."""
    chance = random.Random(SEED)
    first = ["0", "00", "12", "5.", ".5", "0.", "1.250", "999999999999999999999", ".0000000000001"]
    parts = [*first, "-", "+", ".", "e", "E", *"numkKMGTPi", "Ki", "Mi", "Ei", " ", "x"]
    made = []
    for _ in range(SPELLINGS):
        more = chance.choices(parts, k=chance.randint(0, 3))
        made.append(chance.choice(["", "", "-", "+", " "]) + chance.choice(first) + "".join(more))
    # Go computes ten to the power of any exponent; we refuse what is longer than anybody writes.
    return [text for text in made if not re.search(r"[eE][+-]?[0-9]{4}", text) and len(text) <= 64]


def test_go_reads_the_numbers(gotypes: GoTypes) -> None:
    numbers = [0, -7, 2**63, 10**30, 0.1, -0.0, 2.50, 1e15, 1e16, 123456789012345680.0, 1e-4, 1e-5, 1.5e-9]
    assert gotypes.compare(map(capacity, numbers)) == [Answer("", "OK")] * len(numbers)


def capacity(value: str | float) -> Object:
    return Object("Node", json.dumps({"status": {"capacity": {"cpu": value}}}))
