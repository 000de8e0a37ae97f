"""Pods whose cycle has begun end it on the revision that it began with; then that one's guests are given back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import wasmtime

from extender import config
from extender.rollouts import drain
from extender.rollouts.pipeline import RolloutFailedError
from extender.rollouts.revision import RolloutStage
from extender.rollouts.slot import ActiveRevision, Slot
from extender.scheduling import cycle_pins
from tests.clock import Clock
from tests.extender import guests, kwx, versions
from tests.extender.kwx import plugin, profile
from tests.extender.objects import meta_victims, pod, preemption_args
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_swaps import put
from tests.wasm_runtime.world import idle_guests
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.guest_place import CYCLE_TIMEOUT_S
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable

BINDS = guests.module("reserve_after_filter")
"""Reserve rejects with the number of nodes for which Filter was called since PreFilter."""
THREE = ["node-0", "node-1", "node-2"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of cycles and of what drains."""
    clock = Clock()
    for module in (cycle_pins, drain):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock))
    return clock


def start(folder: Path, module: bytes, **swap: Any) -> Inside:
    put(folder / "told.wasm", module)
    told = plugin("told", swap={"slowdownFloor": "10s", "rollback": "manual", **swap})
    profiles = [profile(name, told, scoreRange=100) for name in ("default", "other")]
    return Inside(folder, *profiles, cluster={"mode": "dry-run"})


@pytest.fixture
def inside(tmp_path: Path, clock: Clock) -> Iterator[Inside]:  # noqa: ARG001 - is set before
    """Two profiles with a plugin of their own that is of version 10."""
    with start(tmp_path, versions.module(10)) as inside:
        yield inside


def live(inside: Inside) -> ActiveRevision:
    now = inside.slot().live
    assert now
    return now


def guests_of(of: ActiveRevision) -> int:
    """How many there are."""
    return len(of.profile_plugin.plugin._pool)


def stages(inside: Inside) -> list[str]:
    return [stage.value for _, stage in inside.rollouts.revisions(inside.slot())]


# -- cycles ----------------------------------------------------------------------------------------


def test_every_verb_of_a_cycle_is_answered_by_the_revision_that_has_filtered(inside: Inside) -> None:
    assert inside.filter("old")["FailedNodes"] == {"node-0": "version 10"}
    inside.upload(versions.module(11))
    assert inside.filter("new")["FailedNodes"] == {"node-1": "version 11"}
    candidates = {"node-0": meta_victims("a"), "node-1": meta_victims("b")}
    kept = {
        name: list(inside.ask("/preempt", preemption_args(candidates, pod(name)))["NodeNameToMetaVictims"])
        for name in ("old", "new", "unknown")
    }
    assert kept == {"old": ["node-1"], "new": ["node-0"], "unknown": ["node-0"]}
    assert [inside.score(name) for name in ("old", "new", "unknown")] == [10, 11, 11]
    assert inside.filter("old")["FailedNodes"] == {"node-1": "version 11"}
    assert inside.score("old") == 11


def test_a_cycle_is_over_after_half_a_minute(inside: Inside, clock: Clock) -> None:
    inside.filter("old")
    inside.upload(versions.module(11))
    clock.now += CYCLE_TIMEOUT_S - 0.001
    assert inside.score("old") == 10
    clock.now += 0.001
    assert inside.score("old") == 11


def test_a_pod_has_a_cycle_of_its_own_in_each_profile_that_is_asked(inside: Inside) -> None:
    """kube-scheduler may know the profiles as two extenders, and ask both about each pod."""
    for name in ("default", "other"):
        inside.filter("web-1", name)
    inside.upload(versions.module(11))
    assert [inside.score("web-1", name) for name in ("default", "other")] == [10, 10]
    inside.filter("web-1", "other")
    assert inside.score("web-1", "default") == 10
    assert inside.bind("web-1", "other") == ""
    assert inside.score("web-1", "default") == 10


def test_a_pod_that_is_bound_is_on_no_cycle(inside: Inside) -> None:
    inside.filter("web-1")
    inside.upload(versions.module(11))
    assert inside.bind("web-1") == ""
    assert (inside.score("web-1"), inside.pins.profiles_in_use()) == (11, set())


REJECTED = "plugin told: reserve: Unschedulable: {}"


def test_binding_goes_on_with_the_guest_that_has_filtered(tmp_path: Path) -> None:
    """Its reason tells that it has seen Filter for three nodes; the new revision has no part in binding at all."""
    with start(tmp_path, BINDS) as inside:
        inside.filter("old", names=THREE)
        inside.upload(versions.module(11))
        inside.filter("new", names=THREE)
        assert inside.bind("new", node="node-0") == ""
        assert inside.bind("old", node="node-0") == REJECTED.format(3)


def test_binding_does_not_begin_with_a_revision_that_has_not_filtered(tmp_path: Path) -> None:
    with start(tmp_path, versions.module(10)) as inside:
        inside.filter("old", names=THREE)
        inside.upload(BINDS)
        inside.filter("new", names=THREE)
        assert (inside.bind("old", node="node-1"), inside.bind("new", node="node-1")) == ("", REJECTED.format(3))


def test_both_revisions_bind_their_own_pods(tmp_path: Path) -> None:
    with start(tmp_path, BINDS) as inside:
        inside.filter("old", names=THREE)
        inside.upload(BINDS, settings={"weight": 2})
        inside.filter("new", names=THREE[:2])
        answers = [inside.bind(name, node="node-0") for name in ("new", "old")]
        assert answers == [REJECTED.format(2), REJECTED.format(3)]


# -- draining --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["bind", "filter", "expiry"])
def test_guests_are_given_back_when_the_last_cycle_is_over(inside: Inside, clock: Clock, end: str) -> None:
    before = live(inside)
    inside.filter("old")
    inside.upload(versions.module(11))
    clock.now += CYCLE_TIMEOUT_S - 1
    inside.reconcile()
    assert (stages(inside), guests_of(before)) == (["active", "draining"], 1)
    if end == "bind":
        assert inside.bind("old") == ""
    elif end == "filter":
        inside.filter("old")
    else:
        clock.now += 1
    inside.reconcile()
    assert (stages(inside), guests_of(before)) == (["active", "retired"], 0)
    assert inside.now(before.rollout).stage is RolloutStage.RETIRED


def test_without_cycles_guests_are_given_back_after_a_second(inside: Inside, clock: Clock) -> None:
    before = live(inside)
    inside.upload(versions.module(11))
    inside.reconcile()
    assert guests_of(before) == 1  # A verb may be about to begin.
    clock.now += drain.MIN_DRAIN_S + 0.001
    inside.reconcile()
    assert guests_of(before) == 0


def test_of_many_revisions_with_cycles_the_last_ones_keep_their_guests(inside: Inside, clock: Clock) -> None:
    replaced = []
    for version in range(11, 16):
        replaced.append(live(inside))
        inside.filter(f"on-{version - 1}")
        inside.upload(versions.module(version))
    clock.now += drain.MIN_DRAIN_S + 0.001
    inside.reconcile()
    assert [guests_of(each) for each in replaced] == [0, 0, 1, 1, 1]
    assert [inside.score(f"on-{version}") for version in range(10, 15)] == [10, 11, 12, 13, 14]
    assert [guests_of(each) for each in replaced] == [0, 0, 1, 1, 1]


def test_a_plugin_that_is_closed_in_the_middle_of_a_call_ends_it(inside: Inside, clock: Clock) -> None:
    """Its guest goes when the call is over, and another one is made for who comes later still."""
    before = live(inside)
    request, nodes = pod_of("old"), Nodes(NodeTable(), THREE)
    with before.profile_plugin.plugin.guest(request, nodes, "filter") as (guest, deadline):
        inside.upload(versions.module(11))
        clock.now += drain.MIN_DRAIN_S + 0.001
        inside.reconcile()
        assert (stages(inside), guests_of(before)) == (["active", "retired"], 1)
        assert list(guest.filter(nodes, deadline).codes) == [2, 0, 0]
    assert guests_of(before) == 0
    with before.profile_plugin.plugin.guest(request, nodes, "filter") as (guest, deadline):
        assert (list(guest.filter(nodes, deadline).codes), guests_of(before)) == ([2, 0, 0], 1)
    assert guests_of(before) == 0


def pod_of(name: str) -> Pod:
    return Pod(f"uid-of-{name}", f"default/{name}", b"")


def test_a_revision_that_comes_back_while_it_drains_keeps_the_cycles_that_are_on_it(
    inside: Inside, clock: Clock
) -> None:
    before = live(inside)
    inside.filter("old")
    inside.upload(versions.module(11))
    inside.filter("new")
    inside.over(inside.rollouts.roll_back(inside.slot(), by="ann"))
    assert live(inside).profile_plugin is before.profile_plugin
    clock.now += drain.MIN_DRAIN_S + 0.001
    inside.reconcile()
    assert stages(inside) == ["draining", "active"]
    assert [inside.score(name) for name in ("old", "new", "unknown")] == [10, 11, 10]


def test_what_is_on_standby_keeps_its_guests(tmp_path: Path, clock: Clock) -> None:
    with start(tmp_path, versions.module(10), rollback="automatic") as inside:
        before = live(inside)
        inside.upload(versions.module(11))
        clock.now += 2 * CYCLE_TIMEOUT_S
        inside.reconcile()
        assert (stages(inside), guests_of(before)) == (["active", "draining"], 1)


# -- memory ----------------------------------------------------------------------------------------

SWAPS = 30


def test_what_is_retired_is_given_back_without_a_collector(tmp_path: Path, clock: Clock) -> None:
    """The process seldom looks for garbage in cycles. There stay what serves and what the last cycles are on."""
    with start(tmp_path, versions.module(10)) as inside:
        seen: list[weakref.ref[Any]] = []
        inside.filter("web")
        assert inside.bind("web") == ""
        gc.collect()
        gc.disable()
        try:
            for at in range(SWAPS):
                now = live(inside)
                plugin = now.profile_plugin.plugin
                guest = idle_guests(plugin._pool)[0]
                seen.append(weakref.ref(now.profile_plugin.stats))
                seen += [weakref.ref(each) for each in (plugin, plugin._pool, plugin._module, guest, guest._instance)]
                del now, plugin, guest
                inside.filter(f"pod-{at}")
                inside.score(f"pod-{at}")
                inside.upload(versions.module(11 - at % 2))
                clock.now += drain.MIN_DRAIN_S + 0.001
                inside.reconcile()
            clock.now += CYCLE_TIMEOUT_S
            inside.filter("last")
            inside.reconcile()
            in_use = live(
                inside
            ).profile_plugin.plugin._module  # That of earlier plugins, too, which was not compiled again.
            # The last thread of a rollout has to end.
            inside.wait_until(lambda: all(each() in {None, in_use} for each in seen))
        finally:
            gc.enable()


def test_a_candidate_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    with start(tmp_path, versions.module(10)) as inside:
        inside.filter("web")
        gc.collect()
        before = sum(isinstance(each, Plugin) for each in gc.get_objects())
        gc.disable()
        try:
            for salt in "abc":
                bad = bytes(wasmtime.wat2wasm(guests.text("trap").replace("(module", f'(module (data "{salt}")')))
                assert inside.over(inside.begin(bad)).problem.startswith("filter of pod default/web fails")
            inside.wait_until(lambda: sum(isinstance(each, Plugin) for each in gc.get_objects()) == before)
        finally:
            gc.enable()


def test_a_profile_that_is_taken_out_leaves_no_requests_behind(tmp_path: Path) -> None:
    with start(tmp_path, versions.module(10)) as inside, inside.samples.recording("other") as recording:
        for name in ("default", "other"):
            inside.filter("web", name)
        inside.reconcile()
        assert [len(inside.samples.last(name)) for name in ("default", "other")] == [1, 1]
        kwx.write(tmp_path, kwx.configuration(profile("default", plugin("told"))))
        inside.rollouts.configuration.apply(config.read(inside.config).profiles)
        inside.reconcile()
        assert [len(inside.samples.last(name)) for name in ("default", "other")] == [1, 0]
        assert recording.is_gone


def test_a_configuration_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    with start(tmp_path, versions.module(10)) as inside:
        put(tmp_path / "bad.wasm", b"bad")
        kwx.write(tmp_path, kwx.configuration(profile("default", plugin("told"), plugin("bad"))))
        profiles = config.read(inside.config).profiles
        before = slots()
        for _ in range(3):
            with pytest.raises(RolloutFailedError, match="is no valid WebAssembly module"):
                inside.rollouts.configuration.apply(profiles)
        assert slots() == before


def slots() -> int:
    gc.collect()
    return sum(isinstance(each, Slot) for each in gc.get_objects())
