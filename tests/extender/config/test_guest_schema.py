"""Schemas of guestConfig: which ones are taken, and what they say of a configuration."""

from __future__ import annotations

import json

import pytest

from extender.config import guest_schema
from extender.config.guest_schema import SchemaError

SCHEMA = {
    "type": "object",
    "properties": {"tier": {"enum": ["spot", "on-demand"]}, "nodes": {"type": "array", "items": {"maximum": 5}}},
    "required": ["tier"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("config", "problems"),
    [
        ('{"tier": "spot", "nodes": [1, 5]}', []),
        ("", ['"tier" is a required property']),
        ("spot", ["expected JSON: Expecting value: line 1 column 1 (char 0)"]),
        ("[" * 100_000, ["expected JSON: maximum recursion depth exceeded"]),
        ("[]", ['[] is not of type "object"']),
        (
            '{"teir": "spot", "nodes": [1, 6]}',
            [
                "nodes.1: 6 is greater than the maximum of 5",
                "Additional properties are not allowed ('teir' was unexpected)",
                '"tier" is a required property',
            ],
        ),
    ],
)
def test_what_a_schema_says_of_a_configuration(config: str, problems: list[str]) -> None:
    found = guest_schema.problems(SCHEMA, config)
    assert [each[: len(wanted)] for each, wanted in zip(found, problems, strict=True)] == problems


def test_many_problems_are_cut_and_long_ones_too() -> None:
    found = guest_schema.problems({"items": {"type": "null"}}, json.dumps([*range(21), "x" * 1000]))
    assert found[:2] == ['0: 0 is not of type "null"', '1: 1 is not of type "null"']
    assert found[20:] == ["and 2 more"]
    assert len(guest_schema.problems({"type": "null"}, json.dumps("x" * 1000))[0]) == 500


def test_a_pattern_takes_linear_time() -> None:
    schema = guest_schema.read(b'{"pattern": "^(a+)+$"}')
    assert len(guest_schema.problems(schema, json.dumps("a" * 10_000 + "b"))) == 1


DEEP = b'{"properties":' * 2000 + b"{}" + b"}" * 2000
REFERENCE = "which no schema of a guestConfig may have: write in its place what is meant"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"[]", "expected a JSON Schema, which is an object"),
        (b"{", "expected a JSON Schema: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"\xff", "expected a JSON Schema: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b" " * 65_537, "has 65537 bytes, the limit is 65536"),
        (b'{"items": [{"$ref": "#"}]}', f"has $ref, {REFERENCE}"),
        (b'{"properties": {"a": {"$dynamicRef": "#a"}}}', f"has $dynamicRef, {REFERENCE}"),
        (b'{"pattern": "("}', 'expected a JSON Schema: "(" is not a "regex"'),
        (
            b'{"$schema": "http://127.0.0.1:1/schema"}',
            "expected a JSON Schema: Unknown meta-schema: 'http://127.0.0.1:1/schema'. Custom meta-schemas must be"
            " registered in the registry before use",
        ),
        (DEEP, "expected a JSON Schema: "),
    ],
    ids=["list", "cut off", "no UTF-8", "long", "reference", "dynamic", "pattern", "other language", "deep"],
)
def test_what_is_no_schema_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(SchemaError) as refused:
        guest_schema.read(text)
    assert str(refused.value)[: len(problem)] == problem
    assert len(str(refused.value)) == len(problem) or text is DEEP


def test_every_draft_may_be_used() -> None:
    schema = guest_schema.read(b'{"$schema": "http://json-schema.org/draft-07/schema#", "const": 5}')
    assert guest_schema.problems(schema, "6") == ["5 was expected"]
