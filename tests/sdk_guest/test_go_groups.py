"""Groups of pods as the library in Go keeps them: the example `quorum` says what is true after any changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sdk_guest.builds import SDK, built_module
from tests.sdk_guest.group_cluster import KEYS, Cluster, after_changes, asks, pod_of
from tests.sdk_guest.plugins import MakePlugin, without
from tests.wasm_runtime.world import pre_filter, score
from wasm_runtime import Plugin, Settings, WasmtimeEngine
from wasm_runtime.abi import Code
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.engine import Engine
from wasm_runtime.guests.guest import PreFilter, Status
from wasm_runtime.module.binary import interface
from wasm_runtime.pods.group_table import Group

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

GROUPS = ("groupschanged", "memberschanged")

Load = Callable[..., Plugin]


@pytest.fixture(scope="module")
def wasm(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return built_module(SDK / "go" / "examples" / "quorum" / "main.go", tmp_path_factory.mktemp("quorum"))


@pytest.fixture
def load(each_engine: Engine, engine: Compiler, wasm: bytes, make_plugin: MakePlugin) -> Load:
    """Makes a plugin of the guest, for a host that knows all of its exports or for one that does not know some."""
    compiles = engine if isinstance(each_engine, WasmtimeEngine) else each_engine

    def load(*unknown: str) -> Plugin:
        return make_plugin(compiles, without(wasm, *unknown), Settings("quorum", timeout=60.0, instances=1))

    return load


def test_after_any_changes_it_knows_groups_and_members(load: Load) -> None:
    plugin = load()
    for at, admission, neighbours in after_changes():
        assert pre_filter(plugin, at) == admission
        assert score(plugin, at) == neighbours


def test_the_older_label_names_the_same_group_and_a_pod_of_none_is_not_held_back(load: Load) -> None:
    plugin, cluster, key = load(), Cluster(3), KEYS[-1]
    cluster.table.pods.groups.put(key, Group(1))
    old = asks(cluster, pod_of(key, "pod-group.scheduling.sigs.k8s.io/name"))
    said = f"0 of 1 pods of the group {key} are there"
    assert pre_filter(plugin, old) == PreFilter(Status(Code.UNSCHEDULABLE, said))
    assert pre_filter(plugin, asks(cluster, pod_of(None))) == PreFilter()


def test_a_host_that_tells_of_no_groups_leaves_it_without_any(load: Load) -> None:
    plugin, cluster = load("podbuffer", *GROUPS), Cluster(5)
    cluster.table.pods.groups.put(KEYS[0], Group(1))
    unknown = Status(Code.UNSCHEDULABLE, "the group of the pod is not known yet")
    assert pre_filter(plugin, asks(cluster, pod_of(KEYS[0]))) == PreFilter(unknown)


def test_it_exports_what_it_wants_to_know(wasm: bytes) -> None:
    kept = {"nodechanged", "noderemoved", "nodebuffer", "collectgarbage", "podbuffer", *GROUPS}
    assert interface(wasm).exports.keys() == {
        "memory", "_initialize", "_start", "prefilter", "score", "scorenodes", *kept,
    }  # fmt: skip
