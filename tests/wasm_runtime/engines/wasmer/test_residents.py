"""Guests that keep nodes, in wasmer."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wasm_runtime import keeper
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guests import binary
from tests.wasm_runtime.world import world
from wasm_runtime import Fault, GuestError
from wasm_runtime.engine import Call
from wasm_runtime.engines.wasmer import WasmerEngine
from wasm_runtime.engines.wasmer.engine import WasmerModule


@pytest.fixture(scope="module")
def keeping(engine: WasmerEngine) -> WasmerModule:
    return engine.compile(binary(keeper.GUEST))


@pytest.fixture(autouse=True)
def _many_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasm_runtime.snapshot.SLACK", keeper.SLACK)


@given(steps=st.lists(keeper.STEP, max_size=40))
@settings(max_examples=60, deadline=None)
def test_several_instances_after_any_changes(keeping: WasmerModule, steps: list[tuple[str, object]]) -> None:
    keeper.play(keeping, steps)


ONE = world({"node-a": b"A"})


class TestDeadline:
    """One that has passed before a call begins."""

    def test_breaks_a_guest_that_is_being_told_of_nodes(self, load: Loader) -> None:
        """Nobody knows what it knows then."""
        instance = load.instance(keeper.GUEST, timeout=0.25)
        with pytest.raises(GuestError) as caught:
            instance.level(ONE.nodes, time.monotonic() - 1)
        message = "nodechanged of node node-a: not called: its timeout of 250 ms was over"
        assert (str(caught.value), caught.value.fault, caught.value.fatal) == (message, Fault.DEADLINE, True)

    def test_breaks_no_guest_that_is_asked_or_collects_garbage(self, load: Loader) -> None:
        collects = '(func (export "collectgarbage"))'
        instance = load.instance(keeper.GUEST.replace("(memory", f"{collects} (memory", 1), timeout=0.25)
        assert instance.level(ONE.nodes, time.monotonic() + 30)
        past = Call(ONE.nodes, time.monotonic() - 1)
        for name, does in (
            ("filternodes", lambda: instance.at_once("filternodes", past, -1)),
            ("collectgarbage", lambda: instance.collect(past.deadline)),
        ):
            with pytest.raises(GuestError) as caught:
                does()
            message = f"{name}: not called: its timeout of 250 ms was over"
            assert (str(caught.value), caught.value.fault, caught.value.fatal) == (message, Fault.DEADLINE, False)
        instance.collect(time.monotonic() + 30)
        results = instance.at_once("filternodes", Call(ONE.nodes, time.monotonic() + 30), -1)
        assert results is not None
        assert results.nodes == keeper.expected({"node-a": b"A"}, ["node-a"])
