"""Guests that keep nodes and pods: their limits, whose time counts, and what is told of how long they took."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import NOW, SPIN, binary, export, module, types
from tests.wasm_runtime.world import World, announced, close, filter_nodes, idle_guests, node_feed, score, world
from wasm_runtime import Fault, GuestError, Nodes, Plugin, Settings, WasmtimeEngine, abi
from wasm_runtime.engine import MEBIBYTE, Call, NodeResults
from wasm_runtime.nodes.node_feed import MAX_NODES_PER_BATCH, NodeFeed, PendingNodes
from wasm_runtime.nodes.node_table import ABSENT, Changes
from wasm_runtime.pods.pod_table import ResidentPod

ONE = {"node-a": b"A"}
DEEP = "(func $deep (param $n i64) (result i64) (i64.add (i64.const 1) (call $deep (local.get $n))))"


def keeper(bodies: dict[str, str], *fields: str, uses: tuple[str, ...] = ()) -> str:
    """A guest of all exports that keep nodes and pods, some with a body. A list answers with the nodes' numbers."""
    exports = []
    for name, signature in abi.RESIDENT.items():
        given = types(signature).replace("(param i32)", "(param $n i32)")
        value = {(): "", ("i32",): "(i32.const 8192)" if name == "nodebuffer" else "(i32.const 0)"}[signature.results]
        exports.append(f'(func ${name} (export "{name}") {given} {bodies.get(name, "")} {value})')
    return module(*exports, *fields, export("filter", "unreachable"), export("score", "unreachable"), uses=uses)


def maintain(plugin: Plugin, at: World) -> bool:
    return plugin.maintain(at.node_table)


def rest(plugin: Plugin, at: World) -> None:
    """Calls the guest, and has it idle for long."""
    filter_nodes(plugin, at)
    for guest in idle_guests(plugin._pool):
        guest.left = 0.0


def lose(plugin: Plugin, at: World) -> None:
    """Has the guest know a node that is gone."""
    at.node_table.put([("gone", b"G")])
    filter_nodes(plugin, at)
    at.node_table.remove("gone")


def has_pods(_: Plugin, at: World) -> None:
    """Has there be a pod on the node, and one without a node."""
    at.node_table.pods.put([("there", ResidentPod("node-a", b"P")), ("pending", ResidentPod("", b"P"))])


Does = Callable[[Plugin, World], object]

CALLS: dict[str, tuple[Does, Does, str]] = {
    "nodechanged": (lambda *_: None, filter_nodes, "nodechanged of node node-a"),
    "noderemoved": (lose, filter_nodes, "noderemoved"),
    "collectgarbage": (rest, maintain, "collectgarbage"),
    "nodebuffer": (lambda *_: None, filter_nodes, "filternodes"),
    "filternodes": (lambda *_: None, filter_nodes, "filternodes"),
    "scorenodes": (lambda *_: None, score, "scorenodes"),
    "podbuffer": (has_pods, filter_nodes, "podbuffer"),
    "podschanged": (has_pods, filter_nodes, "podschanged"),
    "pendingpodschanged": (has_pods, filter_nodes, "pendingpodschanged"),
}
"""What comes before each export is called, what calls it, and how errors name it."""


def failure(does: Callable[[], object]) -> tuple[str, Fault, bool]:
    with pytest.raises(GuestError) as caught:
        does()
    return str(caught.value), caught.value.fault, caught.value.fatal


@pytest.mark.parametrize("name", CALLS)
def test_an_export_that_takes_too_long(load: Loader, name: str) -> None:
    before, does, where = CALLS[name]
    at = world(ONE)
    plugin = load.plugin(keeper({name: SPIN}), timeout=0.2)
    before(plugin, at)
    message = f"{where}: interrupted at its timeout of 200 ms"
    assert failure(lambda: does(plugin, at)) == (message, Fault.DEADLINE, True)


@pytest.mark.parametrize("name", CALLS)
def test_an_export_that_runs_out_of_memory(load: Loader, name: str) -> None:
    before, does, where = CALLS[name]
    at = world(ONE)
    grows = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 4)) (i32.const -1)))) unreachable"
    plugin = load.plugin(keeper({name: grows}), memory_limit=2 * MEBIBYTE)
    before(plugin, at)
    message = f"{where}: trap: unreachable in {name}; its memory has grown to 1 of 2 MiB"
    assert failure(lambda: does(plugin, at)) == (message, Fault.MEMORY, True)


@pytest.mark.parametrize("name", CALLS)
def test_an_export_that_recurses_without_end(load: Loader, name: str) -> None:
    before, does, where = CALLS[name]
    at = world(ONE)
    plugin = load.plugin(keeper({name: "(drop (call $deep (i64.const 0)))"}, DEEP))
    before(plugin, at)
    message = f"{where}: trap: stack overflow in {'deep < ' * 12}…"
    assert failure(lambda: does(plugin, at)) == (message, Fault.STACK, True)


@pytest.mark.parametrize("name", CALLS)
def test_the_guest_that_follows_on_one_that_broke(load: Loader, name: str) -> None:
    """It knows the nodes before it is asked, if it can be told of them."""
    before, does, _ = CALLS[name]
    at = world(ONE)
    plugin = load.plugin(keeper({name: SPIN}), timeout=0.2)
    before(plugin, at)
    failure(lambda: does(plugin, at))
    load.settle()
    if name in {"nodechanged", "podbuffer", *abi.POD_STREAMS}:
        assert len(plugin._pool) == 0
    else:
        (guest,) = idle_guests(plugin._pool)
        assert node_feed(guest).is_synced
        assert set(announced(guest).values()) == {("node-a", b"A")}


class TestTime:
    """A guest that takes 20 ms for each node: for all of them more than the timeout, for a few far less."""

    SLOW = keeper(
        {
            "nodechanged": "(local $end i64) (local.set $end (i64.add (i64.const 20000000) (call $now)))"
            " (loop $wait (br_if $wait (i64.lt_u (call $now) (local.get $end))))"
        },
        "(func $now (result i64)",
        f"(drop (call ${NOW} (i32.const 1) (i64.const 0) (i32.const 64))) (i64.load (i32.const 64)))",
        uses=(NOW,),
    )
    MANY = world({f"node-{at}": b"N" for at in range(5 * MAX_NODES_PER_BATCH)})
    TIMEOUT_S = 1.2
    ONE_OF_THEM = MANY._replace(nodes=Nodes(MANY.node_table, ["node-0"]))

    def test_of_a_verb_is_over_when_it_has_waited_for_nodes_and_the_guest_goes_on(self, load: Loader) -> None:
        plugin = load.plugin(self.SLOW, timeout=self.TIMEOUT_S)
        (guest,) = idle_guests(plugin._pool)
        message, fault, fatal = failure(lambda: filter_nodes(plugin, self.MANY))
        told = len(announced(guest))
        cause = f"its time was over while it learned of nodes: {told} of {len(self.MANY.nodes)} are told"
        assert (message, fault, fatal) == (f"nodechanged: {cause}", Fault.BUSY, False)
        assert told % MAX_NODES_PER_BATCH == 0
        while maintain(plugin, self.MANY):
            pass
        assert filter_nodes(plugin, self.ONE_OF_THEM) == NodeResults(1, b"", [], [])
        assert idle_guests(plugin._pool) == [guest]

    def test_of_nodes_that_a_guest_is_told_of_before(self, engine: WasmtimeEngine) -> None:
        """Each few of them have a timeout of their own."""
        plugin = Plugin(
            engine, binary(self.SLOW), Settings("plugin", timeout=self.TIMEOUT_S), nodes=self.MANY.node_table
        )
        assert filter_nodes(plugin, self.ONE_OF_THEM) == NodeResults(1, b"", [], [])
        close(plugin)


def test_calls_for_lists_are_observed_by_their_names(engine: WasmtimeEngine) -> None:
    spans: list[list[str]] = []
    plugin = Plugin(
        engine,
        binary(keeper({}, export("prefilter", "(i32.const 0)"))),
        Settings("plugin", timeout=30),
        observer=lambda *observed: spans.append([span.export for span in observed[-1]]),
    )
    at = world(ONE)
    filter_nodes(plugin, at)
    score(plugin, at)
    assert spans == [["prefilter", "filternodes"], ["scorenodes"]]
    close(plugin)


def changes(*nodes: tuple[int, str, bytes]) -> Changes:
    return Changes(0, 0, 0, 0, list(nodes))


class TestNodeFeed:
    def test_have_no_news_in_the_beginning(self) -> None:
        feed = NodeFeed()
        assert feed.is_synced
        assert feed.take() == PendingNodes([], [])

    def test_are_told_in_the_order_of_their_changes(self) -> None:
        feed = NodeFeed()
        feed.add(changes((3, "d", b"D"), (1, "b", b"B"), (2, "c", ABSENT)))
        assert not feed.is_synced
        assert feed.take() == PendingNodes([], [3, 1])
        assert feed.is_synced

    def test_are_told_a_few_at_a_time_first_of_those_that_are_gone(self) -> None:
        feed = NodeFeed()
        feed.add(changes(*((at, f"n{at}", b"N") for at in range(4))))
        assert feed.take() == PendingNodes([], [0, 1, 2, 3])
        feed.add(changes((0, "n0", b"X"), (1, "n1", ABSENT), (2, "", ABSENT), (3, "other", b"O")))
        assert [feed.take(2) for _ in range(3)] == [
            PendingNodes([1, 2], []),
            PendingNodes([3], [0]),
            PendingNodes([], [3]),
        ]
        assert feed.is_synced

    def test_that_were_never_told_of_are_not_gone(self) -> None:
        feed = NodeFeed()
        feed.add(changes((0, "a", b"A")))
        feed.add(changes((0, "a", ABSENT)))
        assert feed.is_synced

    def test_of_another_source_that_are_the_same_are_no_news(self) -> None:
        feed = NodeFeed()
        feed.add(changes((0, "a", b"A"), (1, "b", b"B"), (2, "c", b"C")))
        feed.take()
        feed.add(changes((1, "b", b"X")))
        feed.forget_table()
        feed.add(changes((0, "a", b"A"), (1, "other", b"B")))
        assert feed.take() == PendingNodes([2, 1], [1])

    @pytest.mark.parametrize("export", ["noderemoved", "nodechanged"])
    def test_that_were_not_told_without_fault_break_the_guest(self, export: str) -> None:
        """Whatever has gone wrong, even if a guest can go on after the like."""

        def call(name: str, *_: object) -> None:
            if name == export:
                raise GuestError(Fault.LIMIT, name, "no more")

        feed = NodeFeed()
        feed.add(changes((0, "a", b"A"), (1, "b", b"B")))
        feed.take()
        feed.add(changes((0, "a", ABSENT), (1, "b", b"X")))
        assert failure(lambda: feed.announce(call, 0.0, 2)) == (f"{export}: no more", Fault.LIMIT, True)


class TestLevel:
    """The time that a call takes to bring the instance's nodes up to date."""

    def test_counts_where_that_fails(self, load: Loader) -> None:
        instance = load.instance(keeper({"nodechanged": SPIN}), timeout=0.1)
        call = Call(world(ONE).nodes, time.monotonic() + 30)
        message = "nodechanged of node node-a: interrupted at its timeout of 100 ms"
        assert failure(lambda: instance.at_once("filternodes", call, -1)) == (message, Fault.DEADLINE, True)
        assert call.sync_seconds > 0

    def test_counts_each_time(self, load: Loader) -> None:
        instance = load.instance(keeper({}).replace("unreachable", "(i32.const 0)", 1))
        call = Call(world(ONE, names=["node-a", "unknown"]).nodes, time.monotonic() + 30)
        assert instance.at_once("filternodes", call, -1) is None
        before = call.sync_seconds
        instance.each("filter", call, -1)
        assert call.sync_seconds > before > 0
