"""When a plugin may hold the loop that serves all verbs."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from extender.scheduling.inline_policy import MAX_INLINE_S, MIN_QUICK_CALLS, InlinePolicy
from extender.scheduling.profile import Profile, ProfilePlugin
from extender.webhook.protocol import Answer
from tests.extender import guests, kwx
from tests.extender.objects import NODE_NAMES, filtered, names_args
from tests.extender.rollouts.inside import Inside
from tests.wasm_runtime.world import idle_guests, until
from wasm_runtime import Guest, GuestError, Nodes, NodeTable, Plugin, Pod, Settings, WasmtimeEngine

POD = Pod("1", "default/web", b"")


@pytest.mark.parametrize(
    ("seconds", "may_run_inline"),
    [
        ([], False),
        ([0.0] * (MIN_QUICK_CALLS - 1), False),
        ([0.0] * MIN_QUICK_CALLS, True),
        ([MAX_INLINE_S] * MIN_QUICK_CALLS, True),
        ([*[0.0] * MIN_QUICK_CALLS, MAX_INLINE_S * 1.01], False),
        ([*[0.0] * MIN_QUICK_CALLS, 0.5, *[0.0] * (MIN_QUICK_CALLS - 1)], False),
        ([*[0.0] * MIN_QUICK_CALLS, 0.5, *[0.0] * MIN_QUICK_CALLS], True),
    ],
)
def test_it_takes_a_row_of_quick_verbs(seconds: list[float], may_run_inline: bool) -> None:
    pace = InlinePolicy()
    for each in seconds:
        pace.note(each)
    assert pace.may_run_inline is may_run_inline


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    plugin = Plugin(WasmtimeEngine(), guests.module("score_by_digit"), Settings("plugin"))
    yield plugin
    plugin.close()


def holds(profile: Profile, verb: str = "filter") -> bool:
    """Whether all guests of a profile can be had at once, and its plugins are quick."""
    is_held = profile.reserve(verb, POD)
    profile.release()
    return is_held


def proven(profile: Profile, verb: str) -> None:
    for _ in range(MIN_QUICK_CALLS):
        profile.note(verb, 0.0)


def test_a_plugin_that_is_quick_in_one_verb_may_be_slow_in_another(plugin: Plugin) -> None:
    profile = Profile("default", [ProfilePlugin(plugin), ProfilePlugin(plugin)])
    proven(profile, "filter")
    profile.note("preempt", 1.0)
    assert [holds(profile, verb) for verb in ("filter", "prioritize", "preempt")] == [True, False, False]


def test_a_profile_is_as_quick_as_each_of_its_plugins(plugin: Plugin) -> None:
    proven_one, other = ProfilePlugin(plugin), ProfilePlugin(plugin)
    proven(Profile("one", [proven_one]), "filter")
    assert not holds(Profile("both", [proven_one, other]))


def test_a_plugin_whose_guest_is_in_use_is_not_waited_for(plugin: Plugin) -> None:
    profile = Profile("default", [ProfilePlugin(plugin)])
    proven(profile, "filter")
    nodes = Nodes(NodeTable(), ["node-1"])
    with plugin.guest(POD, nodes, "score"):
        with ThreadPoolExecutor(1) as threads:
            assert not threads.submit(holds, profile).result(60)
        assert not holds(profile)
    assert holds(profile)


def test_where_one_guest_is_in_use_none_is_held(plugin: Plugin) -> None:
    free, used = ProfilePlugin(plugin), ProfilePlugin(plugin.clone(lambda *_: None, lambda *_: None))
    profile = Profile("default", [free, used])
    proven(profile, "filter")
    with used.plugin.guest(POD, Nodes(NodeTable(), ["node-1"]), "score"):
        assert not profile.reserve("filter", POD)
        assert len(idle_guests(plugin._pool)) == 1
    used.plugin.close()


class HeldGuest:
    """Tends the only guest of a plugin in another thread until it may end."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._threads = ThreadPoolExecutor(1)
        self._begun = threading.Event()
        self._may_end = threading.Event()

    def begin(self) -> bool:
        """Whether there was a guest to be maintained."""
        maintaining = self._threads.submit(self._plugin._pool.maintain, self._work)
        until(lambda: self._begun.is_set() or maintaining.done())
        return self._begun.is_set()

    def end(self) -> None:
        self._may_end.set()
        self._threads.shutdown()

    def _work(self, _: Guest) -> bool:
        self._begun.set()
        assert self._may_end.wait(60)
        return False


class TestLoop:
    """The loop that serves all verbs waits for no guest, whenever maintenance takes it."""

    ANSWER = filtered([name for name in NODE_NAMES if name != "node-7"], failed={"node-7": "ends in 7"})

    @pytest.fixture
    def inside(self, tmp_path: Path) -> Iterator[Inside]:
        digits = kwx.plugin("filter_by_digit", "72ends in 7", instances=1, timeout="60s")
        with Inside(tmp_path, kwx.profile("default", digits)) as inside:
            proven(next(iter(inside.live.profiles)), "filter")
            yield inside

    @pytest.fixture
    def held(self, inside: Inside) -> Iterator[HeldGuest]:
        held = HeldGuest(inside.live.plugins[0])
        yield held
        held.end()

    def test_goes_on_while_maintenance_has_the_guest(self, inside: Inside, held: HeldGuest) -> None:
        """The verb waits for it in a thread, the loop does what else there is to do."""
        assert held.begin()

        async def ask() -> Any:
            coming = inside.begin_to_ask("/filter", names_args())
            assert not isinstance(coming, Answer)
            answering = asyncio.ensure_future(coming)
            await asyncio.to_thread(until, lambda: len(inside.live.plugins[0]._pool._waiters) == 1)
            held.end()
            return json.loads((await asyncio.wait_for(answering, 60)).body)

        assert inside.run(ask()) == self.ANSWER

    def test_has_the_guest_already_when_maintenance_wants_it(
        self, inside: Inside, held: HeldGuest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the decision to judge on the loop and the call of the guest."""
        had: list[bool] = []
        reserve = Profile.reserve

        def reserve_before_maintenance(profile: Profile, verb: str, pod: Pod) -> bool:
            is_held = reserve(profile, verb, pod)
            had.append(held.begin())
            return is_held

        monkeypatch.setattr(Profile, "reserve", reserve_before_maintenance)

        async def ask() -> Any:
            answer = inside.begin_to_ask("/filter", names_args())
            assert isinstance(answer, Answer)
            return json.loads(answer.body)

        assert inside.run(ask()) == self.ANSWER
        assert had == [False]
        assert len(idle_guests(inside.live.plugins[0]._pool)) == 1

    def test_does_not_wait_for_what_takes_the_place_of_a_guest_that_breaks(self, plugin: Plugin) -> None:
        """As it may between the two calls of a guest that preempt makes."""
        profile = Profile("default", [ProfilePlugin(plugin)])
        proven(profile, "preempt")
        nodes = Nodes(NodeTable(), ["node-1"])
        assert profile.reserve("preempt", POD)
        with plugin.guest(POD, nodes, "preempt") as (guest, _):
            guest.is_broken = True
        with (
            pytest.raises(GuestError, match=r"^instance: another one is still being made$"),
            plugin.guest(POD, nodes, "postFilter"),
        ):
            pass
        profile.release()
        with plugin.guest(POD, nodes, "postFilter") as (other, _):
            assert other is not guest
