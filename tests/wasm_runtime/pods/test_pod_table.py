"""The pods that guests are told of, as the host keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import Beside
from wasm_runtime import NodeTable
from wasm_runtime.abi import NO_NODE
from wasm_runtime.pods.pod_table import PlacedPod, PodChanges, PodTable, ResidentPod

ON_A, ON_B = ResidentPod("a", b"1"), ResidentPod("b", b"2")
PENDING = ResidentPod("", b"3")


@pytest.fixture
def node_table() -> NodeTable:
    return NodeTable()


@pytest.fixture
def pods(node_table: NodeTable) -> PodTable:
    return node_table.pods


def placed(pod: ResidentPod, node: int, since: int) -> PlacedPod:
    return PlacedPod(pod, node, since)


def test_an_empty_one(pods: PodTable) -> None:
    assert len(pods) == 0
    assert pods.get("x") is None
    assert pods.changes(0) is None


def test_put_adds_and_replaces(pods: PodTable) -> None:
    pods.put([("x", ON_A), ("y", PENDING)])
    pods.put([("y", ON_B), ("z", ON_A)])
    assert (len(pods), pods.get("x"), pods.get("y"), pods.get("z")) == (3, ON_A, ON_B, ON_A)
    assert pods.changes(0) == PodChanges(
        4, 3, [(0, placed(ON_A, 0, 1)), (1, placed(ON_B, 1, 3)), (2, placed(ON_A, 0, 4))]
    )


def test_put_takes_any_iterable_once(pods: PodTable) -> None:
    pods.put(iter([("x", ON_A), ("x", ON_B)]))
    assert pods.changes(0) == PodChanges(2, 1, [(0, placed(ON_B, 1, 2))])


def test_a_pod_without_a_node_is_on_none(pods: PodTable) -> None:
    pods.put([("x", PENDING)])
    assert pods.changes(0) == PodChanges(1, 1, [(0, placed(PENDING, NO_NODE, 1))])


def test_an_object_stays_as_old_as_it_is_while_node_and_state_change(pods: PodTable) -> None:
    pods.put([("x", PENDING)])
    steps = [
        (PENDING._replace(node="a", is_tentative=True), 0, 1),
        (PENDING._replace(node="a"), 0, 1),
        (PENDING._replace(node="b"), 1, 1),
        (PENDING._replace(node="b", object=b"new"), 1, 5),
        (PENDING._replace(node="a", object=b"new"), 0, 5),
    ]
    for position, (pod, node, since) in enumerate(steps, 1):
        pods.put([("x", pod)])
        assert pods.changes(position) == PodChanges(position + 1, 1, [(0, placed(pod, node, since))])


def test_remove_gives_the_number_to_the_next_new_pod(pods: PodTable) -> None:
    pods.put([("x", ON_A), ("y", ON_B)])
    pods.remove("x")
    assert (len(pods), pods.get("x")) == (1, None)
    assert pods.changes(2) == PodChanges(3, 2, [(0, None)])
    pods.put([("z", ON_A)])
    assert pods.changes(2) == PodChanges(4, 2, [(0, placed(ON_A, 0, 4))])


def test_remove_of_a_pod_that_is_not_known(pods: PodTable) -> None:
    pods.remove("x")
    assert pods.changes(0) is None


def test_replace_forgets_what_is_not_named(pods: PodTable) -> None:
    pods.put([("x", ON_A), ("y", ON_B)])
    pods.replace({"y": ON_B, "z": PENDING})
    assert pods.changes(2) == PodChanges(4, 2, [(0, placed(PENDING, NO_NODE, 4))])
    pods.replace({})
    assert (len(pods), pods.changes(4)) == (0, PodChanges(6, 2, [(0, None), (1, None)]))


def test_what_stays_the_same_is_no_change(pods: PodTable) -> None:
    pods.put([("x", ON_A), ("y", PENDING)])
    pods.put([("x", ON_A)])
    pods.replace({"x": ON_A, "y": PENDING})
    assert pods.changes(2) is None


def test_changes_come_once_each_and_in_the_order_of_the_numbers(pods: PodTable) -> None:
    pods.put([("x", ON_A), ("y", ON_A), ("z", ON_A)])
    for object_ in (b"4", b"5"):
        pods.put([("z", ON_A._replace(object=object_)), ("x", ON_A._replace(object=object_))])
    last = ON_A._replace(object=b"5")
    assert pods.changes(3) == PodChanges(7, 3, [(0, placed(last, 0, 7)), (2, placed(last, 0, 6))])
    assert pods.changes(6) == PodChanges(7, 3, [(0, placed(last, 0, 7))])


def test_who_follows_nodes_is_told_of_changes_of_pods_too() -> None:
    told: list[int] = []

    def note() -> None:
        told.append(len(followed.pods))

    followed = NodeTable(note)
    followed.pods.put([("x", ON_A), ("y", ON_A)])
    followed.pods.put([("x", ON_A)])
    followed.pods.remove("x")
    followed.pods.remove("x")
    followed.pods.replace({"z": ON_B})
    assert told == [2, 1, 1]


def test_a_table_of_nodes_is_given_back_with_its_pods() -> None:
    """They refer to each other without a circle, which would stay until Python collects garbage."""
    with pytest.raises(ReferenceError):
        NodeTable().pods.put([("x", ON_A)])


class TestNodes:
    """The names of nodes that pods are on."""

    @pytest.fixture(autouse=True)
    def _no_slack(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", -4)

    @staticmethod
    def begin_epoch(node_table: NodeTable) -> None:
        before = node_table.locate([]).epoch
        node_table.locate(["one", "two", "three", "four", "five"])
        node_table.put([])
        assert node_table.locate([]).epoch > before

    def index(self, node_table: NodeTable, name: str) -> int | None:
        """Its index after a new epoch has begun; None if the name was dropped."""
        self.begin_epoch(node_table)
        return next((at for at, each, _ in node_table.everything().nodes if each == name), None)

    def test_keep_their_indices_while_any_pod_is_there(self, node_table: NodeTable, pods: PodTable) -> None:
        pods.put([("x", ON_A), ("y", ON_A), ("z", ON_B)])
        assert [self.index(node_table, name) for name in "ab"] == [0, 1]
        pods.remove("x")
        assert self.index(node_table, "a") == 0
        pods.put([("y", ON_B)])
        assert [self.index(node_table, name) for name in "ab"] == [None, 1]

    def test_keep_them_through_changes_of_a_pod(self, node_table: NodeTable, pods: PodTable) -> None:
        pods.put([("x", ON_A)])
        for pod in (ON_A._replace(object=b"new"), ON_A._replace(is_tentative=True), ON_A):
            pods.put([("x", pod)])
            assert self.index(node_table, "a") == 0
        pods.put([("x", PENDING)])
        assert self.index(node_table, "a") is None

    def test_are_let_go_by_replace(self, node_table: NodeTable, pods: PodTable) -> None:
        pods.put([("x", ON_A), ("y", ON_B)])
        pods.replace({"y": ON_B, "z": PENDING})
        assert [self.index(node_table, name) for name in "ab"] == [None, 1]

    def test_are_no_nodes(self, node_table: NodeTable, pods: PodTable) -> None:
        pods.put([("x", ON_A)])
        assert (len(node_table), node_table.node_list()) == (0, b"")

    def test_stay_those_of_nodes_that_come_and_go(self, node_table: NodeTable, pods: PodTable) -> None:
        node_table.put([("b", b"B"), ("a", b"A")])
        pods.put([("x", ON_A)])
        node_table.remove("a")
        assert self.index(node_table, "a") == 1
        node_table.replace({"c": b"C"})
        assert self.index(node_table, "a") == 1


UIDS = st.sampled_from("uvwxyz")
PODS = st.builds(ResidentPod, st.sampled_from(["", "a", "b", "c"]), st.sampled_from([b"1", b"2"]), st.booleans())
SOME = st.dictionaries(UIDS, PODS, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), SOME),
        st.tuples(st.just("replace"), SOME),
        st.tuples(st.just("remove"), UIDS),
        st.tuples(st.just("locate"), st.lists(st.sampled_from("abcdefgh"), max_size=4)),
        st.tuples(st.just("look"), st.integers(0, 2)),
    ),
    max_size=60,
)


class Copy:
    """What an instance may keep: the pods by number, brought up to date by changes."""

    def __init__(self) -> None:
        self.position = 0
        self.pods: dict[int, PlacedPod] = {}

    def follow(self, pods: PodTable) -> None:
        changes = pods.changes(self.position)
        if changes is None:
            return
        for number, pod in changes.pods:
            assert number < changes.entries
            if pod is None:
                self.pods.pop(number, None)
                continue
            before = self.pods.get(number)
            assert pod.since > self.position or (before and before.pod.object == pod.pod.object)
            self.pods[number] = pod
        self.position = changes.position

    def check(self, node_table: NodeTable, truth: dict[str, ResidentPod]) -> None:
        self.follow(node_table.pods)
        assert Counter(each.pod for each in self.pods.values()) == Counter(truth.values())
        names = {at: name for at, name, _ in node_table.everything().nodes}
        assert {names.get(each.node, "") for each in self.pods.values()} == {each.node for each in truth.values()}
        assert all(names.get(each.node, "") == each.pod.node for each in self.pods.values())


@given(steps=STEPS)
@settings(max_examples=200, deadline=None)
def test_copies_that_follow_changes_equal_the_truth(steps: list[tuple[str, Any]]) -> None:
    """Three copies look at different times; each is right whenever it has looked. Numbers are as small as can be."""
    truth: dict[str, ResidentPod] = {}
    node_table, copies, most = NodeTable(), [Copy() for _ in range(3)], 0
    pods = node_table.pods
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wasm_runtime.nodes.node_table.SLACK", -4)
        for step, argument in steps:
            if step == "put":
                truth |= argument
                pods.put(argument.items())
            elif step == "replace":
                truth = dict(argument)
                pods.replace(argument)
            elif step == "remove":
                truth.pop(argument, None)
                pods.remove(argument)
            elif step == "locate":
                node_table.locate(argument)
            else:
                copies[argument].check(node_table, truth)
            most = max(most, len(truth))
            assert {uid: pods.get(uid) for uid in "uvwxyz"} == {uid: truth.get(uid) for uid in "uvwxyz"}
        for copy in copies:
            copy.check(node_table, truth)
    changes = pods.changes(-1)
    assert changes is not None
    assert (len(pods), changes.entries) == (len(truth), most)


def test_many_threads(node_table: NodeTable, pods: PodTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers of pods and of nodes, and copies: every copy ends in step with the table."""
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", -4)
    copies = [Copy() for _ in range(2)]

    def write(number: int) -> None:
        pods.put((f"pod-{at}", ResidentPod(f"n{(number + at) % 7}", b"%d" % number)) for at in range(5))
        pods.remove(f"pod-{number % 5}")

    def write_nodes(number: int) -> None:
        node_table.put([(f"n{number % 7}", b"%d" % number)])
        node_table.remove(f"n{(number + 3) % 7}")
        node_table.locate([f"only-{number}"])

    def often(work: Callable[[int], object]) -> None:
        for number in range(1_000):
            work(number)

    def follow(copy: Copy) -> Callable[[int], object]:
        return lambda _: copy.follow(pods)

    threads = [Beside(partial(often, work)) for work in (write, write_nodes, *map(follow, copies))]
    for thread in threads:
        thread.end()
    truth = {uid: pod for uid in (f"pod-{at}" for at in range(5)) if (pod := pods.get(uid))}
    assert len(truth) == len(pods) == 4
    for copy in copies:
        copy.check(node_table, truth)
