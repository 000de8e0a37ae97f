"""A guest that mirrors the groups and members that it is told of, and what that is to be after any changes."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import strategies as st

from tests.wasm_runtime import keeper, pod_keeper
from tests.wasm_runtime.guest_modules import call, export, module
from wasm_runtime import Fault, GuestError, Nodes
from wasm_runtime.abi import GroupSource, GuestResult
from wasm_runtime.engine import Call, Instance, Module
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.group_table import NAMED, Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod

NAMES: Final = "k8s.io/scheduler/result.node_names"

NUMBERS: Final = 256
"""How many pods and groups it has room for: a number beyond is a trap."""
GROUP: Final = struct.Struct("<4IiQ2I36s")
"""What it keeps of a group: state, source, minimum, timeout, priority, creation, lengths and the names."""
MEMBER: Final = struct.Struct("<3I4x")
"""What it keeps of a member: node, state, group."""
GROUPS: Final = 65_536
MEMBERS: Final = GROUPS + NUMBERS * GROUP.size
END: Final = MEMBERS + NUMBERS * MEMBER.size
BUFFER: Final = 131_072
BAD: Final = 13
"""The minimum of a group that is a trap."""

GUEST: Final = module(
    "(global $size (mut i32) (i32.const 0))",
    '(func $podbuffer (export "podbuffer") (param $size i32) (result i32)',
    "  (global.set $size (local.get $size))",
    f"  (memory.fill (i32.const {BUFFER}) (i32.const 255) (local.get $size))",
    f"  (i32.const {BUFFER}))",
    # The buffer is to end behind the last record.
    "(func $end (param $at i32)",
    f"  (if (i32.ne (local.get $at) (i32.add (i32.const {BUFFER}) (global.get $size))) (then unreachable)))",
    # The entry of the number with which a record begins. What is not known must not be told to be gone.
    "(func $entry (param $at i32) (param $table i32) (param $entry_size i32) (param $state i32) (result i32)",
    "  (local $entry i32)",
    f"  (if (i32.ge_u (i32.load (local.get $at)) (i32.const {NUMBERS})) (then unreachable))",
    "  (local.set $entry (i32.add (local.get $table)",
    "    (i32.mul (i32.load (local.get $at)) (local.get $entry_size))))",
    "  (if (i32.eqz (i32.or (i32.load (i32.add (local.get $at) (i32.add (local.get $state) (i32.const 4))))",
    "      (i32.load (i32.add (local.get $entry) (local.get $state))))) (then unreachable))",
    "  (local.get $entry))",
    '(func $groupschanged (export "groupschanged") (param $n i32) (local $at i32)',
    f"  (local.set $at (i32.const {BUFFER}))",
    "  (loop $next",
    "    (local.set $at (call $group (local.get $at)))",
    "    (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))",
    "  (call $end (local.get $at)))",
    # One record. Returns the address behind it.
    "(func $group (param $at i32) (result i32) (local $entry i32) (local $length i32)",
    f"  (local.set $entry (call $entry (local.get $at) (i32.const {GROUPS}) (i32.const {GROUP.size}) (i32.const 0)))",
    f"  (if (i32.eq (i32.load offset=12 (local.get $at)) (i32.const {BAD})) (then unreachable))",
    "  (local.set $length (i32.add (i32.load offset=32 (local.get $at)) (i32.load offset=36 (local.get $at))))",
    "  (if (i32.gt_u (local.get $length) (i32.const 36)) (then unreachable))",
    f"  (memory.fill (local.get $entry) (i32.const 0) (i32.const {GROUP.size}))",
    "  (memory.copy (local.get $entry) (i32.add (local.get $at) (i32.const 4)) (i32.const 36))",
    "  (memory.copy (i32.add (local.get $entry) (i32.const 36)) (i32.add (local.get $at) (i32.const 40))",
    "    (local.get $length))",
    "  (i32.add (i32.add (local.get $at) (i32.const 40))",
    "    (i32.and (i32.add (local.get $length) (i32.const 7)) (i32.const -8))))",
    '(func $memberschanged (export "memberschanged") (param $n i32) (local $at i32)',
    f"  (local.set $at (i32.const {BUFFER}))",
    "  (loop $next",
    "    (call $member (local.get $at))",
    "    (local.set $at (i32.add (local.get $at) (i32.const 16)))",
    "    (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))",
    "  (call $end (local.get $at)))",
    "(func $member (param $at i32) (local $entry i32) (local $group i32)",
    f"  (local.set $entry (call $entry (local.get $at) (i32.const {MEMBERS}) (i32.const {MEMBER.size}) (i32.const 4)))",
    "  (memory.copy (local.get $entry) (i32.add (local.get $at) (i32.const 4)) (i32.const 12))",
    "  (local.set $group (i32.load offset=12 (local.get $at)))",
    "  (if (i32.load offset=8 (local.get $at))",
    "    (then",
    f"      (if (i32.ge_u (local.get $group) (i32.const {NUMBERS})) (then unreachable))",
    f"      (if (i32.eqz (i32.load offset={GROUPS} (i32.mul (local.get $group) (i32.const {GROUP.size}))))",
    "        (then unreachable)))",
    "    (else",
    "      (if (i32.ne (i32.and (i32.load offset=4 (local.get $at)) (local.get $group)) (i32.const -1))",
    "        (then unreachable)))))",
    export("prefilter", call(NAMES, GROUPS, END - GROUPS), "(i32.const 0)"),
    uses=[NAMES],
    pages="4",
)
"""What breaks the rules of records is a trap. Its prefilter hands over all that it keeps."""


class ToldGroup(NamedTuple):
    """What a guest says of a group."""

    key: GroupKey
    group: Group


class ToldMember(NamedTuple):
    """What it says of a member."""

    node: int
    state: int
    group: int


class Mirror(NamedTuple):
    """The groups and members that the guest keeps, by number."""

    groups: dict[int, ToldGroup]
    members: dict[int, ToldMember]


def mirror(instance: Instance, node_table: NodeTable) -> Mirror:
    """Calls the guest. Raises GuestError."""
    asked = Call(Nodes(node_table, ()), time.monotonic() + 30)
    instance.once("prefilter", asked)
    kept = asked.guest_results[GuestResult.NODE_NAMES]
    members = MEMBERS - GROUPS
    return Mirror(
        {number: _group(*entry) for number, entry in enumerate(GROUP.iter_unpack(kept[:members])) if entry[0]},
        {number: ToldMember(*entry) for number, entry in enumerate(MEMBER.iter_unpack(kept[members:])) if entry[1]},
    )


def _group(
    state: int,
    source: int,
    minimum: int,
    timeout: int,
    priority: int,
    created: int,
    begin: int,
    length: int,
    names: bytes,
) -> ToldGroup:
    assert state == 1
    assert not any(names[begin + length :])
    text = names[: begin + length].decode()
    key = GroupKey(GroupSource(source), text[:begin], text[begin:])
    return ToldGroup(key, Group(minimum, timeout, priority, created))


KEYS: Final = [
    GroupKey(source, namespace, name)
    for source in GroupSource
    for namespace, name in (("a", "b"), ("a", "bc"), ("ab", "c"))
]
"""Names that are the same without what is between them."""
KEY: Final = st.sampled_from(KEYS)
GROUP_DATA: Final = st.builds(
    Group,
    st.integers(0, 3),
    st.sampled_from([0, 60, 2**31 - 1]),
    st.integers(-(2**31), 5),
    st.sampled_from([0, 2**31, 2**62 - 1]),
)
POD: Final = st.builds(
    ResidentPod,
    st.sampled_from(["", "n0", "n1", "x"]),
    st.sampled_from([b"1", b"22"]),
    st.booleans(),
    st.one_of(st.none(), KEY),
    st.booleans(),
)
PODS: Final = st.dictionaries(st.sampled_from(pod_keeper.UIDS), POD, max_size=5)
STEP: Final = st.one_of(
    pod_keeper.STEP.filter(lambda step: step[0] not in {"put_pods", "replace_pods", "trap"}),
    st.tuples(st.just("put_pods"), PODS),
    st.tuples(st.just("put_pods"), PODS),
    st.tuples(st.just("replace_pods"), PODS),
    st.tuples(st.just("put_groups"), st.dictionaries(KEY, GROUP_DATA, max_size=3)),
    st.tuples(st.just("remove_groups"), st.lists(KEY, min_size=1, max_size=4)),
    st.tuples(st.just("trap"), keeper.INSTANCE),
)
"""What happens to nodes, pods and groups, which are those of one of two clusters, and to three instances."""


class Truth(pod_keeper.Truth):
    """The pods and groups of two clusters, of which one counts."""

    def __init__(self) -> None:
        self._groups: dict[NodeTable, dict[GroupKey, Group]] = {}
        super().__init__()

    @property
    def groups(self) -> dict[GroupKey, Group]:
        """The groups that are described."""
        return self._groups.setdefault(self.node_table, {})

    def put_groups(self, groups: Mapping[GroupKey, Group]) -> None:
        for key, group in groups.items():
            self.node_table.pods.groups.put(key, group)
        self.groups.update(groups)

    def remove_groups(self, keys: Sequence[GroupKey]) -> None:
        for key in keys:
            self.node_table.pods.groups.remove(key)
            self.groups.pop(key, None)

    def check(self, instance: Instance) -> None:
        """What the guest keeps is the truth: groups, and which pod is of which, on the node of which name."""
        told = mirror(instance, self.node_table)
        members = [pod for pod in self.pods.values() if pod.group]
        named = {pod.group: NAMED for pod in members if pod.group}
        assert dict(told.groups.values()) == {**named, **self.groups}
        assert len(told.groups) == len({**named, **self.groups}) == len(self.node_table.pods.groups)
        names = {at: name for at, name, _ in self.node_table.everything().nodes}
        said = [(told.groups[each.group].key, names.get(each.node, ""), each.state) for each in told.members.values()]
        assert sorted(said) == sorted((pod.group, pod.node, _state(pod)) for pod in members if pod.group)


def _state(pod: ResidentPod) -> int:
    return 2 + pod.is_binding if pod.node and pod.is_tentative else 1


class _Play(pod_keeper.Play):
    def __init__(self, module: Module) -> None:
        super().__init__(module, Truth())

    def _late(self, at: int) -> None:
        """A call whose time is over before all is told. The next one goes on from there."""
        if self._sync(at, 0):
            return
        with pytest.raises(GuestError, match=r"^(groups|members)changed: its time was over while it") as caught:
            self._instances[at].once("prefilter", Call(Nodes(self._truth.node_table, ()), time.monotonic() - 1))
        assert (caught.value.fault, caught.value.fatal) == (Fault.BUSY, False)

    def _trap(self, at: int) -> None:
        """A group that the guest cannot take in. Another instance takes its place once that is gone."""
        key, groups = GroupKey(GroupSource.LABEL, "bad", "bad"), self._truth.node_table.pods.groups
        groups.put(key, Group(BAD))
        with pytest.raises(GuestError, match=r"^groupschanged: trap: unreachable in ") as caught:
            self._truth.check(self._instances[at])
        assert caught.value.fatal
        groups.remove(key)
        self._instances[at].close()
        self._instances[at] = self._new()


def play(module: Module, steps: Sequence[tuple[str, Any]]) -> None:
    """Takes three instances through steps."""
    _Play(module).run(steps)
