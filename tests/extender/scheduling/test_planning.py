"""Pods that are expected on nodes: what filter and bind note, and what guests make of it."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from extender.cluster import BindError, PodKey
from extender.rollouts import pipeline
from extender.rollouts.revision import RolloutStage
from extender.scheduling import planning
from extender.scheduling.group_claim import LABEL
from extender.scheduling.ledger import GROUP_PLAN_S, PLAN_S, Ledger
from extender.scheduling.ledger_entry import State
from extender.webhook.protocol import Answer
from tests.extender import guests
from tests.extender.kwx import plugin, profile
from tests.extender.objects import binding_args, filter_error, filtered, names_args, node, pod
from tests.extender.rollouts.inside import Inside
from tests.patience import PATIENCE_S
from wasm_runtime.protobuf.annotate import annotated
from wasm_runtime.protobuf.encode import encode_node, encode_pod

NODES = [f"node-{at}" for at in range(4)]
FULL = "2 pods are there"
PACKS = plugin("packs_two")


class Binder:
    """Answers each bind as it is told."""

    def __init__(self) -> None:
        self.error: BindError | None = None
        self.bound: list[str] = []
        self.annotations: dict[str, Mapping[str, str]] = {}
        """By the names of the pods that were bound."""
        self.may_go_on: asyncio.Event | None = None
        """What a bind waits for, if it is to."""

    async def bind(self, key: PodKey, node_name: str, annotations: Mapping[str, str]) -> None:
        """Raises what it is told to."""
        if self.may_go_on:
            await asyncio.wait_for(self.may_go_on.wait(), PATIENCE_S)
        if self.error:
            raise self.error
        self.bound.append(f"{key.name} to {node_name}")
        self.annotations[key.name] = annotations


class Clock:
    """What the ledger takes for the time."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class World(Inside):
    """An extender whose ledger is followed, with a plugin that takes two pods on a node."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.clock, self.binder = Clock(), Binder()
        profiles = [
            profile("default", PACKS, topNodes=1),
            profile("all", PACKS),
            profile("blind", plugin("score_by_digit"), topNodes=1),
            profile("devices", plugin("shares_devices"), topNodes=1),
        ]
        super().__init__(folder, *profiles, binder=self.binder, clock=self.clock, **more)
        self.nodes.put((name, encode_node(node(name))) for name in NODES)
        self.ledger.is_followed = True

    @property
    def states(self) -> dict[str, tuple[State, str]]:
        """State and node of each pod, by its name."""
        found = self.ledger.entries().items()
        return {uid.removeprefix("uid-of-"): (entry.state, entry.node) for uid, entry in found}

    def fill(self, *names: str) -> None:
        """Puts two pods on nodes, as the watch shows them."""
        for name in names:
            for at in range(2):
                self.ledger.observe(f"{name}-{at}", name, b"\x0a\x00")

    def chosen(self, name: str, of: str = "default") -> str:
        """The node that filter answers alone."""
        answer = self.filter(name, of, NODES)
        (only,) = answer["NodeNames"]
        return str(only)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    with world:
        yield world


class TestFilter:
    def test_pods_in_a_row_fill_node_after_node(self, world: World) -> None:
        chosen = [world.chosen(f"pod-{at}") for at in range(8)]
        assert chosen[::2] == chosen[1::2]
        assert sorted(chosen[::2]) == NODES
        assert world.states == {f"pod-{at}": (State.TENTATIVE, node) for at, node in enumerate(chosen)}
        assert world.filter("pod-8", names=NODES) == filtered([], dict.fromkeys(NODES, FULL))

    def test_a_pod_that_is_tried_again_does_not_stand_in_its_own_way(self, world: World) -> None:
        world.fill(*NODES[1:])
        world.chosen("first")
        assert [world.chosen("again") for _ in range(3)] == ["node-0"] * 3
        assert world.states["again"] == (State.TENTATIVE, "node-0")

    def test_a_pod_that_is_not_bound_makes_room_after_a_while(self, world: World) -> None:
        world.fill(*NODES[1:])
        assert [world.chosen("a"), world.chosen("b")] == ["node-0", "node-0"]
        assert world.filter("c", names=NODES) == filtered([], dict.fromkeys(NODES, FULL))
        world.clock.now += PLAN_S
        assert world.chosen("c") == "node-0"

    def test_a_group_makes_room_sooner(self, world: World) -> None:
        """kube-scheduler tries one that does not fit again before other plans are over."""
        world.fill(*NODES[1:])
        for name in ("a", "b"):
            member = pod(name)
            member["spec"]["schedulingGroup"] = {"podGroupName": "ring"}
            assert world.ask("/filter", names_args(NODES, member)) == filtered(
                ["node-0"], dict.fromkeys(NODES[1:], FULL)
            )
        world.clock.now += GROUP_PLAN_S - 1
        assert world.filter("c", names=NODES) == filtered([], dict.fromkeys(NODES, FULL))
        world.clock.now += 1
        assert world.chosen("c") == "node-0"

    def test_a_rejected_pod_is_woken_when_a_plan_comes_to_nothing(self, world: World) -> None:
        world.fill(*NODES[1:])
        assert [world.chosen("a"), world.chosen("b")] == ["node-0", "node-0"]
        assert world.filter("c", names=NODES)["NodeNames"] == []
        world.chosen("b")
        assert world.woken == 0
        assert world.filter("b", names=NODES[1:])["NodeNames"] == []
        assert world.woken == 1
        assert world.chosen("c") == "node-0"

    def test_with_more_nodes_it_is_not_known_where_the_pod_goes(self, world: World) -> None:
        assert world.filter("pod", "all", NODES) == filtered(NODES)
        assert world.filter("pod", "all", NODES[:1]) == filtered(NODES[:1])
        assert world.states == {}

    def test_pods_of_profiles_that_know_no_pods_count_too(self, world: World) -> None:
        assert [world.chosen(name, "blind") for name in "ab"] == ["node-3", "node-3"]
        assert world.filter("c", names=["node-3"]) == filtered([], {"node-3": FULL})

    def test_nothing_is_noted_where_nothing_follows_pods(self, tmp_path: Path) -> None:
        with Inside(tmp_path, profile("default", PACKS, topNodes=1)) as inside:
            inside.nodes.put((name, encode_node(node(name))) for name in NODES)
            assert len(inside.filter("pod", names=NODES)["NodeNames"]) == 1
            assert inside.ledger.entries() == {}

    def test_pods_that_are_judged_at_the_same_time_do_not_share_room(self, world: World) -> None:
        """A plugin that is new runs in threads."""

        async def all_at_once() -> list[Answer]:
            asked = [
                world.begin_to_ask("/profiles/default/filter", names_args(NODES, pod(f"pod-{at}"))) for at in range(8)
            ]
            return await asyncio.wait_for(asyncio.gather(*asked), PATIENCE_S)  # type: ignore[arg-type]

        answers = [msgspec.json.decode(answer.body) for answer in world.run(all_at_once())]
        assert Counter(name for answer in answers for name in answer["NodeNames"]) == dict.fromkeys(NODES, 2)

    def test_a_pod_is_rejected_though_room_comes_free_all_the_time(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And is woken soon."""
        world.fill(*NODES)
        reject, asked = world.ledger.reject, 0

        def never(since: int) -> bool:
            nonlocal asked
            asked += 1
            return reject(since) and asked > planning.MAX_JUDGED

        monkeypatch.setattr(world.ledger, "reject", never)
        assert world.filter("pod", names=NODES) == filtered([], dict.fromkeys(NODES, FULL))
        assert (asked, world.woken) == (planning.MAX_JUDGED + 1, 1)

    def test_one_that_is_always_overtaken_is_told_so(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> bool:
            return False

        monkeypatch.setattr(Ledger, "plan", refuse)
        cause = (
            f"node node-0 was given other pods each of the {planning.MAX_JUDGED} times that pod default/pod was judged;"
            " kube-scheduler tries the pod again"
        )
        assert world.filter("pod", names=["node-0"]) == filter_error(cause)


class TestBind:
    def test_what_is_bound_stays(self, world: World) -> None:
        assert world.bind("pod", "default", node=world.chosen("pod")) == ""
        ((state, at),) = world.states.values()
        assert (state, world.binder.bound) == (State.CONFIRMED, [f"pod to {at}"])
        world.clock.now += 1e6
        assert world.states == {"pod": (State.CONFIRMED, at)}

    def test_what_is_refused_makes_room_at_once(self, world: World) -> None:
        at = world.chosen("pod")
        world.binder.error = BindError("cannot bind")
        assert world.bind("pod", "default", node=at) == "cannot bind"
        assert world.states == {}

    def test_a_pod_of_a_group_that_is_refused_gets_its_node_again(self, world: World) -> None:
        world.groups.follow()
        member = pod("member")
        member["metadata"]["labels"] = {LABEL: "ring"}
        (at,) = world.ask("/profiles/default/filter", names_args(NODES, member))["NodeNames"]
        world.binder.error = BindError("cannot bind")
        assert world.bind("member", "default", node=at) == "cannot bind"
        assert world.states == {"member": (State.RETAINED, at)}
        assert [world.chosen("other"), world.chosen("another") == at] == [at, False]
        reason = f"the pod has its room on {at}, where its bind was refused"
        others = [name for name in NODES if name != at]
        assert world.ask("/profiles/default/filter", names_args(NODES, member)) == filtered(
            [at], {}, dict.fromkeys(others, reason)
        )
        world.binder.error = None
        assert world.bind("member", "default", node=at) == ""
        assert world.states["member"] == (State.CONFIRMED, at)

    def test_it_goes_elsewhere_if_that_node_is_not_asked_about(self, world: World) -> None:
        world.groups.follow()
        member = pod("member")
        member["metadata"]["labels"] = {LABEL: "ring"}
        (at,) = world.ask("/profiles/default/filter", names_args(NODES[:1], member))["NodeNames"]
        world.binder.error = BindError("cannot bind")
        world.bind("member", "default", node=at)
        assert world.ask("/profiles/default/filter", names_args(NODES[1:2], member)) == filtered(NODES[1:2])
        assert world.states == {"member": (State.TENTATIVE, NODES[1])}

    def test_what_may_be_bound_goes_nowhere_else(self, world: World) -> None:
        world.fill(*NODES[1:])
        assert world.chosen("pod") == "node-0"
        world.binder.error = BindError("nobody knows", may_be_bound=True)
        assert world.bind("pod", "default", node="node-0") == "nobody knows"
        assert world.states["pod"] == (State.UNCONFIRMED, "node-0")
        for at in range(2):
            world.ledger.delete(f"node-1-{at}")
        reason = "the pod is being bound to node-0, or may be bound there: the watch has not shown it yet"
        assert world.filter("pod", names=NODES) == filtered(["node-0"], {}, dict.fromkeys(NODES[1:], reason))
        world.binder.error = None
        assert world.bind("pod", "default", node="node-0") == ""
        assert world.states["pod"] == (State.CONFIRMED, "node-0")

    def test_a_pod_that_is_being_bound_goes_nowhere_else(self, world: World) -> None:
        """kube-scheduler has given up the bind, and asks again."""
        world.fill(*NODES[1:])
        world.filter("a", "all", NODES)
        reason = "the pod is being bound to node-0, or may be bound there: the watch has not shown it yet"

        async def ask(path: str, request: object) -> Any:
            answer = world.begin_to_ask(path, request)
            return msgspec.json.decode((await answer if inspect.isawaitable(answer) else answer).body)

        async def both() -> tuple[Any, Any, Any]:
            world.binder.may_go_on = asyncio.Event()
            bind = asyncio.ensure_future(ask("/profiles/all/bind", binding_args("node-0", "a")))
            while world.states.get("a") != (State.BINDING, "node-0"):
                await asyncio.sleep(0.01)
            again = await ask("/profiles/all/filter", names_args(NODES, pod("a")))
            elsewhere = await ask("/profiles/all/filter", names_args(NODES[1:2], pod("a")))
            world.binder.may_go_on.set()
            return again, elsewhere, await bind

        again, elsewhere, bound = world.run(asyncio.wait_for(both(), PATIENCE_S))
        assert again == filtered(["node-0"], {}, dict.fromkeys(NODES[1:], reason))
        assert elsewhere == filtered([], {}, {NODES[1]: reason})
        assert (bound["Error"], world.states["a"]) == ("", (State.CONFIRMED, "node-0"))

    @pytest.mark.parametrize("late", [True, False])
    def test_a_pod_that_is_not_expected_is_judged_once_more(self, world: World, late: bool) -> None:
        """Its plan is over, or it was not known where it would go."""
        route = "default" if late else "all"
        world.filter("pod", route, ["node-0"])
        world.clock.now += PLAN_S
        assert world.bind("pod", route, "node-0") == ""
        assert world.states == {"pod": (State.CONFIRMED, "node-0")}

    @pytest.mark.parametrize("late", [True, False])
    def test_it_is_refused_where_others_have_come(self, world: World, late: bool) -> None:
        route = "default" if late else "all"
        world.filter("pod", route, ["node-0"])
        world.clock.now += PLAN_S
        world.fill("node-0")
        refused = f"bind refused: node node-0 does not take pod default/pod any more: {FULL}"
        assert world.bind("pod", route, "node-0") == refused
        assert (world.binder.bound, "pod" in world.states) == ([], False)

    @pytest.mark.parametrize(
        ("is_planned", "error"),
        [
            (True, "cannot bind pod default/pod to node node-0: "),
            (False, "bind refused: node node-0 could not be judged again for pod default/pod: "),
        ],
    )
    def test_the_time_of_bind_counts_from_its_beginning(self, tmp_path: Path, is_planned: bool, error: str) -> None:
        world = World(tmp_path, bind_timeout=0.0)
        with world:
            world.filter("pod", "default" if is_planned else "all", ["node-0"])
            assert world.bind("pod", "default" if is_planned else "all", "node-0") == (
                f"{error}no time was left of server.bindTimeout; raise it, and the extender's httpTimeout with it"
            )
            assert (world.binder.bound, world.states) == ([], {})

    def test_binds_at_the_same_time_do_not_share_room(self, world: World) -> None:
        for at in range(6):
            world.filter(f"pod-{at}", "all", NODES)

        async def all_at_once() -> list[Answer]:
            asked = [world.begin_to_ask("/profiles/all/bind", binding_args("node-0", f"pod-{at}")) for at in range(6)]
            return await asyncio.wait_for(asyncio.gather(*asked), PATIENCE_S)  # type: ignore[arg-type]

        errors = Counter(msgspec.json.decode(answer.body)["Error"] for answer in world.run(all_at_once()))
        assert errors[""] == len(world.binder.bound) == 2
        assert sum(FULL in error for error in errors.elements()) == 4


DEVICE = "example.com/device"
DEVICES = [{DEVICE: "0"}, {DEVICE: "1"}]


class TestAnnotations:
    """A plugin that gives each pod one of the two devices of its node."""

    FULL: Final = "plugin shares_devices: reserve: Unschedulable: no device is free"

    def bind(self, world: World, *names: str) -> list[str]:
        """Binds pods at the same time. What is wrong with each."""

        async def all_at_once() -> list[Answer]:
            asked = [world.begin_to_ask("/profiles/devices/bind", binding_args("node-0", name)) for name in names]
            return await asyncio.wait_for(asyncio.gather(*asked), PATIENCE_S)  # type: ignore[arg-type]

        return [msgspec.json.decode(answer.body)["Error"] for answer in world.run(all_at_once())]

    def chosen(self, world: World, *names: str) -> None:
        """Has filter answer a node for pods."""
        for name in names:
            world.filter(name, "devices", ["node-0"])

    def objects(self, world: World) -> dict[str, bytes]:
        """What the ledger has of each pod, by its name."""
        return {uid.removeprefix("uid-of-"): entry.object for uid, entry in world.ledger.entries().items()}

    def test_pods_in_a_row_get_one_each(self, world: World) -> None:
        self.chosen(world, *"abc")
        assert [self.bind(world, name) for name in "abc"] == [[""], [""], [self.FULL]]
        assert world.binder.annotations == {"a": DEVICES[0], "b": DEVICES[1]}

    def test_the_ledger_has_them_until_the_watch_shows_the_pod(self, world: World) -> None:
        self.chosen(world, *"ab")
        before = self.objects(world)
        self.bind(world, "a")
        assert self.objects(world) == {**before, "a": annotated(before["a"], DEVICES[0])}
        world.ledger.delete("uid-of-a")
        self.bind(world, "b")
        assert world.binder.annotations["b"] == DEVICES[0]

    def test_pods_at_the_same_time_get_one_each(self, world: World) -> None:
        self.chosen(world, *"abcdef")
        errors = Counter(self.bind(world, *"abcdef"))
        assert errors == {"": 2, self.FULL: 4}
        assert sorted(each[DEVICE] for each in world.binder.annotations.values()) == ["0", "1"]
        assert len(world.ledger.entries()) == 2

    def test_who_is_overtaken_is_reserved_for_once_more(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        annotate = world.ledger.annotate

        def overtaken(*args: Any) -> Mapping[str, str] | None:
            monkeypatch.undo()
            world.ledger.observe("other", "node-0", encode_pod({"metadata": {"annotations": DEVICES[0]}}))
            return annotate(*args)

        self.chosen(world, "a")
        monkeypatch.setattr(world.ledger, "annotate", overtaken)
        assert self.bind(world, "a") == [""]
        assert world.binder.annotations == {"a": DEVICES[1]}

    def test_one_that_is_always_overtaken_is_told_so(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            return None

        self.chosen(world, "a")
        monkeypatch.setattr(world.ledger, "annotate", refuse)
        assert self.bind(world, "a") == [
            f"node node-0 was given other pods each of the {planning.MAX_JUDGED} times that annotations were chosen for"
            " pod default/a; kube-scheduler tries the pod again"
        ]
        assert (world.binder.bound, world.states) == ([], {})

    def test_a_pod_that_may_be_bound_keeps_its_device(self, world: World) -> None:
        """The guest would give it the other one now."""
        self.chosen(world, "a")
        world.binder.error = BindError("nobody knows", may_be_bound=True)
        assert self.bind(world, "a") == ["nobody knows"]
        self.chosen(world, "a", "b")
        world.binder.error = None
        assert [self.bind(world, name) for name in "ab"] == [[""], [""]]
        assert world.binder.annotations == {"a": DEVICES[0], "b": DEVICES[1]}

    def test_a_device_is_free_again_where_the_bind_was_refused(self, world: World) -> None:
        self.chosen(world, "a")
        world.binder.error = BindError("cannot bind")
        assert self.bind(world, "a") == ["cannot bind"]
        world.binder.error = None
        self.chosen(world, "b")
        assert self.bind(world, "b") == [""]
        assert world.binder.annotations == {"b": DEVICES[0]}

    def test_they_are_given_where_nothing_follows_pods(self, world: World) -> None:
        """All pods get the first device: the plugin knows of none."""
        world.ledger.is_followed = False
        self.chosen(world, *"ab")
        assert self.bind(world, *"ab") == ["", ""]
        assert (world.binder.annotations, world.states) == ({"a": DEVICES[0], "b": DEVICES[0]}, {})


class TestSwap:
    @pytest.fixture
    def inside(self, tmp_path: Path) -> Iterator[Inside]:
        with Inside(tmp_path, profile("default", plugin("score_by_digit", name="told"))) as inside:
            inside.pods_problem = "the pods of the cluster are not known yet: they are being read"
            yield inside

    def test_a_plugin_that_wants_pods_goes_live_once_they_are_known(self, inside: Inside) -> None:
        before = inside.active()
        rollout = inside.begin(guests.module("packs_two"))
        inside.wait_until(lambda: inside.now(rollout).stage is RolloutStage.VERIFIED)
        assert inside.active() == before
        inside.pods_problem = None
        assert inside.over(rollout).stage is RolloutStage.ACTIVE
        assert inside.active() != before

    def test_it_does_not_wait_for_ever(self, inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pipeline, "MAX_PODS_S", 0.0)
        before = inside.active()
        over = inside.over(inside.begin(guests.module("packs_two")))
        cause = "plugin told wants to know pods: the pods of the cluster are not known yet: they are being read"
        assert (over.stage, over.problem, inside.active()) == (RolloutStage.FAILED, cause, before)

    def test_others_do_not_wait(self, inside: Inside) -> None:
        inside.upload(guests.constant_score(7))
