"""When a plugin may hold the loop that serves all verbs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.pace import PROOF, QUICK, Pace
from extender.profile import Entry, Profile
from tests.extender import guests
from wasm_runtime import Nodes, Plugin, Pod, Settings, Snapshot, WasmtimeEngine

POD = Pod("1", "default/web", b"")


@pytest.mark.parametrize(
    ("seconds", "is_quick"),
    [
        ([], False),
        ([0.0] * (PROOF - 1), False),
        ([0.0] * PROOF, True),
        ([QUICK] * PROOF, True),
        ([*[0.0] * PROOF, QUICK * 1.01], False),
        ([*[0.0] * PROOF, 0.5, *[0.0] * (PROOF - 1)], False),
        ([*[0.0] * PROOF, 0.5, *[0.0] * PROOF], True),
    ],
)
def test_it_takes_a_row_of_quick_verbs(seconds: list[float], is_quick: bool) -> None:
    pace = Pace()
    for each in seconds:
        pace.note(each)
    assert pace.is_quick is is_quick


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    plugin = Plugin(WasmtimeEngine(), guests.module("score_by_digit"), Settings("plugin"))
    yield plugin
    plugin.close()


def proven(profile: Profile, verb: str) -> None:
    for _ in range(PROOF):
        profile.note(verb, 0.0)


def test_a_plugin_that_is_quick_in_one_verb_may_be_slow_in_another(plugin: Plugin) -> None:
    profile = Profile("default", [Entry(plugin), Entry(plugin)])
    proven(profile, "filter")
    profile.note("preempt", 1.0)
    assert [profile.is_quick(verb, POD) for verb in ("filter", "prioritize", "preempt")] == [True, False, False]


def test_a_profile_is_as_quick_as_each_of_its_plugins(plugin: Plugin) -> None:
    proven_one, other = Entry(plugin), Entry(plugin)
    proven(Profile("one", [proven_one]), "filter")
    assert not Profile("both", [proven_one, other]).is_quick("filter", POD)


def test_a_plugin_whose_guest_is_in_use_is_not_waited_for(plugin: Plugin) -> None:
    profile = Profile("default", [Entry(plugin)])
    proven(profile, "filter")
    nodes = Nodes(Snapshot(), ["node-1"])
    with plugin.guest(POD, nodes, "score"):
        assert not profile.is_quick("filter", POD)
    assert profile.is_quick("filter", POD)
