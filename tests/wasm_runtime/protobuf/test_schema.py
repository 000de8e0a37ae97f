"""The table is the one that the Go types make, and encoding by it comes to an end."""

from pathlib import Path

import pytest

from wasm_runtime.protobuf import schema
from wasm_runtime.protobuf.schema import INLINE, MESSAGES

from .oracle import GoTypes

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.


def test_is_what_the_generator_prints(gotypes: GoTypes) -> None:
    """A newer k8s.io/api in tests/gotypes/go.mod needs a new table: see the head of schema.py."""
    assert Path(schema.__file__).read_text(encoding="utf-8") == gotypes.schema()


def test_every_message_that_is_named_exists() -> None:
    named = {field[3] for fields in MESSAGES.values() for field in fields.values()}
    inlined = {name for names in INLINE.values() for name in names}
    assert (named | inlined) - {""} <= MESSAGES.keys()


def test_field_numbers_are_distinct_within_a_message() -> None:
    for message, fields in MESSAGES.items():
        numbers = [field[0] for field in fields.values()] + list(INLINE.get(message, {}).values())
        assert len(set(numbers)) == len(numbers), message


def test_nesting_is_bounded() -> None:
    """The encoder recurses by the table, so this is its deepest recursion."""
    assert depth("Pod") == 9
    assert depth("Node") == 5


def depth(message: str) -> int:
    """How many messages are nested in each other at most."""
    below = {field[3] for field in MESSAGES[message].values()} | INLINE.get(message, {}).keys()
    return 1 + max((depth(child) for child in below - {""}), default=0)
