"""Guests in Rust, Go and AssemblyScript that keep pods without a node know those that there are, after any changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.sdk_guest.builds import built_module
from tests.sdk_guest.plugins import MakePlugin, without
from tests.wasm_runtime.world import World, pre_filter
from wasm_runtime import Nodes, NodeTable, Plugin, Pod, Settings
from wasm_runtime.abi import Severity
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.engine import GuestEvent, Log
from wasm_runtime.module.binary import interface
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

WITH_PODS: Final = "with pods on nodes"
KINDS: Final = ("Go", "Rust", f"Rust, {WITH_PODS}", f"TypeScript, {WITH_PODS}")
SOURCES: Final = {"Go": "pending.go", "Rust": "pending.rs", "TypeScript": "pending.ts"}
UNTOLD: Final = ("podbuffer", "podschanged")
"""Parts of the names of exports that a host does not know which tells of no pods."""

Load = Callable[..., Plugin]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def wasm(kind: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("pending")
    source = Path(__file__).with_name(SOURCES[kind.partition(",")[0]])
    if kind == "Rust":
        alone = folder / source.name
        alone.write_text(source.read_text().replace("; pods, pending", "; pending"))
        source = alone
    return built_module(source, folder)


@pytest.fixture
def records() -> list[Log | GuestEvent]:
    """What guests logged."""
    return []


@pytest.fixture
def load(engine: Compiler, wasm: bytes, make_plugin: MakePlugin, records: list[Log | GuestEvent]) -> Load:
    """Makes a plugin of the guest, for a host that tells of pods without a node or for one that does not."""

    def load(*, is_told: bool = True) -> Plugin:
        return make_plugin(
            engine,
            without(wasm, *(() if is_told else UNTOLD)),
            Settings("pending", timeout=60.0, instances=1),
            sink=lambda _plugin, _pod, journal: records.extend(journal.records),
        )

    return load


class Cluster:
    """Random pods that come, change, get and lose nodes, and go."""

    def __init__(self, kind: str, seed: int) -> None:
        self._is_told_on_nodes = kind.endswith(WITH_PODS)
        self._is_go = kind == "Go"
        self._random = random.Random(seed)
        self.table = NodeTable()
        self.table.put((name, encode_node({"metadata": {"name": name}})) for name in ("a", "b"))
        self.pods: dict[str, tuple[str, str, str]] = {}
        """By UID: name, job, node."""

    def change(self) -> None:
        for _ in range(self._random.randrange(30)):
            uid = f"u-{self._random.randrange(60)}"
            if uid in self.pods and self._random.random() < 0.3:
                del self.pods[uid]
                self.table.pods.remove(uid)
            else:
                self._put(uid)

    def _put(self, uid: str) -> None:
        name, job, _ = self.pods.get(uid, (f"pod-{self._random.randrange(1000)}", "", ""))
        if self._random.random() < 0.5:
            job = self._random.choice("xyz")
        node = self._random.choice(["", "", "a", "b"])
        self.pods[uid] = name, job, node
        pod = encode_pod({"metadata": {"name": name, "labels": {"job": job}}})
        self.table.pods.put([(uid, ResidentPod(node, pod, self._random.random() < 0.3))])

    @property
    def known(self) -> str:
        """What a guest is to say."""
        pending = " ".join(sorted(f"{name}={job}" for name, job, node in self.pods.values() if not node))
        on_nodes = sum(bool(node) for _, _, node in self.pods.values()) if self._is_told_on_nodes else 0
        return f"[{pending}]" if self._is_go else f"[{pending}] and {on_nodes} on nodes"


def told(plugin: Plugin, table: NodeTable) -> str:
    """What the guest says that it knows."""
    return pre_filter(plugin, World(Pod("asks", "ns/asks", b""), Nodes(table, ["a"]))).status.reason


def test_after_any_changes_it_knows_the_pods_without_a_node(
    load: Load, kind: str, records: list[Log | GuestEvent]
) -> None:
    plugin = load()
    for seed in (1, 2, 1):  # another table has other pods
        cluster = Cluster(kind, seed)
        for _ in range(40):
            cluster.change()
            assert told(plugin, cluster.table) == cluster.known
    assert records == []


def test_a_host_that_tells_of_none_leaves_it_without_any(load: Load, kind: str) -> None:
    plugin, cluster = load(is_told=False), Cluster(kind, 3)
    cluster.table.pods.put([("u", ResidentPod("", encode_pod({"metadata": {"name": "pod"}})))])
    assert told(plugin, cluster.table) == ("[]" if kind == "Go" else "[] and 0 on nodes")


@pytest.mark.parametrize("kind", KINDS[1:], indirect=True)
def test_a_pod_that_cannot_be_read_is_logged_and_does_not_count(
    load: Load, kind: str, records: list[Log | GuestEvent]
) -> None:
    """In Go its name and its label are empty."""
    plugin, cluster = load(), Cluster(kind, 4)
    good = encode_pod({"metadata": {"name": "pod"}})
    cluster.table.pods.put([("good", ResidentPod("", good)), ("bad", ResidentPod("", good))])
    assert told(plugin, cluster.table) == "[pod= pod=] and 0 on nodes"
    cluster.table.pods.put([("bad", ResidentPod("", b"\xff"))])
    assert told(plugin, cluster.table) == "[pod=] and 0 on nodes"
    message = "a pod without a node cannot be read, and does not count: malformed protobuf"
    errors = [each for each in records if isinstance(each, Log) and each.severity is Severity.ERROR]
    assert errors == [Log(Severity.ERROR, message, ())]


def test_it_exports_what_it_wants_to_know(wasm: bytes, kind: str) -> None:
    exports = interface(wasm).exports.keys()
    assert {name for name in exports if "pod" in name} == {
        "podbuffer",
        "pendingpodschanged",
        *(["podschanged"] if kind.endswith(WITH_PODS) else []),
    }
