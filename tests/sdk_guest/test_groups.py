"""Groups of pods as the libraries in Rust and AssemblyScript keep them, by the example `quorum`, after any changes."""

from __future__ import annotations

import pytest

from tests.sdk_guest.builds import SDK
from tests.sdk_guest.group_cluster import KEYS, Cluster, after_changes, asks, pod_of
from tests.sdk_guest.plugins import MakePlugin, without
from tests.wasm_runtime.world import pre_filter, score
from wasm_runtime import Plugin, Settings
from wasm_runtime.abi import Code
from wasm_runtime.engine import Engine
from wasm_runtime.guests.guest import PreFilter, Status
from wasm_runtime.pods.group_table import Group


@pytest.fixture(scope="module", params=["rust", "assemblyscript"])
def wasm(request: pytest.FixtureRequest) -> bytes:
    """The example in a language."""
    return (SDK / str(request.param) / "modules" / "quorum.wasm").read_bytes()


@pytest.fixture
def plugin(each_engine: Engine, make_plugin: MakePlugin, wasm: bytes) -> Plugin:
    return make_plugin(each_engine, wasm, Settings("quorum", timeout=30.0, instances=1))


def test_after_any_changes_it_knows_groups_and_members(plugin: Plugin) -> None:
    for at, admission, neighbours in after_changes():
        assert pre_filter(plugin, at) == admission
        assert score(plugin, at) == neighbours


def test_the_older_label_names_the_same_group(plugin: Plugin) -> None:
    cluster = Cluster(3)
    key = KEYS[-1]
    cluster.table.pods.groups.put(key, Group(1))
    old = asks(cluster, pod_of(key, "pod-group.scheduling.sigs.k8s.io/name"))
    said = f"0 of 1 pods of the group {key} are there"
    assert pre_filter(plugin, old) == PreFilter(Status(Code.UNSCHEDULABLE, said))


def test_a_pod_of_no_group_is_not_held_back(plugin: Plugin) -> None:
    at = asks(Cluster(4), pod_of(None))
    assert (pre_filter(plugin, at), score(plugin, at)) == (PreFilter(), [0, 0, 0])


def test_a_host_that_tells_of_no_groups_leaves_it_without_any(
    each_engine: Engine, make_plugin: MakePlugin, wasm: bytes
) -> None:
    untold = without(wasm, "podbuffer", "groupschanged", "memberschanged")
    plugin, cluster = make_plugin(each_engine, untold, Settings("quorum", timeout=30.0)), Cluster(5)
    cluster.table.pods.groups.put(KEYS[0], Group(1))
    unknown = Status(Code.UNSCHEDULABLE, "the group of the pod is not known yet")
    assert pre_filter(plugin, asks(cluster, pod_of(KEYS[0]))) == PreFilter(unknown)
