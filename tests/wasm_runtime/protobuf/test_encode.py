"""Go reads from our protobuf what it reads from the JSON."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from wasm_runtime.protobuf import encode_node, encode_pod, fields
from wasm_runtime.protobuf.schema import INLINE, MESSAGES

from .oracle import Answer, GoTypes, Object

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

FIXTURES = Path(__file__).parent / "fixtures"

SEED = 36
RANDOM_OBJECTS = 2000
MUTATIONS = 4000

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, 2.0, 1e30),
    *(2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 2**64),
    *("", "x", "5", " 5 ", "1Ki", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z"),
    *([], [None], [0], ["a"], [[]], [{}], [True]),
    *({}, {"a": None}, {"a": "b"}, {"a": 1}, {"a": "1Ki"}, {"a": {}}),
)


@pytest.fixture(scope="module")
def random_objects(gotypes: GoTypes) -> list[Object]:
    return gotypes.random(SEED, RANDOM_OBJECTS)


def fixture_objects() -> list[Object]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(FIXTURES.glob("*.json"))]
    return [Object(json.loads(text)["kind"], text) for text in texts]


def test_rich_objects(gotypes: GoTypes) -> None:
    objects = fixture_objects()
    assert len(objects) > 1
    assert gotypes.compare(objects) == [Answer("", "OK")] * len(objects)


def test_rich_objects_have_every_field_of_the_table() -> None:
    assert table() - used(fixture_objects()) == set()


def test_random_objects(gotypes: GoTypes, random_objects: list[Object]) -> None:
    assert gotypes.compare(random_objects) == [Answer("", "OK")] * RANDOM_OBJECTS


def test_random_objects_have_every_field_of_the_table(random_objects: list[Object]) -> None:
    assert table() - used(random_objects) == set()


def test_go_notices_what_is_wrong(gotypes: GoTypes) -> None:
    """The comparison itself: a value that is missing, another, in excess, and bytes that are none."""
    pod = Object("Pod", '{"metadata": {"name": "a"}, "spec": {"priority": 0}}')
    right = encode_pod(json.loads(pod.json))
    wrong = [b"", right.replace(b"a", b"b"), right + b"\x1a\x02\x0a\x00\x12\x02\x60\x01", right[:-1]]
    verdicts = gotypes.check([pod] * 5, [right, *wrong])
    assert verdicts[0] == "OK"
    assert [verdict.split()[0] for verdict in verdicts[1:]] == ["DIFFERENT"] * 4


def test_one_odd_value_is_taken_or_refused_as_go_does(gotypes: GoTypes, random_objects: list[Object]) -> None:
    """Replace one value in each object, or add an unknown field; both sides must agree."""
    chance = random.Random(SEED)
    mutants = [mutate(chance.choice(random_objects), chance) for _ in range(MUTATIONS)]
    answers = gotypes.compare(mutants)
    disagreements = [answer for answer in answers if (answer.ours == "") != (answer.go == "OK")]
    assert disagreements == []
    refused = sum(answer.ours != "" for answer in answers)
    assert MUTATIONS // 4 < refused < MUTATIONS * 3 // 4


def test_nothing_is_written_for_what_is_absent() -> None:
    assert encode_pod({}) == b""
    assert encode_pod({"metadata": None, "kind": "Pod", "unknown": {"a": [1]}}) == b""
    assert encode_node({"spec": {}}) == b"\x12\x00"


def test_fields_are_in_the_order_of_the_json() -> None:
    pod = {"metadata": {"namespace": "b", "name": "a"}}
    assert encode_pod(pod) == b"\x0a\x06" + b"\x1a\x01b" + b"\x0a\x01a"


def test_any_mapping_is_an_object_at_the_root() -> None:
    assert encode_pod(MappingProxyType({"metadata": {"name": "a"}})) == b"\x0a\x03\x0a\x01a"


def test_unknown_fields_are_not_looked_into() -> None:
    """However deep they are: the decoder has let them pass."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert encode_pod({"spec": {"future": deep}}) == encode_pod({"spec": {}})


def test_field_sets_that_were_not_decoded_stay_as_they_are() -> None:
    raw = msgspec.Raw(b'{ "f:a" : "\\u003c" }')
    pod = encode_pod({"metadata": {"managedFields": [{"fieldsV1": raw}]}})
    assert innermost(pod) == bytes(raw)


def test_field_sets_that_were_decoded_are_written_without_spaces() -> None:
    pod = encode_pod({"metadata": {"managedFields": [{"fieldsV1": {"f:b": {}, "f:a": ["<", 1.5, None]}}]}})
    assert innermost(pod) == b'{"f:b":{},"f:a":["<",1.5,null]}'


def innermost(data: bytes) -> bytes:
    """Open messages of one field up to the JSON in them."""
    while not data.startswith(b"{"):
        [(_, _, value)] = fields(data)
        assert isinstance(value, bytes)
        data = value
    return data


def mutate(item: Object, chance: random.Random) -> Object:
    """Put one odd value anywhere into an object, most often instead of another."""
    value = json.loads(item.json)
    # Protobuf has neither, so that they are unknown fields to us.
    value.pop("apiVersion", None)
    value.pop("kind", None)
    holder, key = chance.choice([*places(value), ({}, "")])
    if isinstance(key, str) and chance.random() < 0.5:
        key = key.swapcase()
    holder[key] = chance.choice(ODD_VALUES)
    return Object(item.kind, json.dumps(value))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container below value with each of its keys."""
    if isinstance(value, (dict, list)):
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from places(item)


def table() -> set[tuple[str, str]]:
    """Message and name of each field of the table."""
    return {(message, name) for message, entries in MESSAGES.items() for name in entries}


def used(objects: list[Object]) -> set[tuple[str, str]]:
    """Message and name of each field that has a value in one of the objects."""
    return {found for item in objects for found in used_below(item.kind, json.loads(item.json))}


def used_below(message: str, value: Any) -> Iterator[tuple[str, str]]:
    for name, (_, _, kind, child) in MESSAGES[message].items():
        item = (value or {}).get(name)
        if item is None:
            continue
        yield message, name
        if kind == "message":
            for each in item if isinstance(item, list) else [item]:
                yield from used_below(child, each)
    for inlined in INLINE.get(message, {}):
        yield from used_below(inlined, value)
