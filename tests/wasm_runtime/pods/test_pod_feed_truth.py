"""Guests that keep pods know them as they are, whatever happens to pods and nodes meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import PATIENCE_S
from tests.wasm_runtime import pod_keeper
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import binary
from tests.wasm_runtime.pod_keeper import STEP, play
from tests.wasm_runtime.world import core_guest, idle_guests, pods_told, until
from wasm_runtime import Nodes, NodeTable, Pod, WasmtimeEngine
from wasm_runtime.engines.wasmtime.engine import WasmtimeModule
from wasm_runtime.guests.maintenance import GuestMaintenance
from wasm_runtime.pods.pod_table import ResidentPod


@pytest.fixture(scope="module")
def keeping(engine: WasmtimeEngine) -> Iterator[WasmtimeModule]:
    yield engine.compile(binary(pod_keeper.GUEST))


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pod_keeper.small_batches(monkeypatch)


@given(steps=st.lists(STEP, max_size=40))
@settings(max_examples=150, deadline=None)
def test_several_instances_after_any_changes(keeping: WasmtimeModule, steps: list[tuple[str, Any]]) -> None:
    play(keeping, steps)


def test_beside_maintenance_and_in_several_threads(load: Loader) -> None:
    """What changes before a request counts for it, whatever maintenance has come to and whichever guest it gets."""
    errors: list[Exception] = []
    dice = random.Random(1)
    plugin = load.plugin(pod_keeper.GUEST, instances=3)
    maintenance = GuestMaintenance(lambda: [plugin], lambda: truth.node_table, lambda _, error: errors.append(error))
    truth = pod_keeper.Truth(maintenance.wake)

    def asks(uid: int) -> None:
        nodes = Nodes(truth.node_table, ())
        with plugin.guest(Pod(str(uid), "default/pod", b""), nodes, "filter") as (guest, _):
            truth.check(core_guest(guest)._instance)

    maintenance.start()
    try:
        with ThreadPoolExecutor(3) as threads:
            for number in range(60):
                uids = dice.sample(pod_keeper.UIDS, 4)
                nodes = [dice.choice(["", "n0", "n1", "n2", "x"]) for _ in uids]
                truth.put_pods({uid: ResidentPod(node, b"%d" % number) for uid, node in zip(uids, nodes, strict=True)})
                truth.remove_pods(dice.sample(pod_keeper.UIDS, 2))
                truth.put({name: dice.randbytes(3) for name in dice.sample(["n0", "n1", "n2", "n3"], 2)})
                truth.remove(dice.sample(["n0", "n1", "n2", "n3"], 1))
                for done in [threads.submit(asks, 5 * number + at) for at in range(5)]:
                    done.result(PATIENCE_S)
    finally:
        maintenance.stop()
    assert errors == []


def test_changes_of_pods_alone_wake_maintenance(load: Loader) -> None:
    """Nobody calls the guest meanwhile."""
    plugin = load.plugin(pod_keeper.GUEST)
    maintenance = GuestMaintenance(lambda: [plugin], lambda: node_table, lambda _, error: errors.append(error))
    node_table, errors = NodeTable(maintenance.wake), list[Exception]()
    maintenance.start()
    try:
        for count in (5, 0):
            node_table.pods.replace({str(at): ResidentPod("n0", b"P") for at in range(count)})
            until(lambda: [*map(pods_told, idle_guests(plugin._pool))] == [count])  # noqa: B023 (called at once)
    finally:
        maintenance.stop()
    assert errors == []
