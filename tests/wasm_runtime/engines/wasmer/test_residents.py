"""Guests that keep nodes and pods, in wasmer."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wasm_runtime import group_keeper, keeper, pod_keeper
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import NOW, binary, export, module
from tests.wasm_runtime.world import world
from wasm_runtime import Fault, GuestError
from wasm_runtime.engine import Call
from wasm_runtime.engines.wasmer import WasmerEngine
from wasm_runtime.engines.wasmer.engine import WasmerModule
from wasm_runtime.pods.pod_table import ResidentPod


@pytest.fixture(scope="module")
def keeping(engine: WasmerEngine) -> WasmerModule:
    return engine.compile(binary(keeper.GUEST))


@pytest.fixture(scope="module")
def keeping_pods(engine: WasmerEngine) -> WasmerModule:
    return engine.compile(binary(pod_keeper.GUEST))


@pytest.fixture(scope="module")
def keeping_groups(engine: WasmerEngine) -> WasmerModule:
    return engine.compile(binary(group_keeper.GUEST))


@pytest.fixture(autouse=True)
def _many_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", keeper.SLACK)


@given(steps=st.lists(keeper.STEP_OR_CARRY, max_size=40))
@settings(max_examples=60, deadline=None)
def test_several_instances_after_any_changes(keeping: WasmerModule, steps: list[tuple[str, object]]) -> None:
    keeper.play(keeping, steps)


@given(steps=st.lists(pod_keeper.STEP, max_size=40))
@settings(max_examples=60, deadline=None)
def test_several_instances_after_any_changes_of_pods(
    keeping_pods: WasmerModule, steps: list[tuple[str, object]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        pod_keeper.small_batches(patch)
        pod_keeper.play(keeping_pods, steps)


@given(steps=st.lists(group_keeper.STEP, max_size=40))
@settings(max_examples=60, deadline=None)
def test_several_instances_after_any_changes_of_groups(
    keeping_groups: WasmerModule, steps: list[tuple[str, object]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        pod_keeper.small_batches(patch)
        group_keeper.play(keeping_groups, steps)


ONE = world({"node-a": b"A"})

WAITS = module(
    '(func (export "nodechanged") (param i32))',
    '(func (export "noderemoved") (param i32) (local $end i64)',
    "  (local.set $end (i64.add (i64.const 600000000) (call $now)))",
    "  (loop $wait (br_if $wait (i64.lt_u (call $now) (local.get $end)))))",
    "(func $now (result i64)",
    f"  (drop (call ${NOW} (i32.const 1) (i64.const 0) (i32.const 64))) (i64.load (i32.const 64)))",
    export("filter", "(i32.const 0)"),
    uses=[NOW],
)
"""Takes 0.6 seconds for each node that is gone."""


def test_a_guest_that_was_told_of_some_news_too_late_is_broken(load: Loader) -> None:
    """The rest would never be told."""
    at = world({"node-a": b"A", "node-b": b"B"})
    instance = load.instance(WAITS, timeout=0.5)
    assert instance.sync_nodes(at.nodes, time.monotonic() + 30)
    at.node_table.remove("node-a")
    at.node_table.put([("node-b", b"X")])
    with pytest.raises(GuestError) as caught:
        instance.sync_nodes(at.nodes, time.monotonic() + 0.5)
    message = "noderemoved: returned after its timeout of 500 ms: wasmer interrupts no guest"
    assert (str(caught.value), caught.value.fault, caught.value.fatal) == (message, Fault.DEADLINE, True)


def test_the_time_of_being_told_counts_each_time_and_where_it_fails(load: Loader) -> None:
    at = world({"node-a": b"A"}, names=["node-a", "unknown"])
    instance = load.instance(keeper.GUEST, timeout=30)
    call = Call(at.nodes, time.monotonic() + 30)
    assert instance.at_once("filternodes", call, -1) is None
    before = call.sync_seconds
    instance.each("filter", call, -1)
    between = call.sync_seconds
    at.node_table.put([("node-a", b"X")])
    call.deadline = time.monotonic() - 1
    with pytest.raises(GuestError) as caught:
        instance.each("filter", call, -1)
    message = "nodechanged: its time was over while it learned of nodes: 1 of 1 are told"
    assert (str(caught.value), caught.value.fault, caught.value.fatal) == (message, Fault.BUSY, False)
    assert call.sync_seconds > between > before > 0


class TestDeadline:
    """One that has passed before a call begins."""

    def test_breaks_a_guest_that_is_being_told_of_nodes(self, load: Loader) -> None:
        """Nobody knows what it knows then."""
        instance = load.instance(keeper.GUEST, timeout=0.25)
        with pytest.raises(GuestError) as caught:
            instance.sync_nodes(ONE.nodes, time.monotonic() - 1)
        message = "nodechanged of node node-a: not called: its timeout of 250 ms was over"
        assert (str(caught.value), caught.value.fault, caught.value.fatal) == (message, Fault.DEADLINE, True)

    def test_breaks_a_guest_that_is_being_told_of_pods(self, load: Loader) -> None:
        at = world({})
        at.node_table.pods.put([("x", ResidentPod("node-a", b"X"))])
        instance = load.instance(pod_keeper.GUEST, timeout=0.25)
        with pytest.raises(GuestError) as caught:
            instance.sync_nodes(at.nodes, time.monotonic() - 1)
        message = "podbuffer: not called: its timeout of 250 ms was over"
        assert (str(caught.value), caught.value.fault, caught.value.fatal) == (message, Fault.DEADLINE, True)

    def test_breaks_no_guest_that_is_asked_or_collects_garbage(self, load: Loader) -> None:
        collects = '(func (export "collectgarbage"))'
        instance = load.instance(keeper.GUEST.replace("(memory", f"{collects} (memory", 1), timeout=0.25)
        assert instance.sync_nodes(ONE.nodes, time.monotonic() + 30)
        past = Call(ONE.nodes, time.monotonic() - 1)
        calls: dict[str, Callable[[], object]] = {
            "filternodes": lambda: instance.at_once("filternodes", past, -1),
            "collectgarbage": lambda: instance.collect(past.deadline),
        }
        for name, does in calls.items():
            with pytest.raises(GuestError) as caught:
                does()
            message = f"{name}: not called: its timeout of 250 ms was over"
            assert (str(caught.value), caught.value.fault, caught.value.fatal) == (message, Fault.DEADLINE, False)
        instance.collect(time.monotonic() + 30)
        results = instance.at_once("filternodes", Call(ONE.nodes, time.monotonic() + 30), -1)
        assert results is not None
        assert results.nodes == keeper.expected({"node-a": b"A"}, ["node-a"])
