"""The ledger: which pod is on which node, or is about to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from extender.scheduling import expiries, room_taken
from extender.scheduling import ledger as ledger_module
from extender.scheduling.ledger import PLAN_S, RETAINED_S, UNCONFIRMED_S, Ledger
from extender.scheduling.ledger_entry import POD_OVERHEAD_BYTES, Entry, State
from extender.scheduling.rejected_pods import EARLY_S
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_pod

POD = b"pod"
CHANGED = b"changed"
MEMBER = b"pod of a group"
GIVEN = {"gpus": "0,3"}


class Book:
    """A ledger that nothing follows but the test, and whose time stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.outdated = 0.0
        self.woken = 0
        self.nodes = NodeTable()
        self.ledger = Ledger(
            self.nodes.pods,
            lambda: self.outdated,
            self._wake,
            lambda: self.now,
            is_member=MEMBER.__eq__,
            completes=MEMBER.__eq__,
        )

    def _wake(self) -> None:
        self.woken += 1

    def plan(self, uid: str = "a", node: str = "node-1", since: int | None = None) -> bool:
        """Expects a pod on a node, as it was judged just now."""
        return self.ledger.plan(uid, node, POD, self.ledger.position if since is None else since)

    def confirm(self, uid: str = "a", node: str = "node-1") -> None:
        """Binds a pod."""
        self.ledger.claim(uid, node, 10.0)
        self.ledger.confirm(uid, node)

    def release(self, uid: str, node: str = "node-1") -> None:
        """Does not bind a pod after all."""
        self.ledger.claim(uid, node, 10.0)
        self.ledger.release(uid, node)

    def doubt(self, uid: str = "a", node: str = "node-1") -> None:
        """Binds a pod, or not."""
        self.ledger.claim(uid, node, 10.0)
        self.ledger.doubt(uid, node)

    def retain(self, uid: str = "a", node: str = "node-1", pod: bytes = MEMBER) -> None:
        """Has a bind refused."""
        assert self.ledger.plan(uid, node, pod, self.ledger.position)
        self.ledger.claim(uid, node, 10.0)
        self.ledger.retain(uid, node)

    @property
    def states(self) -> dict[str, tuple[State, str]]:
        """State and node of each pod."""
        return {uid: (entry.state, entry.node) for uid, entry in self.ledger.entries().items()}

    def told(self, uid: str = "a") -> ResidentPod | None:
        """What guests are told of a pod."""
        return self.nodes.pods.get(uid)


@pytest.fixture
def book() -> Book:
    return Book()


class TestPlan:
    def test_guests_are_told_that_the_pod_may_not_come(self, book: Book) -> None:
        assert book.plan()
        assert book.ledger.entries() == {"a": Entry(State.TENTATIVE, "node-1", POD, book.now + PLAN_S)}
        assert book.told() == ResidentPod("node-1", POD, is_tentative=True)

    def test_it_ends_by_itself(self, book: Book) -> None:
        book.plan()
        book.now += PLAN_S
        assert book.states == {}
        assert book.told() is None

    def test_it_ends_when_the_pod_is_tried_again(self, book: Book) -> None:
        book.plan()
        book.ledger.retry("a")
        assert book.states == {}
        book.ledger.retry("a")

    def test_another_node_takes_the_place_of_the_one_before(self, book: Book) -> None:
        book.plan()
        book.plan(node="node-2")
        assert book.states == {"a": (State.TENTATIVE, "node-2")}

    def test_it_is_refused_once_another_pod_came_to_the_node(self, book: Book) -> None:
        since = book.ledger.position
        assert book.plan("b")
        assert not book.plan("a", since=since)
        assert book.plan("a", "node-2", since)
        assert book.plan("a")

    def test_what_leaves_the_node_does_not_refuse_it(self, book: Book) -> None:
        book.plan("b")
        since = book.ledger.position
        book.release("b")
        assert book.plan("a", since=since)

    def test_a_pod_that_grows_where_it_is_refuses_it(self, book: Book) -> None:
        book.ledger.observe("b", "node-1", POD)
        since = book.ledger.position
        book.ledger.observe("b", "node-1", POD)
        assert book.plan("a", since=since)
        since = book.ledger.position
        book.ledger.observe("b", "node-1", CHANGED)
        assert not book.plan("a", since=since)

    def test_a_pod_there_that_asks_for_no_more_does_not_refuse_it(self, book: Book) -> None:
        """Such as one that was bound here, which the watch brings, and of which the kubelet writes how it goes."""
        spec = {"containers": [{"name": "c"}]}
        pod = encode_pod({"spec": spec})
        assert book.ledger.plan("b", "node-1", pod, book.ledger.position)
        since = book.ledger.position
        book.confirm("b")
        for phase in ("Pending", "Running"):
            pod = encode_pod({"spec": {**spec, "nodeName": "node-1"}, "status": {"phase": phase}})
            book.ledger.observe("b", "node-1", pod)
        assert book.told("b") == ResidentPod("node-1", pod)
        assert book.plan("a", since=since)

    def test_a_node_that_is_not_remembered_refuses_it(self, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(room_taken, "MAX_NODES", 1)
        since = book.ledger.position
        book.plan("b", "node-1")
        assert book.plan("c", "node-2", since)
        assert not book.plan("a", "node-1", since)
        assert book.plan("a", "node-1")

    def test_plans_are_bounded(self, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(expiries, "MAX_PLANS_BYTES", 2 * (len(POD) + POD_OVERHEAD_BYTES))
        for at, uid in enumerate("abc"):
            book.now += at
            book.plan(uid)
        assert list(book.states) == ["b", "c"]


class TestRetain:
    def test_a_pod_of_a_group_keeps_its_room_for_a_while(self, book: Book) -> None:
        book.retain()
        entry = Entry(State.RETAINED, "node-1", MEMBER, book.now + RETAINED_S)
        assert (book.ledger.entries(), book.ledger.retained("a")) == ({"a": entry}, entry)
        assert book.told() == ResidentPod("node-1", MEMBER, is_tentative=True)
        assert (book.ledger.committed("a"), book.woken) == (None, 0)
        book.now += RETAINED_S
        assert (book.states, book.told(), book.ledger.retained("a")) == ({}, None, None)

    def test_others_leave_theirs(self, book: Book) -> None:
        book.ledger.reject(book.ledger.position)
        book.retain(pod=POD)
        assert (book.states, book.woken) == ({}, 1)

    def test_it_ends_with_the_next_bind(self, book: Book) -> None:
        book.retain()
        assert book.ledger.claim("a", "node-1", 10.0)
        assert (book.states, book.ledger.retained("a")) == ({"a": (State.BINDING, "node-1")}, None)
        book.ledger.retain("a", "node-1")
        assert book.states == {"a": (State.RETAINED, "node-1")}

    def test_a_pod_that_an_earlier_bind_may_have_bound_keeps_its_room_as_long(self, book: Book) -> None:
        assert book.ledger.plan("a", "node-1", MEMBER, book.ledger.position)
        book.doubt()
        known_at = book.now + UNCONFIRMED_S
        for passed, expires in ((0.0, known_at), (UNCONFIRMED_S - 1, known_at - 1 + RETAINED_S)):
            book.now += passed
            book.ledger.claim("a", "node-1", 10.0)
            book.ledger.retain("a", "node-1")
            assert book.ledger.entries() == {"a": Entry(State.UNCONFIRMED, "node-1", MEMBER, expires)}

    def test_it_ends_when_the_pod_may_go_elsewhere(self, book: Book) -> None:
        book.retain()
        assert (book.ledger.retry("a"), book.states) == ("node-1", {})

    def test_it_ends_when_the_watch_shows_the_pod_or_its_end(self, book: Book) -> None:
        book.retain()
        book.ledger.observe("a", "", MEMBER)
        assert book.states == {"a": (State.RETAINED, "node-1")}
        book.ledger.observe("a", "node-2", MEMBER)
        assert book.states == {"a": (State.OBSERVED, "node-2")}
        book.retain("b")
        book.ledger.delete("b")
        assert "b" not in book.states

    def test_another_node_or_pod_is_none_of_its_business(self, book: Book) -> None:
        book.ledger.retain("a", "node-1")
        assert book.ledger.plan("a", "node-1", MEMBER, book.ledger.position)
        book.ledger.claim("a", "node-1", 10.0)
        book.ledger.retain("a", "node-2")
        assert book.states == {"a": (State.BINDING, "node-1")}

    def test_they_are_bounded_as_plans_are(self, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(expiries, "MAX_PLANS_BYTES", 2 * (len(MEMBER) + POD_OVERHEAD_BYTES))
        for at, uid in enumerate("abc"):
            book.now += at
            book.retain(uid)
        book.ledger.expire()
        assert list(book.states) == ["b", "c"]


class TestGroups:
    def test_a_rejected_pod_is_woken_when_another_of_a_group_comes(self, book: Book) -> None:
        book.ledger.reject(book.ledger.position)
        book.ledger.observe("a", "", POD)
        assert book.woken == 0
        book.ledger.observe("b", "", MEMBER)
        assert book.woken == 1
        book.ledger.reject(book.ledger.position)
        book.ledger.observe("b", "", MEMBER)
        assert book.woken == 1

    @pytest.mark.parametrize(
        "ends", [lambda ledger: ledger.delete("b"), lambda ledger: ledger.replace({"a": ("", POD)})]
    )
    def test_a_rejected_pod_is_woken_when_another_of_a_group_ends_without_a_node(
        self, book: Book, ends: Callable[[Ledger], None]
    ) -> None:
        """Room may have been kept for the group. kube-scheduler does not look at others when such a pod ends."""
        for uid, pod in (("a", POD), ("b", MEMBER), ("c", POD)):
            book.ledger.observe(uid, "", pod)
        since = book.ledger.position
        assert book.ledger.reject(since)
        book.ledger.delete("c")
        assert book.woken == 0
        ends(book.ledger)
        assert book.woken == 1
        assert not book.ledger.reject(since)
        assert (book.told("a"), book.told("b")) == (ResidentPod("", POD), None)

    def test_a_pod_that_is_rejected_meanwhile_is_judged_again(self, book: Book) -> None:
        since = book.ledger.position
        book.ledger.regroup()
        assert not book.ledger.reject(since)
        assert book.ledger.reject(book.ledger.position)


class TestBind:
    def test_it_has_its_own_time(self, book: Book) -> None:
        book.plan()
        assert book.ledger.claim("a", "node-1", 100.0)
        book.now += 99.0
        assert book.states == {"a": (State.BINDING, "node-1")}
        book.now += 1.0
        assert book.states == {}

    def test_the_pod_goes_nowhere_else_meanwhile(self, book: Book) -> None:
        """kube-scheduler may have given up the bind, and ask again."""
        book.plan()
        assert book.ledger.committed("a") is None
        book.ledger.claim("a", "node-1", 10.0)
        assert book.ledger.committed("a") == "node-1"
        assert book.ledger.retry("a") == ""
        assert book.plan(node="node-2")
        book.ledger.release("a", "node-2")
        book.ledger.doubt("a", "node-2")
        assert book.states == {"a": (State.BINDING, "node-1")}

    def test_a_bind_is_not_dropped_for_plans(self, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(expiries, "MAX_PLANS_BYTES", 0)
        for uid, act in (("a", book.doubt), ("b", lambda: book.ledger.claim("b", "node-1", 1.0))):
            monkeypatch.setattr(expiries, "MAX_PLANS_BYTES", 1 << 20)
            book.plan(uid)
            act()
        monkeypatch.setattr(expiries, "MAX_PLANS_BYTES", 0)
        book.outdated = 1.0
        book.plan("c")
        assert book.states == {"a": (State.UNCONFIRMED, "node-1"), "b": (State.BINDING, "node-1")}

    @pytest.mark.parametrize("node", ["node-2", ""])
    def test_a_claim_elsewhere_is_none(self, book: Book, node: str) -> None:
        book.plan()
        assert not book.ledger.claim("a", node, 1.0)
        assert not book.ledger.claim("unknown", "node-1", 1.0)

    def test_a_plan_that_is_over_cannot_be_claimed(self, book: Book) -> None:
        book.plan()
        book.now += PLAN_S
        assert not book.ledger.claim("a", "node-1", 1.0)

    def test_what_was_bound_stays(self, book: Book) -> None:
        book.plan()
        book.confirm()
        book.now += 1e6
        book.ledger.retry("a")
        book.release("a")
        assert book.plan(node="node-2")
        assert book.ledger.claim("a", "node-1", 1.0)
        assert book.states == {"a": (State.CONFIRMED, "node-1")}
        assert book.told() == ResidentPod("node-1", POD)

    def test_what_has_ended_meanwhile_does_not_come_back(self, book: Book) -> None:
        book.plan()
        book.ledger.delete("a")
        book.confirm()
        assert book.states == {}

    def test_what_was_not_bound_is_free_at_once(self, book: Book) -> None:
        book.plan()
        book.release("a")
        assert book.states == {}
        book.release("a")


class TestAnnotate:
    def annotate(
        self, book: Book, uid: str = "a", since: int | None = None, given: Mapping[str, str] = GIVEN
    ) -> Mapping[str, str] | None:
        """Gives a pod annotations, which were chosen just now."""
        position = book.ledger.position if since is None else since
        return book.ledger.annotate(uid, "node-1", given, CHANGED, position)

    def begin(self, book: Book, uid: str = "a") -> None:
        """Begins a bind."""
        book.plan(uid)
        assert book.ledger.claim(uid, "node-1", 10.0)

    def test_guests_are_told_of_the_pod_that_has_them(self, book: Book) -> None:
        self.begin(book)
        assert self.annotate(book) == GIVEN
        assert book.ledger.entries() == {"a": Entry(State.BINDING, "node-1", CHANGED, book.now + 10.0, GIVEN)}
        assert book.told() == ResidentPod("node-1", CHANGED, is_tentative=True, is_binding=True)

    @pytest.mark.parametrize("end", ["confirm", "doubt"])
    def test_they_stay_until_the_watch_shows_the_pod(self, book: Book, end: str) -> None:
        self.begin(book)
        self.annotate(book)
        acts: dict[str, Callable[[], object]] = {
            "confirm": lambda: book.ledger.confirm("a", "node-1"),
            "doubt": lambda: book.ledger.doubt("a", "node-1"),
        }
        acts[end]()
        is_in_doubt = end == "doubt"
        assert book.told() == ResidentPod("node-1", CHANGED, is_tentative=is_in_doubt, is_binding=is_in_doubt)
        book.ledger.observe("a", "node-1", POD)
        assert book.told() == ResidentPod("node-1", POD)

    def test_they_are_gone_with_a_bind_that_was_refused(self, book: Book) -> None:
        self.begin(book)
        self.annotate(book)
        book.ledger.release("a", "node-1")
        self.begin(book)
        assert book.told() == ResidentPod("node-1", POD, is_tentative=True, is_binding=True)
        assert self.annotate(book, given={"gpus": "1"}) == {"gpus": "1"}

    def test_they_are_refused_once_another_pod_came_to_the_node(self, book: Book) -> None:
        self.begin(book)
        since = book.ledger.position
        book.plan("b", "node-2")
        assert self.annotate(book, since=since) == GIVEN
        self.begin(book, "c")
        since = book.ledger.position
        book.plan("d")
        before = book.ledger.entries()
        assert self.annotate(book, "c", since=since) is None
        assert book.ledger.entries() == before
        assert self.annotate(book, "c") == GIVEN

    def test_those_of_another_pod_refuse_them(self, book: Book) -> None:
        self.begin(book, "a")
        self.begin(book, "b")
        since = book.ledger.position
        assert self.annotate(book, "a", since=since) == GIVEN
        assert self.annotate(book, "b", since=since) is None
        assert self.annotate(book, "b") == GIVEN

    def test_no_annotations_are_never_too_late(self, book: Book) -> None:
        self.begin(book)
        since = book.ledger.position
        book.plan("b")
        before = book.ledger.position
        assert self.annotate(book, since=since, given={}) == {}
        assert book.ledger.position == before

    @pytest.mark.parametrize("given", [{}, {"gpus": "1"}])
    @pytest.mark.parametrize("is_in_doubt", [True, False])
    def test_a_second_bind_keeps_those_of_the_first_which_may_have_been_heard(
        self, book: Book, given: dict[str, str], is_in_doubt: bool
    ) -> None:
        self.begin(book)
        self.annotate(book)
        if is_in_doubt:
            book.ledger.doubt("a", "node-1")
        assert book.ledger.claim("a", "node-1", 10.0)
        book.plan("b")
        assert self.annotate(book, since=0, given=given) == GIVEN
        assert book.told() == ResidentPod("node-1", CHANGED, is_tentative=True, is_binding=True)

    def test_a_second_bind_gives_them_where_the_first_did_not(self, book: Book) -> None:
        self.begin(book)
        book.ledger.doubt("a", "node-1")
        assert self.annotate(book) == GIVEN
        assert book.states == {"a": (State.UNCONFIRMED, "node-1")}
        assert book.told() == ResidentPod("node-1", CHANGED, is_tentative=True, is_binding=True)

    @pytest.mark.parametrize("node", ["", "node-1", "node-2"])
    def test_a_pod_that_is_there_or_elsewhere_by_now_stays_what_it_is(self, book: Book, node: str) -> None:
        """The API server refuses the bind, or knows that the pod is there."""
        self.begin(book)
        if node:
            book.ledger.observe("a", node, POD)
        else:
            book.ledger.delete("a")
        before = book.ledger.entries()
        assert self.annotate(book) == GIVEN
        assert book.ledger.entries() == before


class TestDoubt:
    def test_the_pod_goes_nowhere_else(self, book: Book) -> None:
        book.plan()
        assert book.ledger.committed("a") is None
        book.doubt()
        assert book.ledger.committed("a") == "node-1"
        book.ledger.retry("a")
        book.release("a")
        book.plan(node="node-2")
        assert book.states == {"a": (State.UNCONFIRMED, "node-1")}
        assert book.told() == ResidentPod("node-1", POD, is_tentative=True, is_binding=True)

    def test_it_ends_once_the_watch_would_have_shown_the_pod(self, book: Book) -> None:
        book.plan()
        book.doubt()
        book.now += UNCONFIRMED_S
        assert book.states == {}
        assert book.ledger.committed("a") is None

    def test_its_time_begins_anew_when_the_watch_was_behind(self, book: Book) -> None:
        book.plan()
        book.doubt()
        book.outdated = 1.0
        book.now += UNCONFIRMED_S / 2
        book.ledger.expire()
        book.outdated = 0.0
        book.now += UNCONFIRMED_S / 2
        assert book.states == {"a": (State.UNCONFIRMED, "node-1")}
        book.now += UNCONFIRMED_S / 2
        assert book.states == {}

    def test_a_second_bind_ends_it(self, book: Book) -> None:
        book.plan()
        book.doubt()
        assert book.ledger.claim("a", "node-1", 1.0)
        book.confirm()
        assert book.states == {"a": (State.CONFIRMED, "node-1")}

    def test_there_is_none_about_a_pod_that_is_not_expected(self, book: Book) -> None:
        book.doubt()
        assert book.ledger.committed("a") is None


class TestWatch:
    @pytest.mark.parametrize("steps", [[], ["plan"], ["plan", "doubt"], ["plan", "confirm"], ["observe"]])
    def test_it_has_the_last_word(self, book: Book, steps: list[str]) -> None:
        acts: dict[str, Callable[[], object]] = {
            "plan": book.plan,
            "doubt": book.doubt,
            "confirm": book.confirm,
            "observe": lambda: book.ledger.observe("a", "node-1", POD),
        }
        for step in steps:
            acts[step]()
        book.ledger.observe("a", "node-9", CHANGED)
        assert book.ledger.entries() == {"a": Entry(State.OBSERVED, "node-9", CHANGED)}
        assert book.told() == ResidentPod("node-9", CHANGED)

    def test_a_pod_without_a_node_waits(self, book: Book) -> None:
        book.ledger.observe("a", "", POD)
        assert book.states == {}
        assert book.told() == ResidentPod("", POD)
        book.plan()
        book.ledger.observe("a", "", CHANGED)
        assert book.told() == ResidentPod("node-1", POD, is_tentative=True)
        book.release("a")
        assert book.told() == ResidentPod("", CHANGED)
        book.ledger.delete("a")
        assert book.told() is None

    def test_one_that_is_behind_does_not_take_back_a_bind(self, book: Book) -> None:
        book.plan()
        book.confirm()
        book.ledger.observe("a", "", CHANGED)
        assert book.states == {"a": (State.CONFIRMED, "node-1")}

    def test_a_list_takes_the_place_of_what_was_observed(self, book: Book) -> None:
        for uid in "abcd":
            book.ledger.observe(uid, "node-1", POD)
        book.ledger.observe("w", "", POD)
        book.ledger.observe("x", "", POD)
        book.ledger.replace({"b": ("node-2", CHANGED), "c": ("node-1", POD), "x": ("", CHANGED), "y": ("", POD)})
        assert book.states == {"b": (State.OBSERVED, "node-2"), "c": (State.OBSERVED, "node-1")}
        assert {uid: pod for uid in "abcdwxy" if (pod := book.told(uid))} == {
            "b": ResidentPod("node-2", CHANGED),
            "c": ResidentPod("node-1", POD),
            "x": ResidentPod("", CHANGED),
            "y": ResidentPod("", POD),
        }

    def test_a_list_may_be_older_than_a_bind(self, book: Book) -> None:
        book.plan("planned")
        book.plan("bound", "node-2")
        book.confirm("bound", "node-2")
        book.ledger.replace({"bound": ("", POD)})
        assert book.states == {
            "planned": (State.TENTATIVE, "node-1"),
            "bound": (State.UNCONFIRMED, "node-2"),
        }
        book.now += UNCONFIRMED_S
        assert book.states == {}
        assert book.told("bound") == ResidentPod("", POD)


class TestWake:
    def reject(self, book: Book) -> None:
        """Some pod finds no room."""
        assert book.ledger.reject(book.ledger.position)

    @pytest.mark.parametrize("step", ["release", "expire", "move", "vacate"])
    def test_room_that_nobody_else_sees_wakes_rejected_pods_once(self, book: Book, step: str) -> None:
        book.plan()
        book.plan("b", "node-2")
        self.reject(book)
        book.now += 20.0
        book.plan("b", "node-2")
        book.ledger.retry("b")
        book.plan("b", "node-2")
        assert book.woken == 0
        acts: dict[str, Callable[[], object]] = {
            "release": lambda: book.release("a"),
            "expire": self.expire(book),
            "move": lambda: book.plan("a", "node-3"),
            "vacate": self.vacate(book),
        }
        acts[step]()
        assert book.woken == 1
        book.release("b")
        assert book.woken == 1
        self.reject(book)
        book.plan("c")
        book.release("c")
        assert book.woken == 2

    def vacate(self, book: Book) -> Callable[[], object]:
        """What ends the plan of pod a, which comes back nowhere."""

        def act() -> None:
            book.ledger.retry("a")
            book.ledger.vacate()

        return act

    def expire(self, book: Book) -> Callable[[], object]:
        """What ends the plan of pod a."""

        def act() -> None:
            book.now += PLAN_S - 20.0
            book.ledger.expire()

        return act

    @pytest.mark.parametrize("step", ["delete", "move"])
    @pytest.mark.parametrize(("age", "woken"), [(EARLY_S / 2, 1), (EARLY_S, 0)])
    def test_room_that_kube_scheduler_sees_wakes_those_that_were_rejected_just_before(
        self, book: Book, step: str, age: float, woken: int
    ) -> None:
        book.ledger.observe("a", "node-1", POD)
        self.reject(book)
        book.now += age
        acts: dict[str, Callable[[], object]] = {
            "delete": lambda: book.ledger.delete("a"),
            "move": lambda: book.ledger.observe("a", "node-2", POD),
        }
        acts[step]()
        assert book.woken == woken

    def test_kube_scheduler_does_not_see_the_end_of_a_pod_that_was_not_bound(self, book: Book) -> None:
        book.plan()
        self.reject(book)
        book.now += EARLY_S
        book.ledger.delete("a")
        assert book.woken == 1

    def test_what_a_list_does_not_have_may_have_ended_long_ago(self, book: Book) -> None:
        book.ledger.observe("a", "node-1", POD)
        self.reject(book)
        book.now += EARLY_S
        book.ledger.replace({})
        assert book.woken == 1

    def test_nobody_is_woken_where_nobody_was_rejected(self, book: Book) -> None:
        book.plan()
        book.release("a")
        assert book.woken == 0

    def test_a_pod_is_not_rejected_while_room_comes_free(self, book: Book) -> None:
        book.plan()
        since = book.ledger.position
        book.release("a")
        assert not book.ledger.reject(since)
        assert book.ledger.reject(book.ledger.position)

    def test_a_pod_that_comes_makes_no_room(self, book: Book) -> None:
        since = book.ledger.position
        book.plan()
        book.confirm()
        book.ledger.observe("a", "node-1", POD)
        assert book.ledger.reject(since)


def test_pods_that_are_watched_no_more_are_forgotten(book: Book) -> None:
    """A bind that is under way ends without a trace, and what comes later is there for as long as it would be."""
    book.ledger.is_followed = True
    book.plan("plan", "node-1")
    book.plan("bind", "node-2")
    book.ledger.claim("bind", "node-2", 10.0)
    book.ledger.observe("there", "node-3", POD)
    book.ledger.observe("waits", "", POD)
    book.ledger.unfollow()
    book.ledger.confirm("bind", "node-2")
    assert (book.states, len(book.nodes.pods), book.ledger.is_followed) == ({}, 0, False)
    book.plan("later", "node-1")
    assert book.states == {"later": (State.TENTATIVE, "node-1")}
    book.now += PLAN_S
    assert book.states == {}


class Sink:
    """Keeps what guests are told, call by call: the pods, or the one that is gone."""

    def __init__(self) -> None:
        self.calls: list[list[str] | str] = []

    def put(self, pods: Iterable[tuple[str, ResidentPod]], /) -> None:
        if uids := [uid for uid, _ in pods]:
            self.calls.append(uids)

    def remove(self, uid: str, /) -> None:
        self.calls.append(uid)

    def replace(self, pods: Mapping[str, ResidentPod], /) -> None:
        raise AssertionError(pods)

    def complete(self) -> None:
        self.calls.append("complete")


class TestTelling:
    def test_guests_are_told_once_of_each_change(self) -> None:
        sink = Sink()
        ledger = Ledger(sink, lambda: 0.0)
        ledger.observe("a", "", POD)
        ledger.observe("a", "node-1", POD)
        ledger.delete("a")
        ledger.plan("b", "node-1", POD, ledger.position)
        ledger.delete("b")
        assert sink.calls == [["a"], ["a"], "a", ["b"], "b"]

    def test_a_list_is_told_some_pods_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ledger_module, "PODS_AT_ONCE", 2)
        sink = Sink()
        ledger = Ledger(sink, lambda: 0.0)
        ledger.replace({uid: ("node-1" if uid < "d" else "", POD) for uid in "abcde"})
        ledger.plan("e", "node-2", POD, ledger.position)
        sink.calls.clear()
        ledger.replace({"b": ("node-1", POD), "c": ("", POD), "e": ("", CHANGED), "f": ("node-1", POD)})
        assert sink.calls == ["a", "c", "d", ["e"], ["b", "c"], ["e", "f"], "complete"]

    def test_an_empty_list_is_all_pods(self) -> None:
        sink = Sink()
        Ledger(sink, lambda: 0.0).replace({})
        assert sink.calls == ["complete"]


def test_pods_are_counted_by_their_state(book: Book) -> None:
    book.plan("a")
    book.plan("b")
    book.confirm("b")
    book.ledger.observe("c", "node-1", POD)
    assert {state.value: book.ledger.count(state.value) for state in State} == {
        "tentative": 1,
        "binding": 0,
        "unconfirmed": 0,
        "retained": 0,
        "confirmed": 1,
        "observed": 1,
    }


def test_it_tells_of_pods_that_have_ended(book: Book) -> None:
    """Each once, those of which the watch has not told included; not those that a list may not have yet."""
    ended: list[str] = []
    book.ledger = Ledger(book.nodes.pods, lambda: 0.0, on_end=ended.append)
    for uid in ("a", "b", "c"):
        book.ledger.observe(uid, "", POD)
    book.plan("planned")
    assert ended == []
    book.ledger.delete("a")
    book.ledger.delete("unheard")
    assert ended == ["a", "unheard"]
    book.ledger.replace({"c": ("", POD)})
    assert ended == ["a", "unheard", "b"]
    book.ledger.replace({"c": ("node-1", POD)})
    assert ended == ["a", "unheard", "b"]
