"""Every compiled guest in a checkout of kube-scheduler-wasm-extension does here what upstream's tests want of it.

The table is that of upstream's commit 9b2791f.
"""

import re
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace

import pytest

from tests.upstream.checkout import CHECKOUT, with_checkout
from tests.upstream.play import Played, Row, play
from tests.upstream.table import NOT_OF_GUESTS, TABLE
from wasm_runtime import WasmtimeEngine
from wasm_runtime.engine import Engine

SOURCES = (
    "scheduler/plugin/plugin_test.go",
    "internal/e2e/scheduler/imagelocality_test.go",
    "internal/e2e/scheduler/nodenumber_test.go",
)
"""Upstream's tests that run guests."""

pytestmark = with_checkout


@pytest.fixture(scope="module")
def engine() -> Engine:
    """The real engine, which compiles each guest once."""
    return SimpleNamespace(compile=cache(WasmtimeEngine().compile))


ROWS = [
    pytest.param(guest, row, id=f"{guest.removesuffix('.wasm')}: {row.case or row.asked}")
    for guest, rows in TABLE.items()
    for row in rows
]


@pytest.mark.parametrize(("guest", "row"), ROWS)
def test_a_guest_does_what_upstream_wants(engine: Engine, guest: str, row: Row) -> None:
    assert play(engine, CHECKOUT, guest, row) == Played(row.expected, list(row.records), list(row.uids))


def test_every_guest_of_the_checkout_is_in_the_table() -> None:
    assert {guest.relative_to(CHECKOUT).as_posix() for guest in CHECKOUT.rglob("*.wasm")} == TABLE.keys()


def test_every_case_of_upstream_is_in_the_table() -> None:
    cases = {case for source in SOURCES for case in _cases((CHECKOUT / source).read_text())}
    cited = {row.case for rows in TABLE.values() for row in rows if row.case}
    assert cases - NOT_OF_GUESTS == cited


def _cases(source: str) -> Iterator[str]:
    """The tests of a Go source, as `function/case` where they have cases."""
    for function in source.split("\nfunc ")[1:]:
        name = function[: function.index("(")]
        if name.lower().startswith("test"):
            titles = re.findall(r'(?:\bname:\s+|t\.Run\()"(.+?)",', function)
            yield from (f"{name}/{title}" for title in titles) if titles else [name]
