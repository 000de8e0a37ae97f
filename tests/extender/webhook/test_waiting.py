"""Pods that wait on Permit until enough others are there: binds as kube-scheduler asks for them, in this process."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.scheduling import waiting_pods
from extender.scheduling.bind import BindingCycle
from extender.scheduling.ledger_entry import State
from extender.scheduling.permit_rounds import PermitRounds
from extender.webhook.bind_handler import GONE
from extender.webhook.protocol import Answer
from extender.webhook.workers import NoThreadError
from tests.extender.kwx import plugin, profile
from tests.extender.objects import NODE_NAMES, binding_args, names_args, pod
from tests.extender.rollouts.inside import Inside
from tests.patience import PATIENCE_S, eventually
from wasm_runtime.guests import pool
from wasm_runtime.protobuf.encode import encode_pod

MANY = 60
"""Members of a large gang."""
LONG = 600.0
"""Seconds that no test waits for."""
MEMBER = "a-member-of-the-gang"
"""What the guest looks for in pods."""


@pytest.fixture(autouse=True)
def pods_keep_their_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long another one is being made."""
    monkeypatch.setattr(pool, "MAX_WAIT_FOR_NEW_S", PATIENCE_S)


class Caller:
    """Who asks for a bind, and goes when the test says so."""

    def __init__(self) -> None:
        self.go: Callable[[], object] = lambda: None

    def when_gone(self, tell: Callable[[], object]) -> None:
        self.go = tell


class Binds:
    """Binds that go on at the same time. Its methods are for the loop."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self.callers: dict[str, Caller] = {}
        self.tasks: dict[str, asyncio.Future[str]] = {}

    def begin(self, name: str, profile: str = "", node: str = "node-7") -> None:
        """Asks for the bind of a pod."""
        caller = self.callers[name] = Caller()
        answer = self.inside.begin_to_ask(self._path(profile, "bind"), binding_args(node, name), caller)
        assert not isinstance(answer, Answer)
        self.tasks[name] = asyncio.ensure_future(self._error(answer))

    async def wait(self, *names: str, profile: str = "") -> None:
        """Filters pods, asks for their binds, and returns when they wait on Permit."""
        for name in names:
            await self.filtered(name, profile)
            self.begin(name, profile)
            await eventually(partial(self.waits_or_ended, name))
            assert self.waits(name), self.tasks[name]

    async def filtered(self, name: str, profile: str = "") -> None:
        """Begins a pod's cycle."""
        shown = pod(name, annotations={"gang": MEMBER})
        answer = self.inside.begin_to_ask(self._path(profile, "filter"), names_args(NODE_NAMES, shown))
        status, body, *_ = answer if isinstance(answer, Answer) else await answer
        assert (status, msgspec.json.decode(body)["Error"]) == (200, "")

    async def end(self, name: str) -> str:
        """The error of a pod's bind, empty if it is bound."""
        return await asyncio.wait_for(self.tasks[name], PATIENCE_S)

    def waits(self, name: str) -> bool:
        return self.inside.waiting.find(f"uid-of-{name}") is not None

    def waits_or_ended(self, name: str) -> bool:
        return self.waits(name) or self.tasks[name].done()

    def place(self, name: str, node: str = "node-1") -> None:
        """The watch shows another pod of the gang on a node."""
        shown = pod(name, annotations={"gang": MEMBER})
        self.inside.ledger.observe(f"uid-of-{name}", node, encode_pod(shown))

    async def _error(self, answer: Awaitable[Answer]) -> str:
        status, body, *_ = await answer
        assert status == 200, body
        return str(msgspec.json.decode(body)["Error"])

    @staticmethod
    def _path(profile: str, verb: str) -> str:
        return f"/profiles/{profile}/{verb}" if profile else f"/{verb}"


class Told:
    """Which exports the guests were called by, in order, of all pods together."""

    def __init__(self, inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        monkeypatch.setattr(inside.waiting, "waiting_pod", self.calls.append)


FIRST = ["prefilter", "prefilter", "reserve", "permit"]
"""Until a pod waits: filter, the same about the chosen node when the bind begins, and the binding cycle."""

GANG = {"instances": 8, "timeout": "30s"}
PROFILES = [
    profile("default", plugin("gang", f"3-{MEMBER}", name="gang", **GANG)),
    profile("many", plugin("gang", f"{chr(ord('0') + MANY)}-{MEMBER}", name="gang", **GANG)),
    profile("few", plugin("gang", f"34{MEMBER}", name="gang", **GANG)),
    profile("alone", plugin("gang", f"3-{MEMBER}", name="gang", **GANG | {"instances": 1})),
    profile("portable", plugin("binding_from_config", "aaaeafa60000", name="p", timeout="30s")),
]


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    with Inside(tmp_path, *PROFILES, bind_timeout=LONG) as inside:
        inside.ledger.is_followed = True
        yield inside


@pytest.fixture
def told(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(inside, monkeypatch)


def states(inside: Inside) -> dict[str, State]:
    return {uid.removeprefix("uid-of-"): entry.state for uid, entry in inside.ledger.entries().items()}


async def ask_again(inside: Inside) -> None:
    """A round, which is done in a thread of its own otherwise."""
    assert inside.waiting.woken.is_set()
    await asyncio.to_thread(inside.waiting.ask_again)


# -- plugins that are asked again ------------------------------------------------------------------


def test_a_gang_is_bound_when_its_last_member_has_come(inside: Inside, told: Told) -> None:
    async def gang() -> None:
        binds = Binds(inside)
        await binds.wait("one", "two")
        assert states(inside) == dict.fromkeys(["one", "two"], State.BINDING)
        await ask_again(inside)
        assert (binds.waits("one"), binds.waits("two")) == (True, True)
        await binds.filtered("three")
        binds.begin("three")
        assert await binds.end("three") == ""
        await ask_again(inside)
        assert [await binds.end(name) for name in ("one", "two")] == ["", ""]

    inside.run(gang())
    assert states(inside) == dict.fromkeys(["one", "two", "three"], State.CONFIRMED)
    last = ["prebind", "postbind"]
    until_third = [*FIRST, *FIRST, "permit", *FIRST, *last]  # What happened until "two" was asked, "two" knew.
    assert told.calls[: len(until_third)] == until_third
    assert sorted(told.calls[len(until_third) :]) == sorted(["permit", "permit", *last, *last])
    assert (inside.waiting.waits(), inside.pins.profiles_in_use()) == ([], set())


def test_a_plugin_that_says_no_when_it_is_asked_again_rejects_the_pod(inside: Inside, told: Told) -> None:
    async def too_many() -> None:
        binds = Binds(inside)
        await binds.wait("one", profile="few")
        for at in range(4):
            binds.place(f"other-{at}")
        await ask_again(inside)
        assert await binds.end("one") == "plugin gang: permit: Unschedulable: too many are there"

    inside.run(too_many())
    assert told.calls == [*FIRST, "permit", "unreserve"]
    assert states(inside) == {f"other-{at}": State.OBSERVED for at in range(4)}


def test_a_guest_that_another_pod_needs_leaves_the_cycle_of_one_that_waits(inside: Inside, told: Told) -> None:
    """Whatever is called next for the pod begins with PreFilter, also Unreserve."""

    async def in_turn() -> None:
        binds = Binds(inside)
        await binds.wait("one", "two", profile="alone")
        binds.place("three")
        await ask_again(inside)
        assert [await binds.end(name) for name in ("one", "two")] == ["", ""]

    inside.run(in_turn())
    asked = told.calls[2 * len(FIRST) :]
    assert asked[:2] == ["prefilter", "permit"]
    assert Counter(call for call in asked if call != "prefilter") == dict.fromkeys(["permit", "prebind", "postbind"], 2)


def test_a_plugin_that_is_told_of_no_pods_is_asked_once(inside: Inside, told: Told) -> None:
    async def change() -> None:
        binds = Binds(inside)
        await binds.wait("one", profile="portable")
        binds.place("other")
        await ask_again(inside)
        (wait,) = inside.waiting.waits()
        assert not wait.is_asked_about
        wait.allow()
        assert await binds.end("one") == ""

    inside.run(change())
    assert told.calls == ["prefilter", "reserve", "permit", "prebind", "bind", "postbind"]


# -- what ends a wait ------------------------------------------------------------------------------

ENDS: dict[str, tuple[Callable[[Inside, Binds], object], str]] = {
    "hang-up": (lambda _, binds: binds.callers["one"].go(), GONE),
    "deletion": (lambda inside, _: inside.ledger.delete("uid-of-one"), "the pod was deleted while it waited"),
    "guest": (
        lambda inside, _: inside.waiting.reject_waiting_pod("uid-of-one"),
        "the pod was rejected while it waited",
    ),
    "end": (
        lambda inside, _: inside.waiting.close(),
        "the extender ends, and the pod waited; kube-scheduler tries the pod again",
    ),
    "list": (lambda inside, _: inside.ledger.replace({}), "the pod was deleted while it waited"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_wait_that_comes_to_nothing_gives_back_what_was_reserved(inside: Inside, told: Told, end: str) -> None:
    act, cause = ENDS[end]

    async def ends() -> None:
        binds = Binds(inside)
        await binds.wait("one")
        inside.ledger.observe("uid-of-one", "", b"as the watch shows it")
        act(inside, binds)
        assert await binds.end("one") == f"plugin gang: permit: {cause}"

    inside.run(ends())
    assert told.calls == [*FIRST, "unreserve"]
    assert (states(inside), inside.waiting.waits(), inside.pins.profiles_in_use()) == ({}, [], set())


def test_another_bind_of_the_pod_ends_the_one_that_waits_before_it_begins(inside: Inside, told: Told) -> None:
    """kube-scheduler may have died, and another one asks: the room that the first gives back is not taken twice."""

    async def twice() -> None:
        binds = Binds(inside)
        await binds.wait("one")
        first = binds.tasks["one"]
        await binds.filtered("one")
        binds.begin("one")
        error = "kube-scheduler asked for another bind of the pod while it waited"
        assert await asyncio.wait_for(first, PATIENCE_S) == f"plugin gang: permit: {error}"
        await eventually(lambda: binds.waits("one"))
        assert states(inside) == {"one": State.BINDING}
        (wait,) = inside.waiting.waits()
        wait.allow()
        assert await binds.end("one") == ""

    inside.run(twice())
    assert told.calls == [*FIRST, "unreserve", *FIRST[1:], "prebind", "postbind"]


def test_another_bind_of_the_pod_begins_when_one_whose_wait_is_over_has_ended(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_unreserve, give_up = threading.Event(), BindingCycle.give_up

    def give_up_late(cycle: BindingCycle) -> None:
        assert may_unreserve.wait(PATIENCE_S)
        give_up(cycle)

    async def twice() -> None:
        binds = Binds(inside)
        await binds.wait("one")
        first = binds.tasks["one"]
        monkeypatch.setattr(BindingCycle, "give_up", give_up_late)
        binds.callers["one"].go()
        await eventually(lambda: not binds.waits("one"))
        await binds.filtered("one")
        binds.begin("one")
        await asyncio.sleep(0)
        assert (told.calls, states(inside)) == (FIRST, {"one": State.BINDING})
        may_unreserve.set()
        assert await asyncio.wait_for(first, PATIENCE_S) == f"plugin gang: permit: {GONE}"
        await eventually(lambda: binds.waits("one"))
        assert states(inside) == {"one": State.BINDING}
        inside.waiting.close()
        await binds.end("one")

    inside.run(twice())
    assert told.calls == [*FIRST, "unreserve", *FIRST[1:], "unreserve"]


def test_a_wait_ends_some_seconds_before_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_pods, "MAX_LEFT_FOR_BIND_S", LONG - 0.05)
    monkeypatch.setattr(waiting_pods, "LEFT_FOR_BIND", 1.0)
    with Inside(tmp_path, *PROFILES, bind_timeout=LONG) as inside:
        inside.filter("one")
        assert inside.bind("one") == (
            "plugin gang: permit: the pod was to wait for 60 s, but the verb ends before;"
            " raise server.bindTimeout, and the extender's httpTimeout with it"
        )


def test_what_was_reserved_is_given_back_where_no_thread_can_be_had(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(*_: Any) -> Any:
        raise NoThreadError("no thread can be started for it: no")

    async def ends() -> None:
        binds = Binds(inside)
        await binds.wait("one", "two")
        monkeypatch.setattr("extender.webhook.workers.Workers.submit", submit)
        first, second = inside.waiting.waits()
        first.allow()
        assert await binds.end("one") == "no thread can be started for it: no"
        second.reject("no")
        assert await binds.end("two") == "plugin gang: permit: no"

    inside.run(ends())
    assert told.calls == [*FIRST, *FIRST, "unreserve", "unreserve"]
    assert states(inside) == {}


def test_a_pod_is_bound_by_the_revision_that_judged_it_however_long_it_waits(inside: Inside) -> None:
    async def wait() -> None:
        binds = Binds(inside)
        await binds.wait("one")
        (judged,) = inside.pins.profiles_in_use()
        with inside.pins.unpinning("uid-of-one"):
            pass  # As time does it.
        assert inside.pins.profiles_in_use() == {judged}
        (pod,) = inside.waiting.waits()
        pod.allow()
        assert await binds.end("one") == ""

    inside.run(wait())
    assert inside.pins.profiles_in_use() == set()


# -- many ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1_000])
def test_a_thousand_pods_wait_without_a_thread_or_a_guest_each(inside: Inside, count: int) -> None:
    names = [f"pod-{at}" for at in range(count)]

    async def wait() -> None:
        binds = Binds(inside)
        for name in names:
            await binds.wait(name, profile="portable")
        assert len(inside.waiting.waits()) == count
        assert threading.active_count() <= before + 2
        (plugin,) = {each.plugin for profile in inside.pins.profiles_in_use() for each in profile.plugins}
        assert len(plugin._pool) <= plugin.settings.instances
        for each in inside.waiting.waits():
            each.allow()
        assert [await binds.end(name) for name in names] == [""] * count

    before = threading.active_count()
    inside.run(wait())


def test_a_large_gang_goes_on_as_one(inside: Inside) -> None:
    """Rounds go on beside the binds, as in the running extender."""
    *names, last = [f"pod-{at}" for at in range(MANY)]
    rounds = PermitRounds(inside.waiting)

    async def wait() -> None:
        binds = Binds(inside)
        await binds.wait(*names, profile="many")
        await binds.filtered(last, "many")
        binds.begin(last, "many")
        assert [await binds.end(name) for name in [*names, last]] == [""] * MANY

    rounds.start()
    try:
        inside.run(wait())
    finally:
        rounds.stop()
    assert states(inside) == dict.fromkeys([*names, last], State.CONFIRMED)
