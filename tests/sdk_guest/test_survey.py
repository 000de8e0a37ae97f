"""Guests in Rust and AssemblyScript see all candidates before they judge each, where the host gives a list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.sdk_guest.builds import built_module
from tests.sdk_guest.plugins import MakePlugin, without
from tests.wasm_runtime.world import World, filter_nodes, score, world
from wasm_runtime import GuestError, Nodes, Plugin, Settings
from wasm_runtime.abi import Code
from wasm_runtime.engine import Engine
from wasm_runtime.protobuf import encode_node, encode_pod

REJECTED: Final = Code.UNSCHEDULABLE
FOR_GOOD: Final = Code.UNSCHEDULABLE_AND_UNRESOLVABLE

Load = Callable[..., Plugin]


@pytest.fixture(scope="module", params=["survey.rs", "survey.ts"])
def wasm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return built_module(Path(__file__).with_name(request.param), tmp_path_factory.mktemp("survey"))


@pytest.fixture
def load(each_engine: Engine, wasm: bytes, make_plugin: MakePlugin) -> Load:
    """Makes a plugin of the guest, for a host that gives lists or for one that does not."""

    def load(*, gives_lists: bool = True) -> Plugin:
        module = without(wasm, *(() if gives_lists else ("filternodes", "scorenodes")))
        return make_plugin(each_engine, module, Settings("survey", timeout=30.0, instances=1))

    return load


def asked(pod: str, *names: str) -> World:
    """A pod on some of the nodes a, b, c and unread, in this order."""
    objects = {name: encode_node({"metadata": {"name": name}}) for name in ("a", "b", "c", "unread")}
    return world(objects, names, pod=encode_pod({"metadata": {"name": pod}}), uid=pod)


def verdict(plugin: Plugin, at: World) -> dict[str, tuple[int, str]]:
    """What Filter says of each node that it rejects."""
    results = filter_nodes(plugin, at)
    failed = [name for name, code in zip(at.nodes.names, results.codes, strict=False) if code]
    codes = [code for code in results.codes if code]
    return dict(zip(failed, zip(codes, results.reasons, strict=True), strict=True))


def test_candidates_are_seen_together_before_each_is_judged(load: Load) -> None:
    plugin, at = load(), asked("b", "c", "a")
    assert verdict(plugin, at) == {"a": (REJECTED, "a after c2 a0 ")}
    assert score(plugin, at) == [12, 12]
    assert verdict(plugin, asked("b", "a")) == {"a": (REJECTED, "a after a0 ")}


def test_what_is_said_of_all_is_said_of_each(load: Load) -> None:
    reason = "seen a0 b1 c2 "
    expected = dict.fromkeys(("a", "b", "c"), (FOR_GOOD, reason))
    assert verdict(load(), asked("none", "a", "b", "c")) == expected


def test_an_error_fails_the_verb(load: Load) -> None:
    plugin = load()
    with pytest.raises(GuestError, match="bad candidates"):
        filter_nodes(plugin, asked("bad", "a", "b"))
    assert verdict(plugin, asked("b", "a")) == {"a": (REJECTED, "a after a0 ")}


def test_a_node_that_cannot_be_read_is_no_candidate(load: Load) -> None:
    plugin = load()
    with pytest.raises(GuestError, match="it cannot be read"):
        filter_nodes(plugin, asked("b", "a", "unread"))
    assert score(plugin, asked("b", "a", "b")) == [11, 11]  # What Filter has seen in this cycle.
    assert verdict(plugin, asked("none", "a", "unread"))["unread"] == (FOR_GOOD, "seen a0 ")


def test_scores_alone_are_given_after_a_survey_too(load: Load) -> None:
    plugin = load()
    assert score(plugin, asked("none", "a", "b", "c")) == [13, 13, 13]


def test_a_second_filter_of_the_pod_is_a_new_cycle(load: Load) -> None:
    plugin = load()
    for _ in range(2):
        assert verdict(plugin, asked("none", "b")) == {"b": (FOR_GOOD, "seen b1 ")}


def test_a_host_without_lists_shows_no_candidates(load: Load) -> None:
    plugin = load(gives_lists=False)
    assert verdict(plugin, asked("b", "a", "b")) == {"a": (REJECTED, "a after ")}
    assert score(plugin, asked("b", "a", "b")) == [0, 0]


def test_a_node_of_which_the_name_alone_is_known_is_judged_after_the_candidates(load: Load) -> None:
    plugin, at = load(), asked("b", "a", "b", "c")
    at.node_table.put([("b", b"")])
    at = at._replace(nodes=Nodes(at.node_table, ["b", "c", "unknown", "a"]))
    assert verdict(plugin, at) == {"a": (REJECTED, "a after c2 a0 ")}
    assert score(plugin, at) == [12, 12, 12, 12]
    at = at._replace(nodes=Nodes(at.node_table, ["b", "unknown"]))
    assert verdict(plugin, at) == {}
    assert score(plugin, at) == [0, 0]
