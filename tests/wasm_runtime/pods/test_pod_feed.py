"""What a guest that keeps pods is told: records, batches, and what it costs the host to know what it knows."""

from __future__ import annotations

import struct
import time
import tracemalloc

import pytest

from tests.wasm_runtime import keeper, pod_keeper
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import binary, export, module
from tests.wasm_runtime.pod_keeper import mirror
from tests.wasm_runtime.world import idle_guests, wasmtime_instance, world
from wasm_runtime import Fault, GuestError, Nodes, NodeTable, Plugin, Settings, WasmtimeEngine, abi
from wasm_runtime.abi import NO_NODE, PodState
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.nodes.node_table import Changes
from wasm_runtime.pods.pod_feed import PodFeed
from wasm_runtime.pods.pod_feeds import PodFeeds
from wasm_runtime.pods.pod_table import PodChanges, PodTable, ResidentPod
from wasm_runtime.pods.record_feed import MAX_BATCH_BYTES, MAX_RECORDS_PER_BATCH, RecordBatch

GONE, THERE, TENTATIVE, _ = PodState
ON_A = ResidentPod("a", b"1")
PENDING = ResidentPod("", b"waits")

Record = tuple[int, int, int, bytes]
"""Number of the pod, number of the node, state, object."""


def records(batch: RecordBatch) -> list[Record]:
    """The records of a batch, each at a multiple of 8, with zeros between."""
    at, found = 0, list[Record]()
    while at < len(batch.records):
        assert at % 8 == 0
        pod, node, state, length = struct.unpack_from("<4I", batch.records, at)
        end = at + 16 + length
        found.append((pod, node, state, batch.records[at + 16 : end]))
        at = (end + 7) & -8
        assert not any(batch.records[end:at])
    assert (at, len(found)) == (len(batch.records), batch.length)
    return found


class Follower:
    """A guest as its host sees it: what it is told by each stream."""

    def __init__(self, *streams: str) -> None:
        self._feeds = PodFeeds(streams)

    def told(self, pods: PodTable) -> list[list[Record]]:
        """Each batch of what is new."""
        batches: list[list[Record]] = []
        self._feeds.follow(pods)
        self._feeds.announce_all(lambda _, batch, __: batches.append(records(batch)), float("inf"), 1.0)
        assert self._feeds.is_synced
        return batches


@pytest.fixture
def pods(node_table: NodeTable) -> PodTable:
    return node_table.pods


@pytest.fixture
def node_table() -> NodeTable:
    return NodeTable()


class TestPodFeed:
    @pytest.fixture
    def guest(self) -> Follower:
        return Follower("podschanged")

    def test_has_no_news_in_the_beginning(self, guest: Follower, pods: PodTable) -> None:
        assert guest.told(pods) == []
        assert PodFeed("podschanged").take() == RecordBatch(0, b"")

    def test_tells_once_that_there_are_no_pods(self, guest: Follower, pods: PodTable) -> None:
        pods.complete()
        assert guest.told(pods) == [[]]
        pods.complete()
        pods.put([("y", PENDING)])
        assert guest.told(pods) == []

    def test_that_pods_were_told_is_enough(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A)])
        assert guest.told(pods) == [[(0, 0, THERE, b"1")]]
        pods.remove("x")
        pods.complete()
        assert guest.told(pods) == [[(0, NO_NODE, GONE, b"")]]

    @pytest.mark.parametrize("size", [1, 7, 8, 9])
    def test_tells_the_object_once(self, guest: Follower, pods: PodTable, size: int) -> None:
        pods.put([("x", ON_A._replace(object=b"x" * size)), ("y", ON_A)])
        assert guest.told(pods) == [[(0, 0, THERE, b"x" * size), (1, 0, THERE, b"1")]]
        pods.put([("x", ResidentPod("b", b"x" * size, is_tentative=True))])
        assert guest.told(pods) == [[(0, 1, TENTATIVE, b"")]]
        pods.put([("x", ResidentPod("b", b"x" * size))])
        assert guest.told(pods) == [[(0, 1, THERE, b"")]]
        assert guest.told(pods) == []

    def test_tells_an_object_that_has_changed_whatever_has_changed_since(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A)])
        guest.told(pods)
        pods.put([("x", ON_A._replace(object=b"new"))])
        guest._feeds.follow(pods)
        pods.put([("x", ResidentPod("b", b"new"))])
        assert guest.told(pods) == [[(0, 1, THERE, b"new")]]

    def test_tells_of_no_pod_that_has_come_and_gone(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A)])
        guest._feeds.follow(pods)
        pods.remove("x")
        assert guest.told(pods) == []

    def test_tells_that_a_pod_is_gone_once(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A), ("y", ON_A)])
        guest.told(pods)
        pods.remove("x")
        assert guest.told(pods) == [[(0, NO_NODE, GONE, b"")]]
        pods.put([("y", PENDING)])
        assert guest.told(pods) == [[(1, NO_NODE, GONE, b"")]]
        pods.remove("y")
        assert guest.told(pods) == []

    def test_tells_the_object_again_once_the_pod_was_gone(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A)])
        guest.told(pods)
        pods.remove("x")
        guest.told(pods)
        pods.put([("y", ON_A)])
        assert guest.told(pods) == [[(0, 0, THERE, b"1")]]

    def test_tells_of_another_table_as_a_whole(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A), ("y", ON_A), ("z", ON_A)])
        guest.told(pods)
        pods.remove("y")
        other = NodeTable()
        other.pods.put([("other", ON_A)])
        assert guest.told(other.pods) == [[(0, 0, THERE, b"1"), (1, NO_NODE, GONE, b""), (2, NO_NODE, GONE, b"")]]

    def test_tells_of_a_table_that_is_empty(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A), ("y", ON_A)])
        guest.told(pods)
        assert guest.told(NodeTable().pods) == [[(0, NO_NODE, GONE, b""), (1, NO_NODE, GONE, b"")]]

    def test_forgets_what_was_to_be_told_of_a_table_that_is_left(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A), ("y", ON_A)])
        guest._feeds.follow(pods)
        other = NodeTable()
        other.pods.put([("other", ResidentPod("b", b"other"))])
        assert guest.told(other.pods) == [[(0, 0, THERE, b"other")]]

    def test_fills_batches_by_number(self, guest: Follower, pods: PodTable) -> None:
        pods.put((str(at), ON_A) for at in range(2 * MAX_RECORDS_PER_BATCH + 1))
        assert [len(batch) for batch in guest.told(pods)] == [MAX_RECORDS_PER_BATCH, MAX_RECORDS_PER_BATCH, 1]

    def test_fills_batches_by_bytes(self, guest: Follower, pods: PodTable) -> None:
        """One that is longer than a batch comes alone."""
        whole, half = MAX_BATCH_BYTES - 16, MAX_BATCH_BYTES // 2 - 16
        sizes = [half, half, half, half + 1, whole, whole + 1, 1, 10 * whole, 1, 1]
        pods.put((str(at), ResidentPod("a", b"x" * size)) for at, size in enumerate(sizes))
        assert [[len(each[-1]) for each in batch] for batch in guest.told(pods)] == [
            *([half, half], [half], [half + 1], [whole], [whole + 1], [1], [10 * whole], [1, 1])
        ]

    @pytest.mark.parametrize("fault", [Fault.LIMIT, Fault.TRAP])
    def test_breaks_the_guest_if_it_was_not_told(self, pods: PodTable, fault: Fault) -> None:
        """Whatever has gone wrong, even if a guest can go on after the like."""

        def call(name: str, *_: object) -> None:
            raise GuestError(fault, name, "no more")

        feeds = PodFeeds(["podschanged"])
        pods.put([("x", ON_A)])
        feeds.follow(pods)
        with pytest.raises(GuestError) as caught:
            feeds.announce(call, 0.0)
        assert (str(caught.value), caught.value.fatal) == ("podschanged: no more", True)

    def test_says_how_far_the_guest_is(self, pods: PodTable) -> None:
        pods.put((str(at), ON_A) for at in range(1_100))
        feed, position = PodFeed("podschanged"), 0

        def says(told: int, text: str) -> None:
            feed.take(told)
            assert str(feed) == text

        def follows() -> None:
            nonlocal position
            changes = pods.changes(position)
            assert changes is not None
            feed.add(changes, position)
            position = changes.position

        says(0, "pods: 0 of 0 are told")
        follows()
        says(0, "pods: 0 of 1,100 are told")
        says(1_050, "pods: 1,050 of 1,100 are told")
        pods.remove("0")
        pods.remove("1099")
        pods.put([("new", ON_A), ("1", ON_A._replace(object=b"new"))])
        follows()
        says(0, "pods: 1,048 of 1,100 are told")
        says(64, "pods: 1,099 of 1,099 are told")


class TestStreams:
    """Pods on nodes, and pods that have none."""

    @pytest.fixture
    def guest(self) -> Follower:
        return Follower(*abi.POD_STREAMS)

    def test_each_pod_is_of_one(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("x", ON_A), ("w", PENDING), ("y", ON_A)])
        assert guest.told(pods) == [[(0, 0, THERE, b"1"), (2, 0, THERE, b"1")], [(1, NO_NODE, THERE, b"waits")]]

    def test_a_pod_goes_from_one_to_the_other(self, guest: Follower, pods: PodTable) -> None:
        pods.put([("w", PENDING)])
        guest.told(pods)
        pods.put([("w", PENDING._replace(node="a", is_tentative=True))])
        assert guest.told(pods) == [[(0, 0, TENTATIVE, b"waits")], [(0, NO_NODE, GONE, b"")]]
        pods.put([("w", PENDING)])
        assert guest.told(pods) == [[(0, NO_NODE, GONE, b"")], [(0, NO_NODE, THERE, b"waits")]]

    def test_both_are_of_the_same_moment(self) -> None:
        """A pod that moves from one to the other meanwhile is in one of them, not in both or none."""

        class Moving(PodTable):
            def changes(self, position: int) -> PodChanges | None:
                found = super().changes(position)
                self.put([("w", PENDING._replace(node="" if position else "a"))])
                return found

        moving = Moving(lambda _: 0, lambda _: None)
        moving.put([("w", PENDING)])
        assert Follower(*abi.POD_STREAMS).told(moving) == [[(0, NO_NODE, THERE, b"waits")]]

    @pytest.mark.parametrize(
        ("exports", "streams"),
        [
            (set(abi.RESIDENT), ["groupschanged", "podschanged", "pendingpodschanged", "memberschanged"]),
            ({"podbuffer", "pendingpodschanged"}, ["pendingpodschanged"]),
            ({"podbuffer", "podschanged", "nodechanged"}, ["podschanged"]),
        ],
    )
    def test_are_those_that_are_exported(self, exports: set[str], streams: list[str]) -> None:
        feeds = PodFeeds.of(exports)
        assert feeds is not None
        assert [feed.export for feed in feeds._feeds] == streams

    @pytest.mark.parametrize("exports", [set(abi.EXPORTS), set(abi.RESIDENT) - set(abi.RECORD_STREAMS)])
    def test_are_none_for_a_guest_that_exports_neither(self, exports: set[str]) -> None:
        assert PodFeeds.of(exports) is None


def test_what_the_host_keeps_of_a_guest_is_little() -> None:
    """Some bytes for each of 50,000 pods, since there may be many guests."""
    node_table, feeds = NodeTable(), PodFeeds(["podschanged"])
    pods = node_table.pods
    pods.put((str(at), ON_A) for at in range(50_000))
    tracemalloc.start()
    try:
        feeds.follow(pods)
        feeds.announce_all(lambda *_: None, float("inf"), 1.0)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 4 * 50_000


def test_a_number_that_is_another_nodes_meanwhile_is_no_pods_node(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at pods and the look at nodes the pod goes, and its node's number is given to another name."""
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", keeper.SLACK)

    class Racing(NodeTable):
        races = False

        def changes(self, epoch: int, position: int) -> Changes | None:
            if self.races:
                self.races = False
                self.pods.remove("x")
                self.locate(["one", "two", "three"])
                self.put([])
                self.put((f"n{at}", b"N") for at in range(4))
            return super().changes(epoch, position)

    node_table = Racing()
    node_table.put([("live", b"L")])
    node_table.pods.put([("x", ResidentPod("ghost", b"X"))])
    instance = load.instance(pod_keeper.GUEST, timeout=30)
    (told,) = mirror(instance, node_table).on_nodes.values()
    node_table.races = True
    after = mirror(instance, node_table)
    assert after.on_nodes == {}
    assert after.names == {0: "live", 4: "n0", 3: "n1", 2: "n2", told.node: "n3"}


class TestPlugin:
    """Whether a plugin wants pods, and when its guests learn of them."""

    NEITHER = module(export("filter", "(i32.const 0)"))
    WAITS = module(
        export("filter", "(i32.const 0)"),
        '(func (export "podbuffer") (param i32) (result i32) (i32.const 0))',
        '(func (export "pendingpodschanged") (param i32))',
    )

    @pytest.mark.parametrize(
        ("guest", "wants"),
        [(NEITHER, False), (keeper.GUEST, False), (WAITS, True), (pod_keeper.GUEST, True)],
    )
    def test_wants_pods_by_its_exports(self, load: Loader, guest: str, wants: bool) -> None:
        plugin = load.plugin(guest)
        assert plugin.wants_pods is wants
        assert plugin._pool._learns is (wants or guest is keeper.GUEST)
        (first,) = idle_guests(plugin._pool)
        assert (wasmtime_instance(first)._pods is not None) is wants

    @pytest.mark.parametrize("count", [1, 1_000])
    def test_has_a_guest_learn_them_before_it_is_used(self, engine: WasmtimeEngine, count: int) -> None:
        node_table = world({"node-a": b"A"}).node_table
        node_table.pods.put((str(at), ResidentPod("node-a" if at % 2 else "", b"P")) for at in range(count))
        guest = module(
            *(f'(func (export "{name}") (param i32))' for name in ("nodechanged", "noderemoved", *abi.POD_STREAMS)),
            '(func (export "podbuffer") (param i32) (result i32) (i32.const 0))',
            export("filter", "(i32.const 0)"),
        )
        plugin = Plugin(engine, binary(guest), Settings("plugin", timeout=30), nodes=node_table)
        (first,) = idle_guests(plugin._pool)
        assert wasmtime_instance(first).sync_nodes(Nodes(node_table, ()), time.monotonic() + 30, 0)
        plugin.close()


def test_memory_that_a_guest_grows_for_pods_counts(load: Loader) -> None:
    grows = module(
        '(func $podbuffer (export "podbuffer") (param i32) (result i32)',
        "  (if (i32.eq (memory.grow (i32.const 24)) (i32.const -1)) (then unreachable)) (i32.const 65536))",
        '(func (export "pendingpodschanged") (param i32))',
        export("prefilter", "(i32.const 0)"),
    )
    instance = load.instance(grows, timeout=30, memory_limit=2 * MEBIBYTE)
    node_table = NodeTable()
    for at in range(2):
        node_table.pods.put([(str(at), PENDING)])
        if not at:
            assert instance.sync_nodes(Nodes(node_table, ()), time.monotonic() + 30)
    with pytest.raises(GuestError) as caught:
        instance.sync_nodes(Nodes(node_table, ()), time.monotonic() + 30)
    message = "podbuffer: trap: unreachable in podbuffer; its memory has grown to 1 of 2 MiB"
    assert (str(caught.value), caught.value.fault, caught.value.fatal) == (message, Fault.MEMORY, True)
