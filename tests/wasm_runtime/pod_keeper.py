"""A guest that mirrors the pods and nodes that it is told of, and what that is to be after any changes."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import strategies as st

from tests.wasm_runtime import keeper
from tests.wasm_runtime.guest_modules import NODE_NAME, call, export, module
from wasm_runtime import Fault, GuestError, Nodes, Settings
from wasm_runtime.abi import GuestResult
from wasm_runtime.engine import Call, Instance, Module, NoHandle
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.pods.record_feed import RecordFeed

NAMES: Final = "k8s.io/scheduler/result.node_names"

NUMBERS: Final = 256
"""How many pods and nodes it has room for: a number beyond is a trap."""
ENTRY: Final = struct.Struct("<3I4x8s")
"""What it keeps of a pod: node, state, length and first bytes of the object."""
ON_NODES: Final = 65_536
PENDING: Final = ON_NODES + NUMBERS * ENTRY.size
NODE_NAMES: Final = PENDING + NUMBERS * ENTRY.size
END: Final = NODE_NAMES + NUMBERS * 8
BUFFER: Final = 131_072
BAD: Final = b"!"
"""How an object begins that is a trap."""

GUEST: Final = module(
    "(global $size (mut i32) (i32.const 0))",
    '(func $nodechanged (export "nodechanged") (param $n i32) (local $at i32)',
    f"  (if (i32.ge_u (local.get $n) (i32.const {NUMBERS})) (then unreachable))",
    f"  (local.set $at (i32.add (i32.const {NODE_NAMES}) (i32.shl (local.get $n) (i32.const 3))))",
    "  (i64.store (local.get $at) (i64.const 0))",
    f"  (drop {call(NODE_NAME, '(local.get $at)', 8)}))",
    '(func $noderemoved (export "noderemoved") (param $n i32)',
    f"  (i64.store offset={NODE_NAMES} (i32.shl (local.get $n) (i32.const 3)) (i64.const 0)))",
    '(func $podbuffer (export "podbuffer") (param $size i32) (result i32)',
    "  (global.set $size (local.get $size))",
    f"  (memory.fill (i32.const {BUFFER}) (i32.const 255) (local.get $size))",
    f"  (i32.const {BUFFER}))",
    # All records: the buffer is to end behind the last.
    "(func $take (param $n i32) (param $table i32) (local $at i32)",
    f"  (local.set $at (i32.const {BUFFER}))",
    "  (loop $next",
    "    (local.set $at (call $one (local.get $at) (local.get $table)))",
    "    (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))",
    f"  (if (i32.ne (local.get $at) (i32.add (i32.const {BUFFER}) (global.get $size))) (then unreachable)))",
    # One record. Returns the address behind it.
    "(func $one (param $at i32) (param $table i32) (result i32) (local $entry i32) (local $length i32)",
    f"  (if (i32.ge_u (i32.load (local.get $at)) (i32.const {NUMBERS})) (then unreachable))",
    "  (local.set $entry (i32.add (local.get $table)",
    f"    (i32.mul (i32.load (local.get $at)) (i32.const {ENTRY.size}))))",
    "  (local.set $length (i32.load offset=12 (local.get $at)))",
    "  (if (i32.eqz (local.get $length))",
    "    (then (if (i32.eqz (i32.load offset=4 (local.get $entry))) (then unreachable)))",
    "    (else",
    f"      (if (i32.eq (i32.load8_u offset=16 (local.get $at)) (i32.const {BAD[0]})) (then unreachable))",
    "      (i32.store offset=8 (local.get $entry) (local.get $length))",
    "      (i64.store offset=16 (local.get $entry) (i64.const 0))",
    "      (memory.copy (i32.add (local.get $entry) (i32.const 16)) (i32.add (local.get $at) (i32.const 16))",
    "        (select (local.get $length) (i32.const 8) (i32.lt_u (local.get $length) (i32.const 8))))))",
    "  (i64.store (local.get $entry) (i64.load offset=4 (local.get $at)))",
    "  (if (i32.eqz (i32.load offset=8 (local.get $at)))",
    "    (then",
    "      (if (i32.ne (i32.load offset=4 (local.get $at)) (i32.const -1)) (then unreachable))",
    "      (if (local.get $length) (then unreachable))",
    f"      (memory.fill (local.get $entry) (i32.const 0) (i32.const {ENTRY.size}))))",
    "  (i32.add (i32.add (local.get $at) (i32.const 16))",
    "    (i32.and (i32.add (local.get $length) (i32.const 7)) (i32.const -8))))",
    '(func $podschanged (export "podschanged") (param $n i32)',
    f"  (call $take (local.get $n) (i32.const {ON_NODES})))",
    '(func $pendingpodschanged (export "pendingpodschanged") (param $n i32)',
    f"  (call $take (local.get $n) (i32.const {PENDING})))",
    export("prefilter", call(NAMES, ON_NODES, END - ON_NODES), "(i32.const 0)"),
    uses=[NODE_NAME, NAMES],
    pages="4",
)
"""What breaks the rules of records is a trap. Its prefilter hands over all that it keeps."""


class Told(NamedTuple):
    """What a guest says of a pod."""

    node: int
    state: int
    length: int
    begin: bytes
    """The first 8 bytes of the pod's object."""


class Mirror(NamedTuple):
    """The pods and nodes that the guest keeps, by number."""

    on_nodes: dict[int, Told]
    pending: dict[int, Told]
    names: dict[int, str]
    """The names of the nodes that the guest knows."""


def mirror(instance: Instance, node_table: NodeTable) -> Mirror:
    """Calls the guest. Raises GuestError."""
    asked = Call(Nodes(node_table, ()), time.monotonic() + 30)
    instance.once("prefilter", asked)
    kept = asked.guest_results[GuestResult.NODE_NAMES]
    pending, names = PENDING - ON_NODES, NODE_NAMES - ON_NODES
    return Mirror(
        _pods(kept[:pending]),
        _pods(kept[pending:names]),
        {
            number: kept[at : at + 8].rstrip(b"\0").decode()
            for number, at in enumerate(range(names, len(kept), 8))
            if kept[at]
        },
    )


def _pods(entries: bytes) -> dict[int, Told]:
    return {number: Told(*entry) for number, entry in enumerate(ENTRY.iter_unpack(entries)) if entry[1]}


UIDS: Final = "uvwxyz"
OBJECT: Final = st.sampled_from([b"1", b"22", b"eight888", b"nine99999", b"L" * 200])
POD: Final = st.builds(ResidentPod, st.sampled_from(["", "n0", "n1", "n2", "x", "y"]), OBJECT, st.booleans())
PODS: Final = st.dictionaries(st.sampled_from(UIDS), POD, max_size=4)
STEP: Final = st.one_of(
    keeper.STEP.filter(lambda step: step[0] not in {"tell", "ask"}),
    st.tuples(st.just("put_pods"), PODS),
    st.tuples(st.just("replace_pods"), PODS),
    st.tuples(st.just("remove_pods"), st.lists(st.sampled_from(UIDS), min_size=1, max_size=3)),
    st.tuples(st.just("tell"), st.tuples(keeper.INSTANCE, st.integers(0, 3))),
    st.tuples(st.just("ask"), keeper.INSTANCE),
    st.tuples(st.just("late"), keeper.INSTANCE),
    st.tuples(st.just("trap"), keeper.INSTANCE),
)
"""What happens to nodes and pods, which are those of one of two clusters, and to three instances."""


class Truth(keeper.Truth):
    """The nodes of two clusters, of which one counts, and the pods in each."""

    def __init__(self, on_change: Callable[[], object] = lambda: None) -> None:
        self._pods: dict[NodeTable, dict[str, ResidentPod]] = {}
        super().__init__(on_change)

    @property
    def pods(self) -> dict[str, ResidentPod]:
        return self._pods.setdefault(self.node_table, {})

    def put_pods(self, pods: Mapping[str, ResidentPod]) -> None:
        self.node_table.pods.put(pods.items())
        self.pods.update(pods)

    def replace_pods(self, pods: Mapping[str, ResidentPod]) -> None:
        self.node_table.pods.replace(pods)
        self._pods[self.node_table] = dict(pods)

    def remove_pods(self, uids: Sequence[str]) -> None:
        for uid in uids:
            self.node_table.pods.remove(uid)
            self.pods.pop(uid, None)

    def check(self, instance: Instance) -> None:
        """What the guest keeps is the truth: pods, nodes, and which name a pod's node has."""
        told = mirror(instance, self.node_table)
        assert not told.on_nodes.keys() & told.pending.keys()
        assert sorted(told.names.values()) == sorted(self.objects)
        names = {at: name for at, name, _ in self.node_table.everything().nodes}
        for pod in told.on_nodes.values():
            assert told.names.get(pod.node, "") == (names[pod.node] if names[pod.node] in self.objects else "")
        said = [(names.get(pod.node, ""), *pod[1:]) for each in told[:2] for pod in each.values()]
        assert sorted(said) == sorted(map(_expected, self.pods.values()))


def _expected(pod: ResidentPod) -> tuple[str, int, int, bytes]:
    """Name of the node, state, length and first bytes of the object."""
    state = 2 if pod.node and pod.is_tentative else 1
    return pod.node, state, len(pod.object), pod.object[:8].ljust(8, b"\0")


def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has there be many batches, that end by the number of pods or by their bytes, and many epochs."""
    monkeypatch.setattr(RecordFeed, "max_per_batch", 3)
    monkeypatch.setattr("wasm_runtime.pods.record_feed.MAX_BATCH_BYTES", 80)
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", keeper.SLACK)


class Play:
    """Three instances that are taken through steps. What each knows is the truth whenever it is asked."""

    def __init__(self, module: Module, truth: Truth) -> None:
        self._module = module
        self._truth = truth
        self._instances = [self._new() for _ in range(3)]

    def run(self, steps: Sequence[tuple[str, Any]]) -> None:
        """All steps, and what the instances know in the end."""
        for step, argument in steps:
            (getattr(self, f"_{step}", None) or getattr(self._truth, step))(argument)
        for instance in self._instances:
            self._truth.check(instance)
            instance.close()

    def _new(self) -> Instance:
        return self._module.instantiate(Settings("plugin", timeout=30), NoHandle())

    def _sync(self, at: int, most: int) -> bool:
        return self._instances[at].sync_nodes(Nodes(self._truth.node_table, ()), time.monotonic() + 30, most)

    def _tell(self, argument: tuple[int, int]) -> None:
        at, most = argument
        assert self._sync(at, most) in {True, self._sync(at, 0)}

    def _ask(self, at: int) -> None:
        self._truth.check(self._instances[at])

    def _late(self, at: int) -> None:
        """A call whose time is over before all is told. The next one goes on from there."""
        if self._sync(at, 0):
            return
        with pytest.raises(GuestError, match=r"^(node|pods|pendingpods)changed: its time was over while it") as caught:
            self._instances[at].once("prefilter", Call(Nodes(self._truth.node_table, ()), time.monotonic() - 1))
        assert (caught.value.fault, caught.value.fatal) == (Fault.BUSY, False)

    def _trap(self, at: int) -> None:
        """A pod that the guest cannot take in. Another instance takes its place once that is gone."""
        self._truth.node_table.pods.put([("bad", ResidentPod("n0", BAD))])
        with pytest.raises(GuestError, match=r"^podschanged: trap: unreachable in ") as caught:
            self._truth.check(self._instances[at])
        assert caught.value.fatal
        self._truth.node_table.pods.remove("bad")
        self._instances[at].close()
        self._instances[at] = self._new()


def play(module: Module, steps: Sequence[tuple[str, Any]]) -> None:
    """Takes three instances through steps."""
    Play(module, Truth()).run(steps)
