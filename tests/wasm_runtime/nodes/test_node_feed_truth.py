"""Guests that keep nodes answer from what they keep: always as if they looked at each node anew."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.patience import PATIENCE_S
from tests.wasm_runtime import keeper
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import binary
from tests.wasm_runtime.keeper import SLACK, STEP, STEP_OR_CARRY, Truth, expected, play
from wasm_runtime import Nodes, NodeTable, Pod, WasmtimeEngine
from wasm_runtime.engines.wasmtime.engine import WasmtimeModule
from wasm_runtime.guests.maintenance import GuestMaintenance
from wasm_runtime.nodes.node_feed import NodeFeed
from wasm_runtime.nodes.node_table import ABSENT


@pytest.fixture(scope="module")
def keeping(engine: WasmtimeEngine) -> Iterator[WasmtimeModule]:
    yield engine.compile(binary(keeper.GUEST))


@pytest.fixture(autouse=True)
def _many_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", SLACK)


@given(steps=st.lists(STEP_OR_CARRY, max_size=40))
@example(steps=[("put", {"n0": b"0"}), ("tell", (0, 1)), ("remove", ["n0"]), ("locate", ["x", "y", "z"]), ("put", {})])
@settings(max_examples=150, deadline=None)
def test_several_instances_after_any_changes(keeping: WasmtimeModule, steps: list[tuple[str, Any]]) -> None:
    play(keeping, steps)


@given(steps=st.lists(STEP, max_size=60))
@settings(max_examples=200, deadline=None)
def test_what_is_told_is_in_order(steps: list[tuple[str, Any]]) -> None:
    """Nobody is gone who was not there, and no name stands for two numbers."""
    truth, feed = Truth(), NodeFeed()
    known: dict[int, tuple[str, bytes]] = {}
    source, epoch, position = truth.node_table, -1, 0
    for step, argument in [*steps, *[("tell", (0, 3))] * 10]:
        if step not in {"tell", "ask"}:
            getattr(truth, step)(argument)
            continue
        if truth.node_table is not source:
            source, epoch = truth.node_table, -1
            feed.forget_table()
        changes = source.changes(epoch, position)
        if changes:
            feed.add(changes)
            epoch, position = changes.epoch, changes.position
        if step == "ask":
            continue
        everything = source.everything().nodes
        removed, changed = feed.take(argument[1])
        assert len(removed) + len(changed) <= argument[1]
        for at in removed:
            del known[at]
        for at in changed:
            _, name, node = everything[at]
            assert node is not ABSENT
            assert known.get(at, (name, ABSENT))[0] == name
            assert name not in {other for number, (other, _) in known.items() if number != at}
            assert known.get(at) != (name, node)
            known[at] = (name, node)
    assert feed.is_synced
    assert sorted(known.values()) == sorted(truth.objects.items())


def test_beside_maintenance_and_in_several_threads(load: Loader) -> None:
    """What changes before a request counts for it, whatever maintenance has come to and whichever guest it gets."""
    errors: list[Exception] = []
    dice = random.Random(1)
    plugin = load.plugin(keeper.GUEST, instances=3)
    maintenance = GuestMaintenance(lambda: [plugin], lambda: node_table, lambda _, error: errors.append(error))
    node_table = NodeTable(maintenance.wake)
    objects: dict[str, bytes] = {}
    names = [f"node-{at}" for at in range(60)]

    def filters(uid: int) -> None:
        asked = random.Random(uid).sample(sorted(objects) if uid % 2 else names, 10)
        nodes = Nodes(node_table, asked)
        with plugin.guest(Pod(str(uid), "default/pod", b""), nodes, "filter") as (guest, deadline):
            assert guest.filter(nodes, deadline) == expected(objects, asked)

    maintenance.start()
    try:
        with ThreadPoolExecutor(3) as threads:
            for number in range(60):
                changed = {name: dice.randbytes(3) for name in dice.sample(names, 30)}
                gone = dice.sample(names, 20)
                objects |= changed
                node_table.put(changed.items())
                for name in gone:
                    objects.pop(name, None)
                    node_table.remove(name)
                for done in [threads.submit(filters, 5 * number + at) for at in range(5)]:
                    done.result(PATIENCE_S)
    finally:
        maintenance.stop()
    assert errors == []
    assert len(plugin._pool) <= 3
