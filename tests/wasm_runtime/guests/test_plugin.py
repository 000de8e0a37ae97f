"""A plugin's guests: how many there are, which one is taken, and that all of them are given back."""

import contextlib
import gc
import hashlib
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from wasmtime._func import FUNCTIONS

from tests.patience import PATIENCE_S, delay
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import EXIT, LOG, NODE, REASON, SPIN, TEXT, binary, call, export, module
from tests.wasm_runtime.world import (
    announced,
    close,
    end_of_maker,
    filter_nodes,
    idle_guests,
    score,
    until,
    waiting,
    wasmtime_instance,
    world,
)
from wasm_runtime import Fault, GuestError, ModuleError, Nodes, NodeTable, Plugin, Pod, Settings, WasmtimeEngine
from wasm_runtime.engine import GuestJournal, Log, NodeResults, Span
from wasm_runtime.engines.wasmtime.instance import WasmtimeInstance
from wasm_runtime.guests.guest import GC_IDLE_S
from wasm_runtime.nodes.node_feed import MAX_NODES_PER_BATCH
from wasm_runtime.nodes.node_table import Located

ONE = world({"node-a": b"A"})
NOOP = module(export("filter", "(i32.const 0)"))
FAILS = module(export("filter", "unreachable"))

COUNTS_PODS = module(
    # Score is the number of pods that the instance has seen in PreFilter.
    "(global $pods (mut i32) (i32.const 0))",
    export("prefilter", "(global.set $pods (i32.add (i32.const 1) (global.get $pods)))", "(i32.const 0)"),
    export("filter", "(i32.const 0)"),
    export("score", "(i64.shl (i64.extend_i32_u (global.get $pods)) (i64.const 32))"),
)


def test_digest_is_that_of_the_bytes(load: Loader) -> None:
    wasm = binary(NOOP)
    assert load.plugin(NOOP).digest == f"sha256:{hashlib.sha256(wasm).hexdigest()}"


@pytest.mark.parametrize(("args", "argv"), [((), ("plugin",)), (("a", "b"), ("a", "b"))])
def test_argv(args: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert Settings("plugin", args=args).argv == argv


def test_one_guest_serves_one_call_after_the_other(load: Loader, open_instances: Callable[[], int]) -> None:
    plugin = load.plugin(COUNTS_PODS)
    assert open_instances() == 1
    for number in range(1, 6):
        filter_nodes(plugin, ONE.with_pod(str(number)))
        assert score(plugin, ONE.with_pod(str(number))) == [number]
    assert open_instances() == 1


def test_calls_at_the_same_time_have_a_guest_each(load: Loader, open_instances: Callable[[], int]) -> None:
    plugin = load.plugin(COUNTS_PODS)
    with plugin.guest(ONE.pod, ONE.nodes, "score") as (first, deadline):
        other = ONE.with_pod("2")
        with plugin.guest(other.pod, other.nodes, "score") as (second, _):
            assert open_instances() == 2
            assert first is not second
            assert second.score(other.nodes, deadline) == bytes([1])
            assert first.score(ONE.nodes, deadline) == bytes([1])
    assert open_instances() == 2


def test_the_guest_that_saw_the_pod_is_taken(load: Loader) -> None:
    plugin = load.plugin(COUNTS_PODS)
    first, second = ONE.with_pod("1"), ONE.with_pod("2")
    lease = plugin.guest(second.pod, second.nodes, "filter")
    with plugin.guest(first.pod, first.nodes, "filter") as (one, _), lease as (two, _):
        pass
    for at, expected in ((second, two), (first, one)):
        with plugin.guest(at.pod, at.nodes, "score") as (taken, _):
            assert taken is expected


def test_a_call_waits_for_a_guest_at_most_until_its_deadline(load: Loader) -> None:
    plugin = load.plugin(NOOP, instances=1, timeout=0.05)
    with plugin.guest(ONE.pod, ONE.nodes, "filter"):
        with pytest.raises(GuestError) as caught:
            filter_nodes(plugin, ONE.with_pod("2"))
        assert (str(caught.value), caught.value.fault) == (
            "instance: all 1 that may be used here are in use; raise the plugin's instances",
            Fault.BUSY,
        )
    assert filter_nodes(plugin, ONE) == NodeResults(1, b"", [], [])


def test_the_wait_for_a_guest_is_part_of_the_time_of_the_call(load: Loader) -> None:
    plugin = load.plugin(COUNTS_PODS, instances=1, timeout=30)
    held = plugin.guest(ONE.pod, ONE.nodes, "filter")
    held.__enter__()

    def run() -> float:
        at = ONE.with_pod("2")
        with plugin.guest(at.pod, at.nodes, "filter") as (_, deadline):
            return deadline - time.monotonic()

    with ThreadPoolExecutor(1) as threads:
        left = threads.submit(run)
        until(lambda: waiting(plugin._pool) == 1)
        delay(0.05)
        held.__exit__(None, None, None)
        assert left.result(PATIENCE_S) < 30 - 0.05


@pytest.mark.parametrize("ending", ["unreachable", "(drop (call $filter))", SPIN, call(EXIT, 0)])
def test_a_failure_that_the_caller_passes_over_still_costs_the_guest(load: Loader, ending: str) -> None:
    """What runs a stage may go on after an error, as the binding cycle does, but never with a broken guest."""
    guest = module(
        export("filter", ending, "(i32.const 0)"),
        export("score", "(i64.load32_u (i32.const 0))", "(i32.store (i32.const 0) (i32.const 1))"),
        uses=[EXIT],
    )
    plugin = load.plugin(guest, timeout=0.1 if ending == SPIN else 30)
    with plugin.guest(ONE.pod, ONE.nodes, "filter") as (broken, deadline):
        broken.score(ONE.nodes, deadline)
        with contextlib.suppress(GuestError):
            broken.filter(ONE.nodes, deadline)
        assert broken.is_broken
    with plugin.guest(ONE.pod, ONE.nodes, "score") as (taken, deadline):
        assert taken is not broken
        assert taken.score(ONE.nodes, deadline) == bytes([0])


def test_an_error_status_that_the_caller_passes_over_costs_nothing(
    load: Loader, open_instances: Callable[[], int]
) -> None:
    plugin = load.plugin(module(export("filter", "(i32.const 1)"), export("score", "(i64.const 0)")))
    with plugin.guest(ONE.pod, ONE.nodes, "filter") as (guest, deadline):
        with pytest.raises(GuestError, match=r"^filter of node node-a: Error without a reason$"):
            guest.filter(ONE.nodes, deadline)
        assert not guest.is_broken
    with plugin.guest(ONE.pod, ONE.nodes, "score") as (taken, _):
        assert taken is guest
    assert open_instances() == 1


NEEDS_NODES = module(
    export(
        "filter",
        f"(if (call ${NODE} (i32.const {TEXT}) (i32.const 3) (i32.const 0) (i32.const 64)) (then unreachable))",
        "(i32.const 0)",
    ),
    uses=[NODE],
    text="bad",
)


def test_the_guest_in_place_of_a_broken_one_knows_the_nodes(load: Loader) -> None:
    """Before the request comes, which would have to wait while thousands of them are copied."""
    at = world({"bad": b"B", "other": b"O"})
    plugin = load.plugin(NEEDS_NODES)
    with pytest.raises(GuestError, match=r"^filter of node bad: trap: unreachable in filter$"):
        filter_nodes(plugin, at)
    load.settle()
    (guest,) = idle_guests(plugin._pool)
    assert [wasmtime_instance(guest)._snapshot.name(at) for at in range(2)] == ["bad", "other"]
    at.node_table.remove("bad")
    assert filter_nodes(plugin, at) == NodeResults(2, b"", [], [])


def test_a_guest_that_cannot_take_the_nodes_is_given_back(
    load: Loader, monkeypatch: pytest.MonkeyPatch, open_instances: Callable[[], int]
) -> None:
    """Another one takes them when it is asked."""
    plugin = load.plugin(NEEDS_NODES)

    def sync_nodes(*_: object) -> None:
        raise MemoryError("4 GiB are not enough")

    with monkeypatch.context() as patch:
        patch.setattr(WasmtimeInstance, "sync_nodes", sync_nodes)
        with pytest.raises(GuestError, match=r"^filter of node bad: trap: unreachable in filter$"):
            filter_nodes(plugin, world({"bad": b"B"}))
        load.settle()
    assert open_instances() == len(plugin._pool) == 0
    assert filter_nodes(plugin, world({"good": b"G"})) == NodeResults(1, b"", [], [])
    assert open_instances() == 1


def test_a_plugin_whose_guest_cannot_take_the_nodes_is_not_made(
    engine: WasmtimeEngine, monkeypatch: pytest.MonkeyPatch, open_instances: Callable[[], int]
) -> None:
    def sync_nodes(*_: object) -> None:
        raise MemoryError("4 GiB are not enough")

    monkeypatch.setattr(WasmtimeInstance, "sync_nodes", sync_nodes)
    with pytest.raises(MemoryError, match="4 GiB"):
        Plugin(engine, binary(NOOP), Settings("plugin"), nodes=ONE.node_table)
    assert open_instances() == 0


NAMES = ("nodechanged", "collectgarbage", "enqueue", "filter")


def says(name: str) -> str:
    return call(LOG, 0, TEXT + "".join(NAMES).index(name), len(name))


def keeps(changed: str = "", *fields: str) -> str:
    """A guest that keeps nodes, and what it does when it is told of one."""
    return module(
        '(func (export "noderemoved") (param i32))',
        f'(func $nodechanged (export "nodechanged") (param i32) {changed})',
        *(fields or [export("filter", "(i32.const 0)")]),
        uses=[LOG],
        text="".join(NAMES),
    )


def told(plugin: Plugin) -> list[int]:
    """Of how many nodes the idle guests were told."""
    return [len(announced(guest)) for guest in idle_guests(plugin._pool)]


Make = Callable[..., Plugin]


@pytest.fixture
def make(open_instances: Callable[[], int], engine: WasmtimeEngine) -> Iterator[Make]:
    """Makes plugins whose first guest is to know nodes."""
    made: list[Plugin] = []

    def make(text: str, nodes: NodeTable, **given: Any) -> Plugin:
        made.append(Plugin(engine, binary(text), Settings("plugin", timeout=30), nodes=nodes, **given))
        return made[-1]

    yield make
    for plugin in made:
        close(plugin)
    assert open_instances() == 0


MANY = world({f"node-{at}": b"N" for at in range(3 * MAX_NODES_PER_BATCH)})


class TestLearning:
    def test_of_a_guest_that_the_pool_grows_by_is_no_part_of_a_verb(self, make: Make) -> None:
        """The second guest knows all nodes when the second pod gets it."""
        plugin = make(keeps(), MANY.node_table)
        one, two = (plugin.guest(at.pod, at.nodes, "filter") for at in (MANY, MANY.with_pod("2")))
        with one, two as (guest, _):
            assert len(announced(guest)) == len(MANY.nodes)

    def test_ends_with_the_nodes_that_there_were_when_it_began(self, make: Make) -> None:
        """Though in each round there are as many new ones as it tells of."""

        class Growing(NodeTable):
            def locate(self, names: Sequence[str]) -> Located:
                assert len(self) < 9 * MAX_NODES_PER_BATCH
                self.put((f"node-{len(self)}-{at}", b"N") for at in range(MAX_NODES_PER_BATCH))
                return super().locate(names)

        assert told(make(keeps(), Growing())) == [MAX_NODES_PER_BATCH]

    def test_that_takes_too_long_is_left_to_maintenance(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("wasm_runtime.guests.plugin.MAX_PREPARE_TIMEOUTS", 0)
        plugin = make(keeps(), MANY.node_table)
        assert told(plugin) == [0]
        while plugin.maintain(MANY.node_table):
            pass
        assert told(plugin) == [len(MANY.nodes)]

    def test_ends_when_the_plugin_is_closed(self, make: Make) -> None:
        class Closing(NodeTable):
            def locate(self, names: Sequence[str]) -> Located:
                if guest.is_broken:
                    plugin.close()
                return super().locate(names)

        observed = Observed()
        plugin = make(keeps(says("nodechanged")), NodeTable(), sink=observed.sink)
        (guest,) = idle_guests(plugin._pool)
        nodes = Closing()
        nodes.put((name, b"N") for name in MANY.nodes.names)
        with plugin.guest(MANY.pod, Nodes(nodes, ["node-0"]), "filter"):
            guest.is_broken = True
        end_of_maker(plugin._pool)
        assert observed.logged == [(None, ["nodechanged"] * MAX_NODES_PER_BATCH, 0)]


def test_a_new_guest_is_told_of_the_nodes_of_the_last_request_or_maintenance(load: Loader) -> None:
    plugin = load.plugin(NOOP)
    assert plugin.nodes is None
    filter_nodes(plugin, ONE)
    assert plugin.nodes is ONE.node_table
    plugin.maintain(MANY.node_table)
    assert plugin.nodes is MANY.node_table


class Observed:
    """What a plugin passes on of its guests."""

    def __init__(self) -> None:
        self.logged: list[tuple[Pod | None, list[str], int]] = []
        self.spans: list[Span] = []

    def sink(self, _: str, pod: Pod | None, journal: GuestJournal) -> None:
        messages = [record.message for record in journal.records if isinstance(record, Log)]
        self.logged.append((pod, messages, journal.dropped))

    def observe(self, _: str, __: float, spans: Sequence[Span]) -> None:
        self.spans += spans


def test_what_a_guest_does_between_pods_is_no_pods(make: Make) -> None:
    """Neither what it logs nor the time that it takes."""
    guest = keeps(
        says("nodechanged"),
        f'(func (export "collectgarbage") {says("collectgarbage")})',
        export("enqueue", says("enqueue")),
        export("filter", says("filter"), "(i32.const 0)"),
    )
    at, observed = world({"node-a": b"A"}), Observed()
    plugin = make(guest, at.node_table, sink=observed.sink, observer=observed.observe)
    assert observed.logged == [(None, ["nodechanged"], 0), (None, ["enqueue"], 0)]
    at.node_table.put([("node-b", b"B"), ("node-c", b"C")])
    plugin.maintain(at.node_table)
    filter_nodes(plugin, at)
    idle_guests(plugin._pool)[0].left -= GC_IDLE_S
    plugin.maintain(at.node_table)
    assert observed.logged[2:] == [
        (None, ["nodechanged"] * 2, 0),
        (at.pod, ["filter"], 0),
        (None, ["collectgarbage"], 0),
    ]
    assert [span.export for span in observed.spans] == ["filter"]


def test_what_a_guest_logs_between_pods_is_not_lost_when_it_breaks(make: Make) -> None:
    at, observed = world({}), Observed()
    plugin = make(keeps(says("nodechanged") + "unreachable"), at.node_table, sink=observed.sink)
    at.node_table.put([("node-a", b"A")])
    with pytest.raises(GuestError, match=r"^nodechanged of node node-a: trap: unreachable in nodechanged$"):
        plugin.maintain(at.node_table)
    assert observed.logged[0] == (None, ["nodechanged"], 0)


def test_the_time_of_a_list_that_cannot_be_judged_at_once_is_told_in_parts(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock is a second later. Each time it is looked whether nodes are to be told, for a second."""
    guest = keeps(
        "",
        '(func (export "nodebuffer") (param i32) (result i32) (i32.const 8192))',
        '(func (export "filternodes") (param i32) (result i32) (i32.const 0))',
        export("filter", "(i32.const 0)"),
    )
    observed = Observed()
    plugin = make(guest, ONE.node_table, observer=observed.observe)
    monkeypatch.setattr(time, "perf_counter", map(float, itertools.count()).__next__)
    filter_nodes(plugin, ONE._replace(nodes=Nodes(ONE.node_table, ["node-a", "unknown"])))
    assert observed.spans == [Span(called, 1.0, 2.0) for called in ("filternodes", "filternodes", "filter")]


def test_else_the_one_that_was_idle_longest(load: Loader) -> None:
    plugin = load.plugin(COUNTS_PODS)
    first, second = ONE.with_pod("1"), ONE.with_pod("2")
    lease = plugin.guest(second.pod, second.nodes, "filter")
    with plugin.guest(first.pod, first.nodes, "filter") as (one, _), lease as (two, _):
        pass
    for uid, expected in (("3", two), ("4", one), ("5", two)):
        at = ONE.with_pod(uid)
        with plugin.guest(at.pod, at.nodes, "filter") as (taken, _):
            assert taken is expected


def test_close_gives_idle_guests_back(load: Loader, open_instances: Callable[[], int]) -> None:
    plugin = load.plugin(NOOP)
    with plugin.guest(ONE.pod, ONE.nodes, "filter"):
        filter_nodes(plugin, ONE)
    assert open_instances() == 2
    plugin.close()
    assert open_instances() == 0
    plugin.close()
    assert open_instances() == 0


def test_close_leaves_a_guest_in_use_alone_until_it_is_done(load: Loader, open_instances: Callable[[], int]) -> None:
    plugin = load.plugin(NOOP)
    with plugin.guest(ONE.pod, ONE.nodes, "filter") as (guest, deadline):
        plugin.close()
        assert open_instances() == 1
        assert guest.filter(ONE.nodes, deadline) == NodeResults(1, b"", [], [])
    assert open_instances() == 0


def test_close_while_a_guest_runs_in_another_thread(load: Loader, open_instances: Callable[[], int]) -> None:
    plugin = load.plugin(module(export("filter", SPIN, "(i32.const 0)")), timeout=0.2)
    began = threading.Event()

    def run() -> str:
        with pytest.raises(GuestError) as caught, plugin.guest(ONE.pod, ONE.nodes, "filter") as (guest, deadline):
            began.set()
            guest.filter(ONE.nodes, deadline)
        return str(caught.value)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        assert began.wait(PATIENCE_S)
        plugin.close()
        assert running.result(PATIENCE_S) == "filter of node node-a: interrupted at its timeout of 200 ms"
    assert open_instances() == 0


def test_a_closed_plugin_still_answers_who_holds_it(load: Loader, open_instances: Callable[[], int]) -> None:
    """A verb that took the plugin just before it was exchanged."""
    plugin = load.plugin(NOOP)
    plugin.close()
    assert filter_nodes(plugin, ONE) == NodeResults(1, b"", [], [])
    assert open_instances() == 0


def test_a_sink_that_fails_costs_no_guest(engine: WasmtimeEngine, open_instances: Callable[[], int]) -> None:
    def sink(*_: object) -> None:
        raise OSError("no space left")

    guest = module(export("filter", call(LOG, 0, TEXT, 2), "(i32.const 0)"), uses=[LOG], text="hi")
    plugin = Plugin(engine, binary(guest), Settings("plugin"), sink=sink)
    for _ in range(3):
        with pytest.raises(OSError, match="no space left"):
            filter_nodes(plugin, ONE)
    assert open_instances() == 1
    plugin.close()
    assert open_instances() == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("(module)", ModuleError),
        (module(export("filter", "(i32.const 0)"), "(func $early unreachable) (start $early)"), GuestError),
        (module(export("filter", "(i32.const 0)"), '(func (export "_start") unreachable)'), GuestError),
        (module(export("enqueue", "unreachable")), GuestError),
    ],
)
def test_a_plugin_that_cannot_be_made_leaves_nothing(
    load: Loader, open_instances: Callable[[], int], text: str, error: type[Exception]
) -> None:
    for _ in range(3):
        with pytest.raises(error):
            load.plugin(text)
    until(lambda: open_instances() == 0)


def test_text_is_compiled_too(engine: WasmtimeEngine) -> None:
    plugin = Plugin(engine, binary(NOOP), Settings("plugin"))
    assert filter_nodes(plugin, ONE) == NodeResults(1, b"", [], [])
    plugin.close()


def mappings() -> int:
    """The number of memory mappings of this process: each wasm memory has some."""
    maps = Path("/proc/self/maps")
    return len(maps.read_text().splitlines()) if maps.exists() else 0


def create_and_close(engine: WasmtimeEngine) -> None:
    plugin = Plugin(engine, binary(NOOP), Settings("plugin"))
    filter_nodes(plugin, ONE)
    close(plugin)


def trap(engine: WasmtimeEngine) -> None:
    plugin = Plugin(engine, binary(FAILS), Settings("plugin"))
    with pytest.raises(GuestError):
        filter_nodes(plugin, ONE)
    close(plugin)


def fail_to_link(engine: WasmtimeEngine) -> None:
    with pytest.raises(GuestError):
        Plugin(engine, binary(module(export("filter", "(i32.const 0)"), pages="9")), Settings("p", memory_limit=1))


@pytest.mark.parametrize("life", [create_and_close, trap, fail_to_link])
def test_nothing_is_left_of_many_guests(
    engine: WasmtimeEngine, open_instances: Callable[[], int], life: Callable[[WasmtimeEngine], None]
) -> None:
    def live(times: int) -> tuple[int, int]:
        for _ in range(times):
            life(engine)
        gc.collect()
        return len(FUNCTIONS.handles), mappings()

    handles, maps = live(20)
    after, maps_after = live(300)
    assert after == handles
    assert open_instances() == 0
    assert maps_after < maps + 50


def test_a_discarded_instance_needs_no_collector(load: Loader, open_instances: Callable[[], int]) -> None:
    plugin = load.plugin(FAILS)
    gc.disable()
    try:
        for _ in range(20):
            with pytest.raises(GuestError):
                filter_nodes(plugin, ONE)
            load.settle()
            assert open_instances() == 1
    finally:
        gc.enable()


@pytest.mark.parametrize("guest", [NOOP, FAILS], ids=["whole", "broken"])
def test_what_a_closed_plugin_has_held_needs_no_collector(engine: WasmtimeEngine, guest: str) -> None:
    gc.disable()
    try:
        plugin = Plugin(engine, binary(guest), Settings("plugin"))
        code, (idle,) = weakref.ref(plugin._module), idle_guests(plugin._pool)
        instance = weakref.ref(idle._instance)
        del idle
        with contextlib.suppress(GuestError):
            filter_nodes(plugin, ONE)
        close(plugin)
        del plugin
        assert (code(), instance()) == (None, None)
    finally:
        gc.enable()


def test_many_threads_and_one_plugin(load: Loader, open_instances: Callable[[], int]) -> None:
    """Each call sees its own pod and its own nodes; there are never more guests than calls at a time."""
    guest = module(
        export(
            "filter",
            "(local.set $pod (call $k8s.io/scheduler/currentPod (i32.const 0) (i32.const 64)))",
            "(local.set $name (call $k8s.io/scheduler/currentNodeName (local.get $pod) (i32.const 64)))",
            call(REASON, 0, "(i32.add (local.get $pod) (local.get $name))"),
            "(i32.const 2)",
            local="(local $pod i32) (local $name i32)",
        ),
        uses=[REASON, "k8s.io/scheduler/currentPod", "k8s.io/scheduler/currentNodeName"],
    )
    plugin = load.plugin(guest, timeout=30)
    node_table = world({f"node-{at}": b"N" for at in range(50)})

    def run(thread: int) -> None:
        names = [f"node-{at}" for at in range(thread, 50, 7)]
        for number in range(60):
            pod = f"pod-{thread}-{number}/"
            at = world({}, names=names).with_pod(pod, pod.encode())
            at = at._replace(nodes=type(at.nodes)(node_table.node_table, names))
            assert filter_nodes(plugin, at).reasons == [f"{pod}{name}" for name in names]

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, thread) for thread in range(4)]:
            done.result(PATIENCE_S)
    assert 1 <= open_instances() <= 4
