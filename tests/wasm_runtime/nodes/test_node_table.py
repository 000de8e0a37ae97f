"""The nodes that guests see, as the host keeps them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import Beside
from tests.wasm_runtime.protobuf_bytes import node_list
from wasm_runtime import Nodes, NodeTable
from wasm_runtime.abi import GroupSource
from wasm_runtime.nodes.node_table import ABSENT, NEVER, NOWHERE, Changes, Located
from wasm_runtime.pods.group_table import Group, GroupKey, NumberedGroup
from wasm_runtime.pods.pod_table import ResidentPod


@pytest.fixture
def node_table() -> NodeTable:
    return NodeTable()


LITTLE = 10


@pytest.fixture
def little_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries without an object, and few records of a log, are kept beyond four times the live nodes."""
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", LITTLE)


def nodes(**objects: bytes) -> Mapping[str, bytes]:
    return objects


def test_an_empty_one(node_table: NodeTable) -> None:
    assert len(node_table) == 0
    assert node_table.node_list() == b""
    assert node_table.locate([]) == Located(0, [])
    assert node_table.changes(0, 0) is None
    assert node_table.changes(NEVER, 0) == Changes(0, 0, 0, 0, [])


def test_put_adds_and_replaces(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2").items())
    node_table.put(nodes(b=b"3", c=b"4").items())
    assert node_table.changes(NEVER, 0) == Changes(0, 4, 3, 3, [(0, "a", b"1"), (1, "b", b"3"), (2, "c", b"4")])
    assert len(node_table) == 3


def test_put_takes_any_iterable_once(node_table: NodeTable) -> None:
    node_table.put(iter([("a", b"1"), ("a", b"2")]))
    assert node_table.changes(NEVER, 0) == Changes(0, 2, 1, 1, [(0, "a", b"2")])


def test_remove_keeps_the_name_and_its_index(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2").items())
    node_table.remove("a")
    assert node_table.changes(NEVER, 0) == Changes(0, 3, 2, 1, [(0, "a", ABSENT), (1, "b", b"2")])
    node_table.put(nodes(a=b"3").items())
    assert node_table.locate(["a", "b"]) == Located(0, [0, 1])
    assert len(node_table) == 2


def test_remove_of_a_name_that_is_not_known(node_table: NodeTable) -> None:
    node_table.remove("a")
    assert node_table.changes(NEVER, 0) == Changes(0, 0, 0, 0, [])


def test_remove_twice_is_one_change(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1").items())
    node_table.remove("a")
    node_table.remove("a")
    assert node_table.changes(0, 1) == Changes(0, 2, 1, 0, [(0, "a", ABSENT)])


def test_replace_forgets_what_is_not_named(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2").items())
    node_table.replace(nodes(b=b"2", c=b"3"))
    assert node_table.changes(0, 2) == Changes(0, 4, 3, 2, [(0, "a", ABSENT), (2, "c", b"3")])
    node_table.replace({})
    assert len(node_table) == 0


def test_what_stays_the_same_is_no_change(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2").items())
    node_table.put(nodes(a=b"1").items())
    node_table.replace(nodes(a=b"1", b=b"2"))
    assert node_table.changes(0, 2) is None


def test_changes_come_once_each_and_in_the_order_of_the_indices(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2", c=b"3").items())
    for value in (b"4", b"5", b"6"):
        node_table.put([("c", value), ("a", value)])
    assert node_table.changes(0, 3) == Changes(0, 9, 3, 3, [(0, "a", b"6"), (2, "c", b"6")])
    assert node_table.changes(0, 8) == Changes(0, 9, 3, 3, [(0, "a", b"6")])


def test_changes_of_another_epoch_are_all_there_is(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1").items())
    for epoch in (NEVER, 1, 1000):
        assert node_table.changes(epoch, 1) == Changes(0, 1, 1, 1, [(0, "a", b"1")])


def test_locate_gives_each_name_an_index_of_its_own(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1").items())
    assert node_table.locate(["x", "a", "y", "x"]) == Located(0, [1, 0, 2, 1])
    assert node_table.locate(["y", "x"]) == Located(0, [2, 1])
    assert len(node_table) == 1
    assert node_table.changes(0, 1) == Changes(0, 3, 3, 1, [(1, "x", ABSENT), (2, "y", ABSENT)])


def test_find_adds_no_name(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2").items())
    assert node_table.find(["b", "a"]) == Located(0, [1, 0])
    assert node_table.find(["a", "x"]) is None
    assert node_table.changes(0, 2) is None


def test_which_names_are_not_known_and_which_have_no_object(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", gone=b"2").items())
    node_table.remove("gone")
    node_table.locate(["named"])
    names = ["x", "a", "gone", "named", "x"]
    assert node_table.unknown(names) == ["x"]
    assert node_table.without_object(names) == ["x", "gone", "named", "x"]


def test_locate_keeps_no_list_that_may_change(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2").items())
    names = ["a"]
    assert node_table.locate(names) == Located(0, [0])
    names[0] = "b"
    assert node_table.locate(names) == Located(0, [1])


def test_expect_keeps_no_list_that_may_change(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2").items())
    names = ["a"]
    node_table.expect(names, Located(0, [0]))
    names[0] = "b"
    assert node_table.locate(names) == Located(0, [1])


def test_node_list_has_live_nodes_in_the_order_of_their_indices(node_table: NodeTable) -> None:
    node_table.put(nodes(b=b"2", a=b"1" * 300, gone=b"3").items())
    node_table.locate(["never"])
    node_table.remove("gone")
    assert node_table.node_list() == node_list([b"2", b"1" * 300])


@pytest.mark.usefixtures("little_slack")
def test_indices_stay_through_changes_that_are_not_wasteful(node_table: NodeTable) -> None:
    node_table.put((f"n{at}", b"1") for at in range(20))
    names = [f"n{at}" for at in range(20)]
    before = node_table.locate(names)
    for round_ in range(3):
        node_table.put((name, str(round_).encode()) for name in names)
    assert node_table.locate(names) == before


@pytest.mark.usefixtures("little_slack")
def test_changes_without_end_begin_no_epoch(node_table: NodeTable) -> None:
    for value in range(1, 1_001):
        node_table.put([("a", str(value).encode()), ("b", b"same")])
    assert node_table.locate(["a", "b"]) == Located(0, [0, 1])
    assert node_table.changes(0, 1_000) == Changes(0, 1_001, 2, 2, [(0, "a", b"1000")])
    assert node_table.changes(0, 1_001) is None


@pytest.mark.usefixtures("little_slack")
def test_an_epoch_drops_names_without_an_object(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2", c=b"3").items())
    node_table.remove("a")
    node_table.locate([f"unknown-{at}" for at in range(40)])
    assert node_table.locate(["c", "b"]) == Located(0, [2, 1])
    assert node_table.locate(["c", "next", "b"]) == Located(1, [2, 42, 1])
    changes = node_table.changes(0, 0)
    assert changes == Changes(
        1,
        45,
        43,
        2,
        [(at, {1: "b", 2: "c", 42: "next"}.get(at, ""), {1: b"2", 2: b"3"}.get(at, ABSENT)) for at in range(43)],
    )


@pytest.mark.usefixtures("little_slack")
@pytest.mark.parametrize("live", [0, 1, 100])
def test_names_that_come_and_go_take_bounded_room(node_table: NodeTable, live: int) -> None:
    """Names that only requests know, and nodes that live for a moment."""
    node_table.put((f"live-{at}", b"1") for at in range(live))
    largest = 0
    for at in range(1_000):
        node_table.locate([f"name-{at}", f"other-{at}"])
        node_table.put([(f"short-{at}", b"2")])
        node_table.remove(f"short-{at}")
        largest = max(largest, node_table.changes(NEVER, 0).entries)  # type: ignore[union-attr]
    assert largest <= LITTLE + 4 * (live + 1) + 4
    assert len(node_table) == live


@pytest.mark.usefixtures("little_slack")
@pytest.mark.parametrize("live", [1, 10])
@pytest.mark.parametrize("asked", [0, 1, 10, 50])
def test_indices_are_below_the_bound_that_guests_are_told(node_table: NodeTable, live: int, asked: int) -> None:
    """Four times the most nodes there were at once, `SLACK`, and the names of a request and of a list."""
    largest = 0
    for round_ in range(200):
        node_table.replace({f"live-{round_}-{at}": b"1" for at in range(live)})
        node_table.locate([f"name-{round_}-{at}" for at in range(asked)])
        largest = max(largest, node_table.everything().entries)
    assert LITTLE < largest <= 4 * live + LITTLE + asked + live


@pytest.mark.usefixtures("little_slack")
class TestHold:
    """Names that keep their indices, whatever comes and goes."""

    @staticmethod
    def begin_epoch(node_table: NodeTable) -> None:
        before = node_table.locate([]).epoch
        node_table.locate([f"epoch-{before}-{at}" for at in range(50)])
        node_table.put([])
        assert node_table.locate([]).epoch == before + 1

    def test_gives_the_index_of_a_name_that_is_known(self, node_table: NodeTable) -> None:
        node_table.put(nodes(a=b"1", b=b"2").items())
        assert [node_table.hold(name) for name in ("b", "a", "b")] == [1, 0, 1]
        assert node_table.changes(0, 2) is None

    def test_gives_an_index_to_a_name_that_is_not(self, node_table: NodeTable) -> None:
        assert node_table.hold("a") == 0
        assert len(node_table) == 0
        assert node_table.changes(0, 0) == Changes(0, 1, 1, 0, [(0, "a", ABSENT)])

    def test_lasts_until_it_is_released_as_often(self, node_table: NodeTable) -> None:
        for name in "aba":
            node_table.hold(name)
        node_table.release("a")
        self.begin_epoch(node_table)
        assert node_table.everything().nodes[:3] == [(0, "a", ABSENT), (1, "b", ABSENT), (2, "", ABSENT)]
        node_table.release("a")
        self.begin_epoch(node_table)
        assert node_table.everything().nodes[1] == (1, "b", ABSENT)
        assert "a" not in [name for _, name, _ in node_table.everything().nodes]

    def test_of_what_is_not_held_cannot_be_ended(self, node_table: NodeTable) -> None:
        node_table.locate(["a"])
        for name in ("a", "unknown"):
            with pytest.raises(KeyError):
                node_table.release(name)

    def test_begins_an_epoch_when_names_without_an_object_are_too_many(self, node_table: NodeTable) -> None:
        node_table.locate([f"unknown-{at}" for at in range(LITTLE + 1)])
        node_table.hold("a")
        assert node_table.locate(["a"]) == Located(1, [LITTLE])

    def test_begins_no_epochs_without_end(self, node_table: NodeTable) -> None:
        """Each would have the instances copy all nodes."""
        for at in range(1_000):
            node_table.hold(f"held-{at}")
        for at in range(1_000):
            node_table.put([("live", str(at).encode())])
        assert node_table.locate([]).epoch == 0

    @pytest.mark.parametrize("held", [0, 3, 20])
    @pytest.mark.parametrize("live", [1, 10])
    def test_leaves_indices_below_the_bound_that_guests_are_told(
        self, node_table: NodeTable, live: int, held: int
    ) -> None:
        largest, names = 0, [f"0-{at}" for at in range(held)]
        for name in names:
            node_table.hold(name)
        for round_ in range(200):
            node_table.replace({f"live-{round_}-{at}": b"1" for at in range(live)})
            node_table.locate([f"name-{round_}-{at}" for at in range(10)])
            for name in names:
                node_table.release(name)
            names = [f"{round_}-{at}" for at in range(held)]
            for name in names:
                node_table.hold(name)
            largest = max(largest, node_table.everything().entries)
        assert LITTLE < largest <= 4 * max(live, held) + LITTLE + 10 + live


class TestNodes:
    def test_are_located_in_the_order_of_the_request(self, node_table: NodeTable) -> None:
        node_table.put(nodes(a=b"1", b=b"2", c=b"3").items())
        request = Nodes(node_table, ["c", "new", "a", "c"])
        assert len(request) == 4
        assert request.located(0) == [2, 3, 0, 2]

    @pytest.mark.usefixtures("little_slack")
    def test_are_located_anew_in_a_new_epoch(self, node_table: NodeTable) -> None:
        request, epoch = moved(node_table)
        assert request.located(epoch) == [21, 1]
        assert request.located(0) is None
        assert request.located(epoch + 1) is None

    @pytest.mark.parametrize(
        ("selectors", "names", "indices"),
        [
            ([1, 0, 1], ["c", "b"], [2, 1]),
            ([True, True, True], ["c", "a", "b"], [2, 0, 1]),
            ([0, 0, 0], [], []),
            ((), [], []),
        ],
    )
    def test_select(self, node_table: NodeTable, selectors: list[int], names: list[str], indices: list[int]) -> None:
        node_table.put(nodes(a=b"1", b=b"2", c=b"3").items())
        selected = Nodes(node_table, ["c", "a", "b"]).select(selectors)
        assert (selected.names, selected.located(0)) == (names, indices)

    @pytest.mark.usefixtures("little_slack")
    def test_selected_nodes_live_through_an_epoch(self, node_table: NodeTable) -> None:
        request, epoch = moved(node_table)
        assert request.select([1, 0]).located(epoch) == [21]


def moved(node_table: NodeTable) -> tuple[Nodes, int]:
    """Nodes b and a, found at 0 and 1 and since then at 21 and 1; and the epoch of that."""
    node_table.put([("b", b"2"), ("a", b"1")])
    request = Nodes(node_table, ["b", "a"])
    assert request.located(0) == [0, 1]
    node_table.remove("b")
    node_table.locate([f"unknown-{at}" for at in range(20)])
    node_table.put([("c", b"3")])
    epoch = node_table.locate([]).epoch
    assert epoch == 1
    node_table.put([("b", b"5")])
    return request, epoch


NAMES = st.sampled_from([f"n{at}" for at in range(12)])
OBJECTS = st.sampled_from([b"", b"1", b"22", b"333"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(NAMES, OBJECTS, max_size=4)),
        st.tuples(st.just("replace"), st.dictionaries(NAMES, OBJECTS, max_size=4)),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("locate"), st.lists(NAMES, max_size=4)),
        st.tuples(st.just("look"), st.integers(0, 2)),
    ),
    max_size=60,
)


class Copy:
    """What an instance keeps: the entries by index, brought up to date by changes."""

    def __init__(self) -> None:
        self.epoch, self.position = NEVER, 0
        self.entries: dict[int, tuple[str, bytes]] = {}

    def follow(self, node_table: NodeTable) -> None:
        changes = node_table.changes(self.epoch, self.position)
        if changes is None:
            return
        if changes.epoch != self.epoch:
            self.entries.clear()
        self.entries |= {at: (name, node) for at, name, node in changes.nodes}
        self.epoch, self.position = changes.epoch, changes.position
        assert len(self.entries) == changes.entries
        assert sum(bool(node) for _, node in self.entries.values()) == changes.live


@given(steps=STEPS)
@settings(max_examples=200, deadline=None)
def test_copies_that_follow_changes_equal_the_truth(steps: list[tuple[str, Any]]) -> None:
    """Three copies look at different times; each is right whenever it has looked."""
    truth: dict[str, bytes] = {}
    node_table, copies = NodeTable(), [Copy() for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wasm_runtime.nodes.node_table.SLACK", 6)
        for step, argument in steps:
            if step == "put":
                truth |= argument
                node_table.put(argument.items())
            elif step == "replace":
                truth = dict(argument)
                node_table.replace(argument)
            elif step == "remove":
                truth.pop(argument, None)
                node_table.remove(argument)
            elif step == "locate":
                node_table.locate(argument)
            else:
                check(node_table, copies[argument], truth)
        for copy in copies:
            check(node_table, copy, truth)


def check(node_table: NodeTable, copy: Copy, truth: Mapping[str, bytes]) -> None:
    names = [f"n{at}" for at in range(12)]
    request = Nodes(node_table, names)
    copy.follow(node_table)
    located = request.located(copy.epoch)
    assert located is not None
    assert [copy.entries[at] for at in located] == [(name, truth.get(name, b"")) for name in names]
    assert len(node_table) == sum(map(bool, truth.values()))


@pytest.mark.usefixtures("little_slack")
def test_many_threads(node_table: NodeTable) -> None:
    """Writers, requests with names of their own, and copies: every copy ends in step with the node table."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            failures.append(error)

    counter = iter(range(10**9))
    copies = [Copy() for _ in range(2)]

    def write() -> None:
        value = str(next(counter)).encode()
        node_table.put((f"n{at}", value) for at in range(5))
        node_table.remove(f"n{int(value) % 5}")

    def request() -> None:
        names = [f"n{at}" for at in range(5)] + [f"only-{next(counter)}"]
        located = node_table.locate(names)
        assert len(set(located.indices)) == 6

    work: list[Callable[[], None]] = [write, request, *(partial(copy.follow, node_table) for copy in copies)]
    threads = [Beside(partial(guarded, each)) for each in work]
    stop.wait(0.5)
    stop.set()
    for thread in threads:
        thread.end()
    assert failures == []
    for copy in copies:
        copy.follow(node_table)
        whole = node_table.changes(NEVER, 0)
        assert whole is not None
        assert copy.entries == {at: (name, node) for at, name, node in whole.nodes}


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_copy_has_the_same_nodes_pods_and_groups_and_goes_its_own_way(
    node_table: NodeTable, is_complete: bool
) -> None:
    described, named = (GroupKey(GroupSource.LABEL, "default", name) for name in ("described", "named"))
    node_table.put(nodes(a=b"1", b=b"2", c=b"3").items())
    node_table.remove("b")
    node_table.pods.groups.put(described, Group(minimum=3))
    there = {"x": ResidentPod("a", b"4", is_tentative=True, group=named), "y": ResidentPod("", b"5", group=described)}
    node_table.pods.put(there.items())
    if is_complete:
        node_table.pods.complete()

    copied = node_table.copy()
    assert (copied.names(), copied.node_list()) == (["a", "c"], node_table.node_list())
    assert copied.pods.pods() == there
    (changes, groups) = copied.pods.changes(0), copied.pods.groups.changes(0)
    assert changes and changes.is_complete is is_complete
    assert groups
    assert {each for _, each in groups.groups} == {
        NumberedGroup(described, Group(minimum=3)),
        NumberedGroup(named, Group()),
    }

    copied.remove("a")
    copied.pods.remove("x")
    copied.pods.groups.remove(described)
    assert node_table.names() == ["a", "c"]
    assert node_table.pods.pods() == there
    assert len(node_table.pods.groups) == 2


def test_nodes_that_a_request_carries_are_nowhere_in_the_node_table(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1", b=b"2").items())
    before = node_table.everything()
    carried = {"x": b"3", "y": b"4"}
    asked = Nodes(node_table, ["x", "b", "y", "a"], carried=carried)
    assert asked.located(0) == [NOWHERE, 1, NOWHERE, 0]
    for some, names, indices in (
        (asked.select([1, 1, 0, 0]), ["x", "b"], [NOWHERE, 1]),
        (asked.at([3, 2]), ["a", "y"], [0, NOWHERE]),
        (next(asked.singly()), ["x"], [NOWHERE]),
    ):
        assert (some.names, some.located(0), some.carried) == (names, indices, carried)
    assert (node_table.everything(), node_table.find(["x", "b"])) == (before, None)


@pytest.mark.usefixtures("little_slack")
def test_nodes_that_a_request_carries_are_nowhere_in_a_new_epoch_either(node_table: NodeTable) -> None:
    node_table.put(nodes(a=b"1").items())
    asked = Nodes(node_table, ["x", "a"], carried={"x": b"3"})
    node_table.locate([f"n{at}" for at in range(5 * LITTLE)])
    node_table.put(nodes(b=b"1").items())
    epoch = node_table.everything().epoch
    assert (epoch, asked.located(epoch), node_table.find(["x"])) == (1, [NOWHERE, 0], None)
