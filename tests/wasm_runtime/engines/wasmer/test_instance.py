"""Guests in wasmer: what is looked at in the place of limits, and that nothing else is lost for lack of them."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.patience import PATIENCE_S
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import (
    EXIT,
    LOG,
    NODE,
    NODE_NAME,
    NOW,
    POD,
    REASON,
    TEXT,
    binary,
    call,
    export,
    module,
)
from tests.wasm_runtime.world import each, filter_nodes, once, pre_filter, world
from wasm_runtime import Fault, GuestError, Plugin, Settings
from wasm_runtime.abi import HostDocument
from wasm_runtime.engine import MEBIBYTE, Call, CallResult, Instance, NodeResults, NoHandle
from wasm_runtime.engines.wasmer import WasmerEngine

ONE = world({"node-a": b"A"})
TWO = world()

NOOP = module(export("filter", "(i32.const 0)"), export("prefilter", "(i32.const 0)"))


def pause(milliseconds: int) -> str:
    """Waits, by looking at the clock."""
    now = f"(drop (call ${NOW} (i32.const 1) (i64.const 0) (i32.const 64))) (i64.load (i32.const 64))"
    return (
        f"(local.set $end (i64.add (i64.const {milliseconds * 1_000_000}) (block (result i64) {now})))"
        f" (loop $wait (br_if $wait (i64.lt_u (block (result i64) {now}) (local.get $end))))"
    )


def failure(does: Callable[[], object]) -> tuple[str, Fault, bool]:
    with pytest.raises(GuestError) as caught:
        does()
    return str(caught.value), caught.value.fault, caught.value.fatal


class TestDeadline:
    COUNTS = module(
        "(global $calls (mut i32) (i32.const 0))",
        export(
            "filter",
            pause(50),
            "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))",
            "(global.get $calls)",
            local="(local $end i64)",
        ),
        export("prefilter", "(global.get $calls)"),
        uses=[NOW],
    )

    def test_that_has_passed_keeps_a_call_from_beginning(self, load: Loader) -> None:
        instance = load.instance(self.COUNTS, timeout=0.25)
        instance.begin(b"")
        late = Call(ONE.nodes, time.monotonic() - 1)
        for export_, where, does in (
            ("filter", "filter of node node-a", lambda: instance.each("filter", late, -1)),
            ("prefilter", "prefilter", lambda: instance.once("prefilter", late)),
        ):
            message = f"{where}: not called: its timeout of 250 ms was over"
            assert failure(does) == (message, Fault.DEADLINE, False), export_
        assert once(instance, ONE) == CallResult(0, 0, "")

    def test_that_passes_between_two_nodes_ends_the_call_there(self, load: Loader) -> None:
        instance = load.instance(self.COUNTS, timeout=0.25)
        instance.begin(b"")
        soon = Call(TWO.nodes, time.monotonic() + 0.02)
        message = "filter of node node-b: not called: its timeout of 250 ms was over"
        assert failure(lambda: instance.each("filter", soon, -1)) == (message, Fault.DEADLINE, False)
        assert once(instance, ONE) == CallResult(1, 0, "")

    def test_that_passes_while_a_guest_runs_is_seen_afterwards(self, load: Loader) -> None:
        instance = load.instance(self.COUNTS, timeout=0.25)
        instance.begin(b"")
        soon = Call(ONE.nodes, time.monotonic() + 0.02)
        message = "filter: returned after its timeout of 250 ms: wasmer interrupts no guest"
        assert failure(lambda: instance.each("filter", soon, -1)) == (message, Fault.DEADLINE, False)
        assert once(instance, ONE) == CallResult(1, 0, "")

    def test_counts_for_the_start_too(self, load: Loader) -> None:
        guest = module(
            f'(func (export "_start") (local $end i64) {pause(50)})', export("filter", "(i32.const 0)"), uses=[NOW]
        )
        message = "_start: returned after its timeout of 20 ms: wasmer interrupts no guest"
        assert failure(lambda: load.plugin(guest, timeout=0.02)) == (message, Fault.DEADLINE, False)


class TestMemory:
    GROWS = module(export("filter", "(drop (memory.grow (i32.const 32)))", "(i32.const 0)"), pages="16")

    def test_of_a_module_that_is_larger_than_its_limit_at_once(self, load: Loader) -> None:
        message = "instantiate: memory minimum size of 16 pages exceeds memory limits"
        assert failure(lambda: load.plugin(self.GROWS, memory_limit=MEBIBYTE - 1)) == (message, Fault.MEMORY, True)

    def test_may_grow_to_its_limit(self, load: Loader) -> None:
        plugin = load.plugin(self.GROWS, memory_limit=3 * MEBIBYTE)
        assert filter_nodes(plugin, ONE) == NodeResults(1, b"", [], [])

    def test_beyond_the_limit_is_found_when_the_call_is_over(self, load: Loader) -> None:
        plugin = load.plugin(self.GROWS, memory_limit=3 * MEBIBYTE)
        message = "filter: its memory has grown to 5 of 3 MiB"
        assert failure(lambda: filter_nodes(plugin, TWO)) == (message, Fault.MEMORY, True)
        load.settle()
        assert filter_nodes(plugin, ONE) == NodeResults(1, b"", [], [])

    def test_that_has_grown_is_seen_by_host_functions_at_once(self, load: Loader) -> None:
        guest = module(
            export(
                "filter",
                f"(drop {call(NODE_NAME, 0, 8)})",
                "(drop (memory.grow (i32.const 1)))",
                f"(drop {call(NODE_NAME, 2 * 65_536 - 6, 6)})",
                call(REASON, 2 * 65_536 - 6, 6),
                "(i32.const 2)",
            ),
            uses=[NODE_NAME, REASON],
        )
        assert filter_nodes(load.plugin(guest), TWO).reasons == ["node-a", "node-b"]

    def test_a_document_that_is_larger_than_it_is_not_handed_over(self, load: Loader) -> None:
        guest = module(export("prefilter", call("k8s.io/api/nodeList", 0, 100)), uses=["k8s.io/api/nodeList"])
        instance = load.instance(guest, memory_limit=65_536)
        documents = {HostDocument.NODE_LIST: lambda: b"x" * 65_537}
        message = "prefilter: more than the host gives or takes in one call: 65537 bytes are more than its memory limit"
        assert failure(lambda: once(instance, ONE, documents=documents)) == (message, Fault.LIMIT, False)
        assert once(instance, ONE, documents={HostDocument.NODE_LIST: lambda: b"x" * 65_536}) == CallResult(
            65_536, 0, ""
        )

    def test_is_told(self, load: Loader) -> None:
        instance = load.instance(self.GROWS)
        assert instance.memory_size == 16 * 65_536
        each(instance, TWO)
        assert instance.memory_size == (16 + 2 * 32) * 65_536
        instance.close()
        assert instance.memory_size == 0


LARGE: Final = " ".join(["v128"] * 240)


def recursing(*body: str) -> str:
    """A guest whose filter calls itself without end and does something each time, with frames of almost 4 KiB."""
    return module(
        f"(func $make (result {LARGE}) unreachable) (func $use (param {LARGE}))",
        "(global $never (mut i32) (i32.const 0))",
        export(
            "filter",
            "(if (global.get $never) (then (call $make) (call $filter) (drop) (call $use)))",
            *body,
            "(i32.add (i32.const 1) (call $filter))",
        ),
        uses=[LOG, NODE],
        text="node-a",
    )


class TestStack:
    @pytest.mark.parametrize(
        ("body", "host"),
        [
            (call(LOG, 0, TEXT, 6), "k8s.io/klog/log < "),
            (f"(drop {call(NODE, TEXT, 6, 0, 64)})", "k8s.io/api/node < "),
        ],
    )
    def test_that_ends_where_the_host_is_asked_is_a_trap(
        self, load: Loader, engine: WasmerEngine, body: str, host: str
    ) -> None:
        """Not an end in the middle of Python, over whose frames wasmer passes, and which then loses count of them."""
        plugin = load.plugin(recursing(body))
        message = f"filter of node node-a: trap: stack overflow in {host}{'filter < ' * 12}…"
        for _ in range(40):
            assert failure(lambda: filter_nodes(plugin, ONE)) == (message, Fault.STACK, True)

        def deep(calls: int) -> int:
            return calls and 1 + deep(calls - 1)

        assert engine.thread.run(deep, 900) == 900

    def test_that_ends_in_the_guest_is_one_too(self, load: Loader) -> None:
        plugin = load.plugin(recursing())
        message = f"filter of node node-a: trap: stack overflow in {'filter < ' * 12}…"
        assert failure(lambda: filter_nodes(plugin, ONE)) == (message, Fault.STACK, True)


class TestThreads:
    """Instances are handed from thread to thread, and nobody knows where one is dropped."""

    def test_an_instance_may_be_used_in_any(self, load: Loader) -> None:
        instance = load.instance(NOOP)
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda _: once(instance, ONE), range(20)))
            threads.submit(instance.close).result(PATIENCE_S)
        assert results == [CallResult(0, 0, "")] * 20
        instance.close()

    def test_many_threads_may_have_one_plugin(self, load: Loader) -> None:
        """Each sees its own pod, whichever guest it gets."""
        tells_pod = f"{call(REASON, 0, f'(call ${POD} (i32.const 0) (i32.const 64))')} (i32.const 2)"
        plugin = load.plugin(module(export("filter", tells_pod), uses=[POD, REASON]), instances=3)

        def ask(number: int) -> str:
            at = TWO.with_pod(f"{number}", f"pod {number}".encode())
            return ", ".join(filter_nodes(plugin, at).reasons)

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(ask, range(200))) == [f"pod {number}, pod {number}" for number in range(200)]

    def test_an_instance_that_nobody_closed_may_be_dropped_in_any(self, engine: WasmerEngine) -> None:
        guest = module(export("filter", f"(drop {call(NODE_NAME, 0, 8)})", "unreachable"), uses=[NODE_NAME])
        compiled = engine.compile(binary(guest))

        def use() -> tuple[str, Fault, bool]:
            instance = compiled.instantiate(Settings("plugin"), NoHandle())
            return failure(lambda: each(instance, ONE))

        for _ in range(3):
            assert use()[1] is Fault.TRAP
            gc.collect()

    def test_a_broken_guest_is_replaced_in_another(self, load: Loader) -> None:
        plugin = load.plugin(module(export("filter", "unreachable"), export("prefilter", "(i32.const 0)")))
        for _ in range(3):
            failure(lambda: filter_nodes(plugin, ONE))
            load.settle()
            assert pre_filter(plugin, ONE).names is None

    def test_a_plugin_that_is_open_when_the_interpreter_ends_makes_no_noise(self) -> None:
        program = f"""
from tests.wasm_runtime.guest_modules import binary
from tests.wasm_runtime.world import filter_nodes, world
from wasm_runtime import Plugin, Settings
from wasm_runtime.engines.wasmer import WasmerEngine
plugin = Plugin(WasmerEngine(), binary({NOOP!r}), Settings("plugin", timeout=30))
print(filter_nodes(plugin, world()).called)
"""
        ended = subprocess.run(
            [sys.executable, "-c", program], check=False, timeout=PATIENCE_S, capture_output=True, text=True
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2\n", "")


def mappings() -> int:
    """The number of memory mappings of this process: each wasm memory has some."""
    maps = Path("/proc/self/maps")
    return len(maps.read_text().splitlines()) if maps.exists() else 0


def reload(engine: WasmerEngine) -> None:
    Plugin(engine, binary(NOOP), Settings("plugin", timeout=30)).close()


def fail_to_start(engine: WasmerEngine) -> None:
    guest = module(f'(func (export "_start") {call(EXIT, 1)})', export("filter", "(i32.const 0)"), uses=[EXIT])
    failure(lambda: Plugin(engine, binary(guest), Settings("plugin", timeout=30)))


@pytest.mark.parametrize("life", [reload, fail_to_start])
def test_nothing_is_left_of_a_module(engine: WasmerEngine, life: Callable[[WasmerEngine], None]) -> None:
    """Neither of its instances nor of its code."""

    def live(times: int) -> int:
        for _ in range(times):
            life(engine)
        gc.collect()
        return mappings()

    assert live(20) + 40 > live(100)


def test_a_closed_instance_that_someone_holds_has_no_memory(engine: WasmerEngine) -> None:
    compiled = engine.compile(binary(NOOP))

    def closed() -> Instance:
        instance = compiled.instantiate(Settings("plugin"), NoHandle())
        instance.close()
        return instance

    before = mappings()
    assert [closed().memory_size for _ in range(3)] == [0] * 3
    held = [closed() for _ in range(100)]
    assert (len(held), mappings() < before + 50) == (100, True)


class TestStartSection:
    GLOBAL = "(global $started (mut i32) (i32.const 0)) (func $early (global.set $started (i32.const 2)))"

    def test_runs_before_the_start_export(self, load: Loader) -> None:
        guest = module(
            self.GLOBAL,
            "(start $early)",
            '(func (export "_start") (global.set $started (i32.add (global.get $started) (i32.const 1))))',
            export("filter", "(global.get $started)"),
        )
        assert filter_nodes(load.plugin(guest), ONE).codes == b"\x03"

    def test_is_nothing_that_a_module_exports(self, engine: WasmerEngine) -> None:
        compiled = engine.compile(binary(module(self.GLOBAL, "(start $early)", export("filter", "(i32.const 0)"))))
        assert list(compiled.exports) == ["memory", "filter"]
