"""What is done for guests while no pod needs them, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.wasm_runtime import keeper
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import binary, export, module
from tests.wasm_runtime.world import World, announced, filter_nodes, idle_guests, score, until, world
from wasm_runtime import Nodes, NodeTable, Plugin, Settings, WasmtimeEngine
from wasm_runtime.engine import NoHandle
from wasm_runtime.guests.core_guest import GC_INTERVAL_S, CoreGuest
from wasm_runtime.guests.guest import GC_IDLE_S
from wasm_runtime.guests.maintenance import GuestMaintenance
from wasm_runtime.nodes.node_feed import MAX_NODES_PER_BATCH

COLLECTS = module(
    # Score is how often it has collected garbage.
    "(global $collected (mut i32) (i32.const 0))",
    '(func (export "collectgarbage") (global.set $collected (i32.add (i32.const 1) (global.get $collected))))',
    export("score", "(i64.shl (i64.extend_i32_u (global.get $collected)) (i64.const 32))"),
)
FAILS = module('(func $collectgarbage (export "collectgarbage") unreachable)', export("score", "(i64.const 0)"))
ONE = world({"node-a": b"A"})


class Kept:
    """Plugins that are maintained, and what goes wrong."""

    def __init__(self) -> None:
        self.plugins: list[Plugin] = []
        self.errors: list[tuple[Plugin, str]] = []
        self.maintenance = GuestMaintenance(
            lambda: self.plugins,
            lambda: self.node_table,
            lambda plugin, error: self.errors.append((plugin, str(error))),
        )
        self.node_table = NodeTable(self.maintenance.wake)


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept = Kept()
    yield kept
    kept.maintenance.stop()


def only_guest(plugin: Plugin) -> CoreGuest | None:
    """The guest that is idle, if one is."""
    return next(iter(idle_guests(plugin._pool)), None)


def knows(plugin: Plugin, nodes: int) -> bool:
    guest = only_guest(plugin)
    return guest is not None and len(announced(guest)) == nodes


def leave(plugin: Plugin) -> None:
    """Makes as if nobody had called the guest for long."""
    for guest in idle_guests(plugin._pool):
        guest.left -= GC_IDLE_S


def has_collected(plugin: Plugin) -> bool:
    guest = only_guest(plugin)
    return guest is not None and not guest._is_called


def test_guests_are_told_of_changes(load: Loader, kept: Kept) -> None:
    kept.plugins = [load.plugin(keeper.GUEST), load.plugin(keeper.GUEST)]
    kept.node_table.put((f"node-{at}", b"N") for at in range(3 * MAX_NODES_PER_BATCH))
    kept.maintenance.start()
    until(lambda: all(knows(plugin, 3 * MAX_NODES_PER_BATCH) for plugin in kept.plugins))
    kept.node_table.remove("node-0")
    until(lambda: all(knows(plugin, 3 * MAX_NODES_PER_BATCH - 1) for plugin in kept.plugins))
    kept.node_table = NodeTable(kept.maintenance.wake)
    kept.node_table.put([("other", b"O")])
    until(lambda: all(knows(plugin, 1) for plugin in kept.plugins))
    objects = {"other": b"O"}
    at = World(ONE.pod, Nodes(kept.node_table, list(objects)))
    assert [filter_nodes(plugin, at) for plugin in kept.plugins] == [keeper.expected(objects, ["other"])] * 2
    assert kept.errors == []


def test_a_plugin_that_comes_later_is_tended_too(load: Loader, kept: Kept) -> None:
    kept.maintenance.start()
    kept.node_table.put([("node-a", b"A")])
    kept.plugins = [load.plugin(keeper.GUEST)]
    until(lambda: knows(kept.plugins[0], 1))


def test_garbage_is_collected_once_nobody_calls(load: Loader, kept: Kept) -> None:
    plugin = load.plugin(COLLECTS)
    kept.plugins = [plugin]
    kept.maintenance.start()
    assert score(plugin, ONE) == [0]
    for times in (1, 2):
        leave(plugin)
        until(lambda: has_collected(plugin))
        kept.maintenance.wake()
        assert score(plugin, ONE) == [times]


def test_a_guest_that_was_never_called_collects_nothing(load: Loader) -> None:
    plugin = load.plugin(COLLECTS)
    leave(plugin)
    assert not plugin.maintain(ONE.node_table)
    assert score(plugin, ONE) == [0]


def test_garbage_of_cluster_events_is_collected(load: Loader) -> None:
    plugin = load.plugin(COLLECTS.replace("(module $guest", f"(module $guest {export('enqueue')}"))
    leave(plugin)
    assert not plugin.maintain(ONE.node_table)
    assert score(plugin, ONE) == [1]


@pytest.mark.parametrize(("later", "collected"), [(60.0, 0), (-GC_IDLE_S, 1)])
def test_garbage_is_not_collected_between_two_verbs(load: Loader, later: float, collected: int) -> None:
    plugin = load.plugin(COLLECTS)
    score(plugin, ONE)
    guest = only_guest(plugin)
    assert guest is not None
    guest.left += later
    assert not plugin.maintain(ONE.node_table)
    assert score(plugin, ONE) == [collected]


def test_a_guest_is_idle_from_when_it_is_given_back(load: Loader) -> None:
    """However long a stage has taken, as one does in which a pod waits on Permit."""
    plugin = load.plugin(COLLECTS)
    with plugin.guest(ONE.pod, ONE.nodes, "bind") as (guest, _):
        guest.left = 0.0
    assert not plugin.maintain(ONE.node_table)
    assert score(plugin, ONE) == [0]


class TestGarbageOfNodes:
    """A guest that is told of nodes, and that no pod comes to."""

    @pytest.fixture
    def guest(self, engine: WasmtimeEngine) -> Iterator[CoreGuest]:
        exports = [f'(func (export "{name}") (param i32))' for name in ("nodechanged", "noderemoved")]
        compiled = engine.compile(binary(COLLECTS.replace("(module $guest", f"(module $guest {' '.join(exports)}")))
        guest = CoreGuest(compiled.instantiate(Settings("plugin"), NoHandle()), compiled.exports)
        yield guest
        guest.close()

    def tell(self, guest: CoreGuest, text: bytes) -> None:
        node_table = world({"node-a": text}).node_table
        assert guest.sync_nodes(Nodes(node_table, ()), time.monotonic() + 30)

    def test_is_collected_after_a_while(self, guest: CoreGuest) -> None:
        self.tell(guest, b"A")
        assert not guest.is_garbage_collection_due
        guest._collected -= GC_INTERVAL_S
        assert guest.is_garbage_collection_due

    def test_is_collected_once(self, guest: CoreGuest) -> None:
        self.tell(guest, b"A")
        guest.collect(time.monotonic() + 30)
        guest._collected -= GC_INTERVAL_S
        assert not guest.is_garbage_collection_due
        self.tell(guest, b"B")
        assert guest.is_garbage_collection_due

    def test_is_none_if_there_is_nothing_to_tell(self, guest: CoreGuest) -> None:
        self.tell(guest, b"A")
        guest.collect(time.monotonic() + 30)
        guest._collected -= GC_INTERVAL_S
        self.tell(guest, b"A")
        assert not guest.is_garbage_collection_due

    def test_is_not_collected_between_two_verbs(self, guest: CoreGuest) -> None:
        self.tell(guest, b"A")
        guest._collected -= GC_INTERVAL_S
        guest.left = time.monotonic()
        assert not guest.is_garbage_collection_due


def test_a_guest_that_fails_is_reported_and_replaced(load: Loader, kept: Kept) -> None:
    """The other plugins are maintained as before."""
    bad, good = load.plugin(FAILS), load.plugin(COLLECTS)
    kept.plugins = [bad, good]
    for plugin in kept.plugins:
        score(plugin, ONE)
    broken = only_guest(bad)
    for plugin in kept.plugins:
        leave(plugin)
    kept.maintenance.start()
    until(lambda: has_collected(good))
    until(lambda: only_guest(bad) not in {None, broken})
    assert kept.errors == [(bad, "collectgarbage: trap: unreachable in collectgarbage")]
    assert [score(plugin, ONE) for plugin in kept.plugins] == [[0], [1]]


def test_a_plugin_that_is_closed_is_left_alone(load: Loader, kept: Kept) -> None:
    closed, other = load.plugin(keeper.GUEST), load.plugin(keeper.GUEST)
    closed.close()
    kept.plugins = [closed, other]
    kept.maintenance.start()
    kept.node_table.put([("node-a", b"A")])
    until(lambda: knows(other, 1))
    assert kept.errors == []


class TestFaultOfOurs:
    """What maintenance is given to work with fails once."""

    def test_of_the_list_of_plugins(self, load: Loader, caplog: pytest.LogCaptureFixture) -> None:
        plugin = load.plugin(keeper.GUEST)

        def plugins() -> Iterable[Plugin]:
            if not caplog.records:
                raise OSError("the registry has failed")
            return [plugin]

        self.goes_on(plugins, lambda *_: None, plugin)
        assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["the registry has failed"]

    def test_of_the_report(self, load: Loader, caplog: pytest.LogCaptureFixture) -> None:
        bad, good = load.plugin(FAILS), load.plugin(keeper.GUEST)
        score(bad, ONE)
        leave(bad)

        def report(*_: object) -> None:
            raise OSError("the log has failed")

        self.goes_on(lambda: [bad, good], report, good)
        assert [record.getMessage() for record in caplog.records] == ["guest-maintenance has failed and is begun anew"]

    @staticmethod
    def goes_on(
        plugins: Callable[[], Iterable[Plugin]], report: Callable[[Plugin, Exception], object], good: Plugin
    ) -> None:
        maintenance = GuestMaintenance(plugins, lambda: ONE.node_table, report)
        maintenance.start()
        maintenance.wake()
        until(lambda: knows(good, 1))
        maintenance.stop()


class Slow:
    """A plugin that takes its time, and has always more to do."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.times = 0
        self.is_over = False
        """Whether it was told in the end that its time is over."""

    def maintain(self, _: NodeTable, is_over: Callable[[], bool]) -> bool:
        self.begun.set()
        assert self.may_end.wait(60)
        self.times += 1
        self.is_over = is_over()
        return True


class TestStop:
    def test_waits_for_the_guest_at_hand(self) -> None:
        """And for no other plugin's."""
        slow, other = Slow(), Slow()
        maintenance = GuestMaintenance(lambda: [slow, other], NodeTable, lambda *_: None)  # type: ignore[list-item]
        maintenance.start()
        assert slow.begun.wait(60)
        stopping = threading.Thread(target=maintenance.stop)
        stopping.start()
        until(lambda: maintenance._thread.is_stopped)
        assert maintenance._thread.is_alive()
        slow.may_end.set()
        stopping.join(60)
        assert not maintenance._thread.is_alive()
        assert (slow.times, other.times) == (1, 0)
        assert slow.is_over

    def test_leaves_the_other_guests_of_the_plugin_alone(self, load: Loader) -> None:
        plugin = load.plugin(COLLECTS)
        with plugin.guest(ONE.pod, ONE.nodes, "score"):
            score(plugin, ONE.with_pod("2"))
        leave(plugin)
        first, second = idle_guests(plugin._pool)
        assert not plugin.maintain(ONE.node_table, lambda: not first._is_called)
        assert [first._is_called, second._is_called] == [False, True]

    def test_may_come_again_or_before_it_began(self, kept: Kept) -> None:
        kept.maintenance.stop()
        kept.maintenance.start()
        for _ in range(2):
            kept.maintenance.stop()
        assert not kept.maintenance._thread.is_alive()

    def test_ends_it_while_nothing_happens(self, load: Loader, kept: Kept) -> None:
        plugin = load.plugin(keeper.GUEST)
        kept.plugins = [plugin]
        kept.maintenance.start()
        kept.maintenance.stop()
        kept.node_table.put([("node-a", b"A")])
        assert knows(plugin, 0)


def test_what_is_tended_can_be_asked_meanwhile(load: Loader, kept: Kept) -> None:
    """Each request sees what was there before it, and no guest breaks."""
    plugin = load.plugin(keeper.GUEST)
    kept.plugins = [plugin]
    kept.maintenance.start()
    names = [f"node-{at}" for at in range(10 * MAX_NODES_PER_BATCH)]
    for number in range(20):
        objects = dict.fromkeys(names[number:], str(number).encode())
        kept.node_table.replace(objects)
        asked = names[19:40]
        at = World(ONE.with_pod(str(number)).pod, Nodes(kept.node_table, asked))
        assert filter_nodes(plugin, at) == keeper.expected(objects, asked)
    assert (kept.errors, len(plugin._pool)) == ([], 1)
