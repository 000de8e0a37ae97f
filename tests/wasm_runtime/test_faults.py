"""Traps, exits, deadlines and limits: what is said of them, and that their instance is never used again."""

import time
from collections.abc import Callable
from functools import partial

import pytest
import wasmtime

from tests.patience import Beside, delay, wait_until
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import EXIT, NOW, POD, REASON, SPIN, TEXT, WRITE, call, export, module
from tests.wasm_runtime.world import World, each, filter_nodes, once, post_filter, pre_filter, score, whole_code, world
from wasm_runtime import Fault, GuestError, ModuleError, Plugin, WasmtimeEngine
from wasm_runtime.engine import CallResult, NodeResults
from wasm_runtime.errors import TrapKind

ONE = world({"node-a": b"A"})
NOOP = export("filter", "(i32.const 0)")


def failure(plugin: Plugin, at: World, run: Callable[[Plugin, World], object] = filter_nodes) -> GuestError:
    with pytest.raises(GuestError) as caught:
        run(plugin, at)
    return caught.value


def brief(fault: Fault) -> float:
    """A timeout that is waited for only where it is the fault."""
    return 0.04 if fault is Fault.DEADLINE else 10


MOODY = module(
    # What filter does is the pod's first byte; else it rejects, with the number of calls as the reason.
    "(global $calls (mut i32) (i32.const 48))",
    "(func $deep (param $n i64) (result i64) (i64.add (i64.const 1) (call $deep (local.get $n))))",
    export(
        "filter",
        "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))",
        "(i32.store8 (i32.const 64) (global.get $calls))",
        call(REASON, 64, 1),
        "(drop (call $k8s.io/scheduler/currentPod (i32.const 0) (i32.const 64)))",
        "(local.set $mood (i32.load8_u (i32.const 0)))",
        f"(if (i32.eq (local.get $mood) (i32.const {ord('e')})) (then (return (i32.const 1))))",
        f"(if (i32.eq (local.get $mood) (i32.const {ord('w')})) (then (return (i32.const 4))))",
        f"(if (i32.eq (local.get $mood) (i32.const {ord('t')})) (then unreachable))",
        f"(if (i32.eq (local.get $mood) (i32.const {ord('x')})) (then {call(EXIT, 0)}))",
        f"(if (i32.eq (local.get $mood) (i32.const {ord('s')})) (then {SPIN}))",
        f"(if (i32.eq (local.get $mood) (i32.const {ord('d')})) (then (drop (call $deep (i64.const 0)))))",
        "(i32.const 2)",
        local="(local $mood i32)",
    ),
    uses=[REASON, POD, EXIT],
)


@pytest.mark.parametrize(
    ("mood", "message", "fault", "calls_after"),
    [
        (b"e", "filter of node node-a: 2", Fault.STATUS, "3"),
        (
            b"w",
            "filter of node node-a: status code 4 Wait (2) is none of"
            " 0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending",
            Fault.RESULT,
            "3",
        ),
        (b"t", "filter of node node-a: trap: unreachable in filter", Fault.TRAP, "1"),
        (b"x", "filter of node node-a: the guest left by exit status 0", Fault.EXIT, "1"),
        (b"s", "filter of node node-a: interrupted at its timeout of 300 ms", Fault.DEADLINE, "1"),
        (
            b"d",
            "filter of node node-a: trap: stack overflow in " + "deep < " * 12 + "…",
            Fault.STACK,
            "1",
        ),
    ],
)
def test_only_a_fatal_fault_costs_the_instance(
    load: Loader, open_instances: Callable[[], int], mood: bytes, message: str, fault: Fault, calls_after: str
) -> None:
    plugin = load.plugin(MOODY, timeout=0.3 if fault is Fault.DEADLINE else 10)
    assert filter_nodes(plugin, ONE) == NodeResults(1, b"\x02", [], ["1"])
    error = failure(plugin, ONE.with_pod("2", mood))
    assert (str(error), error.fault, error.fatal) == (message, fault, fault.is_fatal)
    assert error.trap is {"t": TrapKind.UNREACHABLE, "d": TrapKind.STACK_OVERFLOW}.get(mood.decode())
    load.settle()
    assert open_instances() == 1
    assert filter_nodes(plugin, ONE.with_pod("2")) == NodeResults(1, b"\x02", [], [calls_after])
    assert open_instances() == 1


def test_what_the_caller_raises_does_not_cost_the_instance(load: Loader) -> None:
    """It was not in the guest then."""
    plugin = load.plugin(MOODY)
    with pytest.raises(ZeroDivisionError), plugin.guest(ONE.pod, ONE.nodes, "filter") as (guest, deadline):
        assert guest.filter(ONE.nodes, deadline).reasons == ["1"]
        raise ZeroDivisionError
    assert filter_nodes(plugin, ONE).reasons == ["2"]


TRAP_KINDS = {kind.value for kind in TrapKind}
TRAPS = [
    ("unreachable", "unreachable"),
    ("(i32.load (i32.const 65533))", "memory out of bounds"),
    ("(i32.load offset=4294967295 (i32.const 4))", "memory out of bounds"),
    ("(i32.div_s (i32.const 1) (i32.const 0))", "integer division by zero"),
    ("(i32.div_s (i32.const -2147483648) (i32.const -1))", "integer overflow"),
    ("(i32.trunc_f32_s (f32.const nan))", "bad conversion to integer"),
    ("(call_indirect $none (result i32) (i32.const 0))", "indirect call to null"),
    ("(call_indirect $none (result i32) (i32.const 9))", "table out of bounds"),
    ("(call_indirect $other (result i32) (i32.const 0))", "bad signature"),
    ("(throw $failure)", "thrown Wasm exception"),
]


@pytest.mark.parametrize(("body", "name"), TRAPS)
def test_traps_by_name(load: Loader, body: str, name: str) -> None:
    guest = module(
        "(tag $failure)",
        "(table $none 1 funcref)",
        "(table $other funcref (elem $other))",
        "(func $other)",
        export("filter", body),
    )
    error = failure(load.plugin(guest), ONE)
    assert str(error) == f"filter of node node-a: trap: {name} in filter"
    assert error.fault is Fault.TRAP
    assert error.trap is (TrapKind(name) if name in TRAP_KINDS else TrapKind.OTHER)


def test_a_trap_names_the_node_and_the_way_to_it(load: Loader) -> None:
    guest = module(
        "(global $calls (mut i32) (i32.const 0))",
        "(func $panic unreachable)",
        "(func (call $panic))",
        export(
            "filter",
            "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))",
            "(if (i32.eq (global.get $calls) (i32.const 2)) (then (call 1)))",
            "(i32.const 0)",
        ),
    )
    error = failure(load.plugin(guest), world())
    assert str(error) == "filter of node node-b: trap: unreachable in panic < func[1] < filter"
    assert (error.export, error.node, error.cause) == (
        "filter",
        "node-b",
        "trap: unreachable in panic < func[1] < filter",
    )


def test_a_trap_of_a_guest_without_names(load: Loader) -> None:
    guest = '(module (memory (export "memory") 1) (func (export "filter") (result i32) unreachable))'
    assert str(failure(load.plugin(guest), ONE)) == "filter of node node-a: trap: unreachable in func[0]"


def test_a_guest_that_calls_itself_driver(load: Loader) -> None:
    """Its frames are taken for the driver's; that is all."""
    guest = MOODY.replace("(module $guest", "(module $kwx-driver")
    assert str(failure(load.plugin(guest), ONE.with_pod("2", b"t"))) == "filter of node node-a: trap: unreachable"


POINTS = [
    ("prefilter", "(i32.const 0)", pre_filter, "prefilter"),
    ("filter", "(i32.const 0)", filter_nodes, "filter of node node-a"),
    ("postfilter", "(i64.const 0)", post_filter, "postfilter"),
    ("prescore", "(i32.const 0)", score, "prescore"),
    ("score", "(i64.const 0)", score, "score of node node-a"),
    ("normalizescore", "(i32.const 0)", score, "normalizescore"),
]


@pytest.mark.parametrize(("name", "value", "run", "where"), POINTS)
@pytest.mark.parametrize(
    ("ending", "message", "fault"),
    [
        ("unreachable", "{where}: trap: unreachable in {name}", Fault.TRAP),
        (SPIN, "{where}: interrupted at its timeout of 40 ms", Fault.DEADLINE),
        (call(EXIT, 3), "{where}: the guest left by exit status 3", Fault.EXIT),
    ],
)
def test_every_point_can_fail(
    load: Loader,
    name: str,
    value: str,
    run: Callable[[Plugin, World], object],
    where: str,
    ending: str,
    message: str,
    fault: Fault,
) -> None:
    others = export("score", "(i64.const 0)") if name in {"prescore", "normalizescore"} else ""
    plugin = load.plugin(module(others, export(name, ending, value), uses=[EXIT]), timeout=brief(fault))
    error = failure(plugin, ONE, run)
    assert (str(error), error.fault) == (message.format(where=where, name=name), fault)


class TestStart:
    def start(self, *body: str, name: str = "_start") -> str:
        return module(
            f'(func ${name} (export "{name}") {" ".join(body)})',
            export("filter", "(i32.load (i32.const 0))"),
            uses=[EXIT, WRITE],
        )

    @pytest.mark.parametrize("name", ["_start", "_initialize"])
    def test_runs_once_before_all_else(self, load: Loader, name: str) -> None:
        increment = "(i32.store (i32.const 0) (i32.add (i32.const 2) (i32.load (i32.const 0))))"
        plugin = load.plugin(self.start(increment, name=name))
        for _ in range(2):
            assert filter_nodes(plugin, ONE).codes == b"\x02"

    @pytest.mark.parametrize("name", ["_start", "_initialize"])
    def test_may_leave_by_status_0(self, load: Loader, name: str) -> None:
        plugin = load.plugin(self.start("(i32.store (i32.const 0) (i32.const 2))", call(EXIT, 0), name=name))
        assert filter_nodes(plugin, ONE).codes == b"\x02"

    def test_of_two_only_the_commands_runs(self, load: Loader) -> None:
        guest = module(
            '(func (export "_start") (i32.store (i32.const 0) (i32.const 3)))',
            '(func (export "_initialize") (i32.store (i32.const 0) (i32.const 2)))',
            export("filter", "(i32.load (i32.const 0))"),
        )
        assert filter_nodes(load.plugin(guest), ONE).codes == b"\x03"

    @pytest.mark.parametrize(
        ("body", "message", "fault"),
        [
            (call(EXIT, 3), "_start: the guest left by exit status 3", Fault.EXIT),
            ("unreachable", "_start: trap: unreachable in _start", Fault.TRAP),
            (SPIN, "_start: interrupted at its timeout of 40 ms", Fault.DEADLINE),
            ("(call $_start)", "_start: trap: stack overflow in " + "_start < " * 12 + "…", Fault.STACK),
        ],
    )
    def test_may_fail(
        self, load: Loader, open_instances: Callable[[], int], body: str, message: str, fault: Fault
    ) -> None:
        with pytest.raises(GuestError) as caught:
            load.plugin(self.start(body), timeout=brief(fault))
        assert (str(caught.value), caught.value.fault) == (message, fault)
        assert open_instances() == 0

    @pytest.mark.parametrize(
        ("body", "message", "fault"),
        [
            ("unreachable", "instantiate: trap: unreachable in early", Fault.TRAP),
            (SPIN, "instantiate: interrupted at its timeout of 40 ms", Fault.DEADLINE),
            (call(EXIT, 0), "instantiate: the guest left by exit status 0", Fault.EXIT),
            (call(EXIT, 3), "instantiate: the guest left by exit status 3", Fault.EXIT),
        ],
    )
    def test_section_may_fail(
        self, load: Loader, open_instances: Callable[[], int], body: str, message: str, fault: Fault
    ) -> None:
        with pytest.raises(GuestError) as caught:
            load.plugin(module(f"(func $early {body}) (start $early)", NOOP, uses=[EXIT]), timeout=brief(fault))
        assert (str(caught.value), caught.value.fault) == (message, fault)
        assert open_instances() == 0

    def test_section_runs(self, load: Loader) -> None:
        guest = module(
            "(func $early (i32.store (i32.const 0) (i32.const 2))) (start $early)",
            export("filter", "(i32.load (i32.const 0))"),
        )
        assert filter_nodes(load.plugin(guest), ONE).codes == b"\x02"

    def test_data_outside_of_memory(self, load: Loader) -> None:
        with pytest.raises(GuestError) as caught:
            load.plugin(module('(data (i32.const 65535) "ab")', NOOP))
        assert str(caught.value) == "instantiate: trap: memory out of bounds"

    def test_is_part_of_the_time_of_the_verb(self, load: Loader) -> None:
        """A call that needs a new instance does not get the time back that this took to start."""
        now = f"(drop (call ${NOW} (i32.const 1) (i64.const 0) (i32.const 64))) (i64.load (i32.const 64))"
        wait = f"(loop $wait (br_if $wait (i64.lt_u (block (result i64) {now}) (local.get $end))))"
        end = f"(local $end i64) (local.set $end (i64.add (i64.const 100000000) (block (result i64) {now})))"
        plugin = load.plugin(module(f'(func (export "_start") {end} {wait})', NOOP, uses=[NOW]), timeout=1)
        first, second = (plugin.guest(ONE.pod, ONE.nodes, "filter") for _ in range(2))
        with first, second as (_, deadline):
            assert deadline - time.monotonic() < 0.9


class TestDeadline:
    SPINNER = module(export("filter", SPIN, "(i32.const 0)"))

    @pytest.mark.parametrize("timeout", [0.02, 0.1, 0.3])
    def test_is_kept(self, load: Loader, timeout: float) -> None:
        plugin = load.plugin(self.SPINNER, timeout=timeout)
        began = time.monotonic()
        assert failure(plugin, ONE).fault is Fault.DEADLINE
        assert time.monotonic() - began >= timeout

    def test_is_that_of_all_nodes_together(self, load: Loader) -> None:
        counting = "(local $n i32) (loop $more (local.set $n (i32.add (local.get $n) (i32.const 1)))"
        until = "(br_if $more (i32.lt_u (local.get $n) (i32.const 10000000))))"
        plugin = load.plugin(module(export("filter", until, "(i32.const 0)", local=counting)), timeout=0.05)
        error = failure(plugin, world(dict.fromkeys(map(str, range(10_000)), b"N")))
        assert error.fault is Fault.DEADLINE

    def test_in_the_past_is_met_at_once(self, load: Loader) -> None:
        plugin = load.plugin(self.SPINNER, timeout=3600)
        with pytest.raises(GuestError) as caught, plugin.guest(ONE.pod, ONE.nodes, "filter") as (guest, _):
            guest.filter(ONE.nodes, time.monotonic() - 100)
        assert caught.value.fault is Fault.DEADLINE

    def test_that_was_missed_is_not_left_over(self, load: Loader) -> None:
        """Neither for another instance nor for what the host calls for itself."""
        plugin = load.plugin(MOODY, timeout=0.5)
        failure(plugin, ONE.with_pod("s", b"s"))
        assert filter_nodes(plugin, ONE).reasons == ["1"]
        delay(0.6)
        many = world(dict.fromkeys(map(str, range(2_000)), b"N"))
        assert len(filter_nodes(plugin, many).codes) == 2_000

    def test_after_a_rest(self, load: Loader, engine: WasmtimeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        """The clock stops when nothing runs for a while, and goes on with the next call."""
        monkeypatch.setattr("wasm_runtime.engines.wasmtime.ticker.MAX_IDLE_TICKS", 2)
        plugin = load.plugin(MOODY, timeout=0.1)
        for _ in range(3):
            wait_until(lambda: not engine.ticker._awake.is_set(), "the clock goes on")
            began = time.monotonic()
            assert failure(plugin, ONE.with_pod("s", b"s")).fault is Fault.DEADLINE
            assert time.monotonic() - began >= 0.1

    def test_is_not_early_after_the_clock_was_held_up(self, load: Loader) -> None:
        """The host's own work keeps the clock's thread from running; that is not the guest's time."""
        plugin = load.plugin(self.SPINNER, timeout=0.1)
        for _ in range(3):
            failure(plugin, ONE)
            held = time.monotonic() + 0.25
            while time.monotonic() < held:
                bytes(20_000_000).count(1)
            began = time.monotonic()
            failure(plugin, ONE)
            assert time.monotonic() - began >= 0.1

    def test_of_several_threads(self, load: Loader) -> None:
        """Each instance has its own."""
        plugins = [load.plugin(self.SPINNER, timeout=timeout) for timeout in (2.0, 0.05)]
        took: dict[float, float] = {}

        def run(plugin: Plugin) -> None:
            began = time.monotonic()
            failure(plugin, ONE)
            took[plugin.settings.timeout] = time.monotonic() - began

        for running in [Beside(partial(run, plugin)) for plugin in plugins]:
            running.end()
        assert list(took) == [0.05, 2.0]
        assert all(seconds >= timeout for timeout, seconds in took.items())

    def test_of_random_numbers(self, load: Loader) -> None:
        fill = " ".join([f"(drop {call(RANDOM, 0, 64 << 20)})"] * 20) + " (i32.const 0)"
        plugin = load.plugin(module(export("filter", fill), uses=[RANDOM], pages="1024"), timeout=0.05)
        assert failure(plugin, ONE).fault is Fault.DEADLINE

    def test_of_tail_calls(self, load: Loader) -> None:
        plugin = load.plugin(module(export("filter", "(return_call $filter)")), timeout=0.05)
        assert failure(plugin, ONE).fault is Fault.DEADLINE

    def test_of_a_guest_that_calls_the_host_all_the_time(self, load: Loader) -> None:
        for function, arguments in ((POD, (0, 64)), ("k8s.io/scheduler/filteredNodeList", (0, 64))):
            ask = f"(loop $forever (drop {call(function, *arguments)}) (br $forever)) (i32.const 0)"
            plugin = load.plugin(module(export("filter", ask), uses=[function]), timeout=0.05)
            assert failure(plugin, ONE).fault is Fault.DEADLINE


SLEEP = "wasi_snapshot_preview1/poll_oneoff"
RANDOM = "wasi_snapshot_preview1/random_get"
CLOCK, READ, WRITABLE = 0, 1, 2


class TestSleep:
    """A guest that sleeps would do so in the engine, where no deadline reaches it."""

    def polls(self, *subscriptions: tuple[int, int], into: int = 1024, count: int | None = None) -> str:
        """Waits for subscriptions of user data and kind, each for an hour, and gives the events as a reason."""
        stores = [
            f"(i64.store (i32.const {48 * at}) (i64.const {data}))"
            f" (i32.store8 (i32.const {48 * at + 8}) (i32.const {kind}))"
            f" (i64.store (i32.const {48 * at + 24}) (i64.const {3600 * 10**9}))"
            for at, (data, kind) in enumerate(subscriptions)
        ]
        waited = call(SLEEP, 0, into, len(subscriptions) if count is None else count, 2048)
        return module(
            export(
                "prefilter",
                *stores,
                "(memory.fill (i32.const 1024) (i32.const 42) (i32.const 128))",
                f"(local.set $errno {waited})",
                call(REASON, 1024, 96),
                "(i32.or (i32.shl (i32.load (i32.const 2048)) (i32.const 8)) (local.get $errno))",
                local="(local $errno i32)",
            ),
            uses=[SLEEP, REASON],
        )

    @staticmethod
    def event(data: int, errno: int, kind: int) -> bytes:
        return data.to_bytes(8, "little") + bytes([errno, 0, kind]) + bytes(21)

    @pytest.mark.parametrize(
        ("subscriptions", "events"),
        [
            ([(7, CLOCK)], [(7, 0, CLOCK)]),
            ([(1, CLOCK), (2, CLOCK)], [(1, 0, CLOCK), (2, 0, CLOCK)]),
            ([(5, READ), (6, CLOCK), (9, WRITABLE)], [(5, 8, READ), (6, 0, CLOCK), (9, 8, WRITABLE)]),
        ],
    )
    def test_is_over_at_once(
        self, load: Loader, subscriptions: list[tuple[int, int]], events: list[tuple[int, int, int]]
    ) -> None:
        answer = once(load.instance(self.polls(*subscriptions)), ONE)
        written = b"".join(self.event(*event) for event in events).ljust(96, b"*")
        assert answer == CallResult(len(events) << 8, 0, written.decode())

    def test_of_nothing_is_invalid(self, load: Loader) -> None:
        assert once(load.instance(self.polls()), ONE) == CallResult(28, 0, "*" * 96)

    @pytest.mark.parametrize(("into", "count"), [(65530, 1), (0xFFFFFFFF, 1), (1024, -1), (1024, 100_000)])
    def test_outside_of_memory_is_a_trap(self, load: Loader, into: int, count: int) -> None:
        with pytest.raises(GuestError) as caught:
            once(load.instance(self.polls((1, CLOCK), into=into, count=count)), ONE)
        assert str(caught.value) == f"prefilter: trap: memory out of bounds in {SLEEP} < prefilter"

    def test_in_a_loop_ends_at_the_deadline(self, load: Loader) -> None:
        sleep = f"(loop $again (drop {call(SLEEP, 0, 1024, 1, 2048)}) (br $again)) (i32.const 0)"
        plugin = load.plugin(module(export("filter", sleep), uses=[SLEEP]), timeout=0.05)
        assert failure(plugin, ONE).fault is Fault.DEADLINE


PAGE = 65_536


class TestMemoryLimit:
    @staticmethod
    def grows(pages: int) -> str:
        return module(export("filter", f"(memory.grow (i32.const {pages}))"))

    @pytest.mark.parametrize(
        ("limit", "pages", "code"),
        [
            (4 * PAGE, 3, 1),
            (4 * PAGE, 4, -1),
            (4 * PAGE, 65_535, -1),
            (4 * PAGE, -1, -1),
            (4 * PAGE + 100, 4, -1),
            (PAGE, 0, 1),
            (PAGE, 1, -1),
            (1 << 32, 65_536, -1),
        ],
    )
    def test_growth_beyond_it_fails(self, load: Loader, limit: int, pages: int, code: int) -> None:
        assert whole_code(each(load.instance(self.grows(pages), memory_limit=limit), ONE)) == code

    def test_is_in_force_after_the_host_has_grown_its_own(self, load: Loader) -> None:
        """It may go beyond the guest's limit for the nodes, the pod and the results."""
        instance = load.instance(self.grows(4), memory_limit=4 * PAGE)
        at = world(dict.fromkeys(map(str, range(3_000)), b"N" * 1000), pod=b"P" * 1_000_000)
        assert whole_code(each(instance, at, tolerated=0)) == -1

    @pytest.mark.parametrize(
        ("pages", "limit", "needed"), [("5", 4 * PAGE, 5), ("2", PAGE, 2), ("65536", 1 << 31, 65536)]
    )
    def test_of_a_module_that_needs_more(self, load: Loader, pages: str, limit: int, needed: int) -> None:
        with pytest.raises(GuestError) as caught:
            load.plugin(module(NOOP, pages=pages), memory_limit=limit)
        assert str(caught.value) == f"instantiate: memory minimum size of {needed} pages exceeds memory limits"
        assert (caught.value.fault, caught.value.fatal) == (Fault.MEMORY, True)

    def test_holds_for_the_only_memory(self, load: Loader) -> None:
        """Or a guest could have a hundred of them."""
        with pytest.raises(ModuleError, match=r"^is no valid WebAssembly module: .*multiple memories"):
            load.plugin(module(NOOP, "(memory $second 1)"))

    def test_of_tables(self, load: Loader) -> None:
        grow = "(table.grow $table (ref.null func) (i32.const {}))"
        for elements, code in ((1 << 20, -1), (1 << 31, -1), ((1 << 20) - 1, 1)):
            guest = module("(table $table 1 funcref)", export("filter", grow.format(elements)))
            assert whole_code(each(load.instance(guest), ONE)) == code

    @pytest.mark.parametrize(
        ("tables", "message"),
        [
            ("(table 1048577 funcref)", "table minimum size of 1048577 elements exceeds table limits"),
            ("(table 1 funcref)" * 9, "resource limit exceeded: table count too high at 10"),
        ],
    )
    def test_of_tables_that_are_there_from_the_start(self, load: Loader, tables: str, message: str) -> None:
        with pytest.raises(GuestError) as caught:
            load.plugin(module(NOOP, tables))
        assert str(caught.value) == f"instantiate: {message}"
        assert (caught.value.fault, caught.value.fatal) == (Fault.TABLES, True)

    @pytest.mark.parametrize("limit", [1, 10, 11])
    def test_of_table_elements_is_a_setting(self, load: Loader, limit: int) -> None:
        guest = module(
            "(table $table 1 funcref)", export("filter", "(table.grow $table (ref.null func) (i32.const 9))")
        )
        code = 1 if limit >= 10 else -1
        assert whole_code(each(load.instance(guest, table_limit=limit), ONE)) == code

    @pytest.mark.parametrize(
        ("used", "message", "fault"),
        [
            (7, "trap: unreachable in filter", Fault.TRAP),
            (8, "trap: unreachable in filter; its memory has grown to 8 of 16 MiB", Fault.MEMORY),
            (16, "trap: unreachable in filter; its memory has grown to 16 of 16 MiB", Fault.MEMORY),
        ],
    )
    def test_that_is_half_used_may_be_why_a_guest_traps(
        self, load: Loader, used: int, message: str, fault: Fault
    ) -> None:
        """Languages that cannot grow their memory end in a trap of their own: mostly unreachable."""
        grow = f"(drop (memory.grow (i32.const {used * 16 - 1})))"
        plugin = load.plugin(module(export("filter", grow, "unreachable")), memory_limit=16 << 20)
        error = failure(plugin, ONE)
        assert (str(error), error.fault, error.trap, error.fatal) == (
            f"filter of node node-a: {message}",
            fault,
            TrapKind.UNREACHABLE,
            True,
        )

    @pytest.mark.parametrize(
        ("ending", "message", "fault"),
        [
            ("(drop (call $filter))", "trap: stack overflow in " + "filter < " * 12 + "…", Fault.STACK),
            (call(EXIT, 2), "the guest left by exit status 2", Fault.EXIT),
            (SPIN, "interrupted at its timeout of 100 ms", Fault.DEADLINE),
        ],
    )
    def test_that_is_half_used_is_no_other_faults_cause(
        self, load: Loader, ending: str, message: str, fault: Fault
    ) -> None:
        guest = module(export("filter", ending, "(i32.const 0)"), uses=[EXIT], pages="16")
        error = failure(load.plugin(guest, memory_limit=1 << 20, timeout=0.1 if ending == SPIN else 30), ONE)
        assert (str(error), error.fault) == (f"filter of node node-a: {message}", fault)

    def test_holds_for_garbage_collected_objects(self, load: Loader) -> None:
        hoard = module(
            "(type $bytes (array (mut i64)))",
            "(type $item (struct (field (ref null $item)) (field (ref $bytes))))",
            "(global $all (mut (ref null $item)) (ref.null $item))",
            export(
                "filter",
                "(loop $more (global.set $all (struct.new $item (global.get $all)"
                " (array.new $bytes (i64.const 1) (i32.const 100000)))) (br $more))",
                "(i32.const 0)",
            ),
        )
        error = failure(load.plugin(hoard, memory_limit=16 << 20, timeout=5), ONE)
        assert error.fault is Fault.TRAP
        assert error.cause.startswith("trap: GC heap out of memory")


def test_an_error_of_the_engine_in_a_call_is_a_trap(load: Loader) -> None:
    """Here the engine's WASI refuses a pointer that is not aligned."""
    ask = f"(call ${NOW} (i32.const 0) (i64.const 0) (i32.const 3))"
    guest = module(export("filter", ask), uses=[NOW])
    error = failure(load.plugin(guest), ONE)
    assert error.fault is Fault.TRAP
    assert str(error).startswith("filter of node node-a: trap: ")
    assert "\n" not in str(error)


def test_functions_are_given_back(load: Loader, engine: WasmtimeEngine, open_instances: Callable[[], int]) -> None:
    with pytest.raises(GuestError):
        load.instance(module(NOOP, "(func $early unreachable) (start $early)"))
    instance = load.instance(module(NOOP))
    assert open_instances() == 1
    instance.close()
    instance.close()
    assert open_instances() == 0
    assert isinstance(engine.native, wasmtime.Engine)


def test_text_is_where_the_guests_have_it(load: Loader) -> None:
    plugin = load.plugin(module(export("filter", call(REASON, TEXT, 2), "(i32.const 2)"), uses=[REASON], text="ok"))
    assert filter_nodes(plugin, ONE).reasons == ["ok"]


def test_random_numbers_fill_what_was_asked_for_and_no_more(load: Loader) -> None:
    """Three lengths around the size of the pieces that they come in; the last byte is drawn until it is not 0."""
    for length in (1, 65_536, 65_537, 200_000):
        ask = f"(drop {call(RANDOM, 1, length)})"
        last, behind = f"(i32.load8_u (i32.const {length}))", f"(i32.load8_u (i32.const {length + 1}))"
        body = f"(loop $again {ask} (br_if $again (i32.eqz {last}))) {behind}"
        assert each(load.instance(module(export("filter", body), uses=[RANDOM], pages="4")), ONE).codes == b""


def test_random_numbers_beyond_the_memory_are_a_trap(load: Loader) -> None:
    body = f"(drop {call(RANDOM, 65_535, 2)}) (i32.const 0)"
    caught = failure(load.plugin(module(export("filter", body), uses=[RANDOM])), ONE)
    assert (caught.fault, caught.cause) == (Fault.TRAP, f"trap: memory out of bounds in {RANDOM} < filter")


def test_a_result_beyond_its_limit_is_not_read(load: Loader) -> None:
    names = "k8s.io/scheduler/result.node_names"
    most = 256 * 1024 + 320 * len(ONE.nodes)
    body = f"{call(names, 0, most + 1)} (i32.const 0)"
    caught = failure(load.plugin(module(export("prefilter", body), uses=[names], pages="8")), ONE)
    assert (caught.fault, str(caught)) == (
        Fault.LIMIT,
        "prefilter: more than the host gives or takes in one call: a result of 262465 bytes, at most 262464 are taken",
    )


def test_a_module_that_takes_its_whole_timeout_to_be_instantiated_is_named_as_such(load: Loader) -> None:
    text = """(module (memory (export "memory") 1) (global $i (mut i32) (i32.const 0))
      (func $start (loop $again (global.set $i (i32.add (global.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (global.get $i) (i32.const 2000000000)))))
      (start $start) (func (export "filter") (result i32) (i32.const 0)))"""
    with pytest.raises(GuestError) as caught:
        load.plugin(text, timeout=0.02)
    assert str(caught.value) == "instantiate: interrupted at its timeout of 20 ms"
