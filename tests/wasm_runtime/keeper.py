"""A guest that keeps a hash of each node and judges from it, and what it is to say after any changes of the nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.wasm_runtime.guest_modules import NODE, NODE_NAME, REASON, TEXT, call, export, module
from wasm_runtime import Nodes, NodeTable, Settings
from wasm_runtime.engine import Call, Instance, Module, NodeResults, NoHandle

HASHES = 16
TABLE = 65_536
"""Where the guest keeps the hash of each node, a byte by its number, 0 for none."""

GUEST = module(
    # The hash of the current node's name and object, from 1 on; 0 if it has no object.
    "(func $look (result i32) (local $name i32) (local $object i32) (local $at i32) (local $hash i32)",
    f"(local.set $name {call(NODE_NAME, 2048, 512)})",
    f"(local.set $object (call ${NODE} (i32.const 2048) (local.get $name)",
    "  (i32.add (i32.const 2048) (local.get $name)) (i32.const 4096)))",
    "(if (i32.eqz (local.get $object)) (then (return (i32.const 0))))",
    "(local.set $hash (i32.const 0x811c9dc5))",
    "(loop $next",
    "  (local.set $hash (i32.mul (i32.const 0x01000193)",
    "    (i32.xor (local.get $hash) (i32.load8_u offset=2048 (local.get $at)))))",
    "  (local.set $at (i32.add (local.get $at) (i32.const 1)))",
    "  (br_if $next (i32.lt_u (local.get $at) (i32.add (local.get $name) (local.get $object)))))",
    f"(i32.add (i32.const 1) (i32.rem_u (local.get $hash) (i32.const {HASHES}))))",
    # What it knows of a node: a number that stands for none is a trap.
    f"(func $kept (param $n i32) (result i32) (i32.load8_u offset={TABLE} (local.get $n)))",
    "(func $known (param $n i32) (result i32)",
    "  (if (i32.eqz (call $kept (local.get $n))) (then unreachable)) (call $kept (local.get $n)))",
    '(func $nodechanged (export "nodechanged") (param $n i32)',
    f"  (i32.store8 offset={TABLE} (local.get $n) (call $look)) (drop (call $known (local.get $n))))",
    '(func $noderemoved (export "noderemoved") (param $n i32)',
    f"  (drop (call $known (local.get $n))) (i32.store8 offset={TABLE} (local.get $n) (i32.const 0)))",
    '(func (export "nodebuffer") (param $n i32) (result i32) (i32.const 8192))',
    '(func $filternodes (export "filternodes") (param $n i32) (result i32) (local $at i32)',
    *(call(REASON, TEXT + at, 1) for at in range(HASHES)),
    "(if (i32.eqz (local.get $n)) (then (return (i32.const 0))))",
    "(local.set $n (i32.shl (local.get $n) (i32.const 2)))",
    "(loop $next",
    "  (i32.store offset=8192 (local.get $at)",
    "    (i32.or (i32.const 2) (i32.shl (call $known (i32.load offset=8192 (local.get $at))) (i32.const 8))))",
    "  (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4))) (local.get $n))))",
    "(i32.const 0))",
    export(
        "filter",
        "(local.set $hash (call $look))",
        "(if (i32.eqz (local.get $hash)) (then (return (i32.const 3))))",
        call(REASON, f"(i32.add (i32.const {TEXT - 1}) (local.get $hash))", 1),
        "(i32.const 2)",
        local="(local $hash i32)",
    ),
    uses=[NODE, NODE_NAME, REASON],
    pages="2",
    text="abcdefghijklmnop",
)


def expected(truth: dict[str, bytes], names: list[str]) -> NodeResults:
    """What the guest must say of nodes whose objects are in `truth`, by lists or one by one."""
    codes = bytes(2 if truth.get(name) else 3 for name in names)
    return NodeResults(len(names), codes, [], [_letter(name, truth.get(name, b"")) for name in names])


def _letter(name: str, node: bytes) -> str:
    if not node:
        return ""
    value = 0x811C9DC5
    for byte in name.encode() + node:
        value = (value ^ byte) * 0x01000193 & 0xFFFF_FFFF
    return "abcdefghijklmnop"[value % HASHES]


SLACK = -2
"""What `node_table.SLACK` is to be, so that there are many epochs."""
ALWAYS = {"always": b"A"}
"""Where there is no node at all, who looks for one is told so by an error."""
NAMES = [f"n{at}" for at in range(8)]
OBJECTS = st.dictionaries(st.sampled_from(NAMES), st.binary(min_size=1, max_size=2), max_size=5)
INSTANCE = st.integers(0, 2)
STEP = st.one_of(
    st.tuples(st.just("put"), OBJECTS),
    st.tuples(st.just("replace"), OBJECTS),
    st.tuples(st.just("remove"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)),
    st.tuples(st.just("locate"), st.lists(st.sampled_from([*NAMES, "x", "y", "z"]), max_size=4)),
    st.tuples(st.just("other"), st.none()),
    st.tuples(st.just("tell"), st.tuples(INSTANCE, st.integers(1, 3))),
    st.tuples(st.just("ask"), st.tuples(INSTANCE, st.lists(st.sampled_from(NAMES), max_size=5))),
)
"""What happens to the nodes, which are those of one of two snapshots, and to three instances."""


STEP_OR_CARRY = st.one_of(STEP, st.tuples(st.just("carry"), st.tuples(INSTANCE, OBJECTS)))
"""Or an instance is asked about nodes that only a request has."""


class Truth:
    """Two snapshots, of which one counts, and what is in each."""

    def __init__(self, on_change: Callable[[], object] = lambda: None) -> None:
        self._both = [(NodeTable(on_change), dict[str, bytes]()) for _ in range(2)]
        for _ in self._both:
            self.put(ALWAYS)
            self.other(None)

    @property
    def node_table(self) -> NodeTable:
        return self._both[0][0]

    @property
    def objects(self) -> dict[str, bytes]:
        return self._both[0][1]

    def put(self, objects: Mapping[str, bytes]) -> None:
        self.node_table.put(objects.items())
        self.objects.update(objects)

    def replace(self, objects: Mapping[str, bytes]) -> None:
        self.node_table.replace({**objects, **ALWAYS})
        self.objects.clear()
        self.objects.update({**objects, **ALWAYS})

    def remove(self, names: list[str]) -> None:
        for name in names:
            self.node_table.remove(name)
            self.objects.pop(name, None)

    def locate(self, names: list[str]) -> None:
        self.node_table.locate(names)

    def other(self, _: None) -> None:
        self._both.reverse()


def play(module: Module, steps: Sequence[tuple[str, Any]]) -> None:
    """Takes three instances through steps. What they say is the truth, then and in the end."""
    truth = Truth()
    instances = [module.instantiate(Settings("plugin"), NoHandle()) for _ in range(3)]
    for step, argument in steps:
        if step == "tell":
            at, most = argument
            instances[at].sync_nodes(Nodes(truth.node_table, ()), time.monotonic() + 30, most)
        elif step == "ask":
            at, names = argument
            _ask(instances[at], truth, names)
        elif step == "carry":
            at, objects = argument
            _carry(instances[at], truth, objects)
        else:
            getattr(truth, step)(argument)
    for instance in instances:
        _ask(instance, truth, sorted(truth.objects))
        _ask(instance, truth, NAMES)
        instance.close()


def _carry(instance: Instance, truth: Truth, objects: Mapping[str, bytes]) -> None:
    """What the guest says of nodes that only a request has, beside all others, is the truth for that request."""
    carried = {name: node for name, node in objects.items() if name not in truth.objects}
    call = Call(Nodes(truth.node_table, NAMES, carried=carried), time.monotonic() + 30)
    assert instance.each("filter", call, -1) == expected(truth.objects | carried, NAMES)


def _ask(instance: Instance, truth: Truth, names: list[str]) -> None:
    """What the guest says of nodes, by a list if it can be, else one by one, is the truth."""
    if not names:
        return
    call = Call(Nodes(truth.node_table, names), time.monotonic() + 30)
    results = instance.at_once("filternodes", call, -1)
    assert (results is None) is any(name not in truth.objects for name in names)
    said = instance.each("filter", call, -1) if results is None else results.nodes
    assert said == expected(truth.objects, names)
