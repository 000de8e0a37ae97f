"""The copy of the nodes in an instance's own memory, seen by guests that ask for nodes by name."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import PATIENCE_S
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import NODE, NODE_NAME, POD, REASON, binary, call, export, module
from tests.wasm_runtime.protobuf_bytes import field, image, node_with_images
from tests.wasm_runtime.world import World, once, world
from wasm_runtime import Nodes, NodeTable, Plugin, Settings, WasmtimeEngine
from wasm_runtime.engine import Call, Instance, NoHandle
from wasm_runtime.engines.wasmtime.instance import WasmtimeInstance
from wasm_runtime.engines.wasmtime.memory import SnapshotMemory

SHOWS_NODES = module(
    # The reason is the object of the node in hand, asked for by its name; the code is 2 or, without an object, 3.
    export(
        "filter",
        f"(local.set $name (call ${NODE_NAME} (i32.const 0) (i32.const 1024)))",
        f"(local.set $object (call ${NODE} (i32.const 0) (local.get $name) (i32.const 1024) (i32.const 60000)))",
        f"(call ${REASON} (i32.const 1024) (local.get $object))",
        "(if (result i32) (local.get $object) (then (i32.const 2)) (else (i32.const 3)))",
        local="(local $name i32) (local $object i32)",
    ),
    uses=[NODE, NODE_NAME, REASON],
)

IMAGE_STATES = "k8s.io/scheduler/nodeImageStates"
SHOWS_STATES = module(
    # The reason is the image states of the node in hand, asked for by its name.
    export(
        "filter",
        f"(local.set $name (call ${NODE_NAME} (i32.const 0) (i32.const 1024)))",
        call(
            REASON, 1024, f"(call ${IMAGE_STATES} (i32.const 0) (local.get $name) (i32.const 1024) (i32.const 60000))"
        ),
        "(i32.const 2)",
        local="(local $name i32)",
    ),
    uses=[IMAGE_STATES, NODE_NAME, REASON],
)

SHOWS_NODE_NAMED_LIKE_POD = module(
    # The pod's object is the name of a node, whose object becomes the reason.
    export(
        "prefilter",
        call(
            REASON,
            8192,
            f"(local.tee $object (call ${NODE} (i32.const 0) (call ${POD} (i32.const 0) (i32.const 8192))"
            " (i32.const 8192) (i32.const 50000)))",
        ),
        "(local.get $object)",
        local="(local $object i32)",
    ),
    uses=[NODE, POD, REASON],
)


@pytest.fixture
def node_table() -> NodeTable:
    return NodeTable()


def shown(instance: Instance, node_table: NodeTable, names: Sequence[str]) -> dict[str, str]:
    """The objects of nodes by name, as a guest sees them; without those that it found to have none.

    In one call there is room for 160 bytes a node, and for 64 long ones.
    """
    instance.begin(b"")
    results = instance.each("filter", Call(Nodes(node_table, names), time.monotonic() + 30), -1)
    codes = results.codes
    return {name: text for name, code, text in zip(names, codes, results.reasons, strict=True) if code == 2}


def texts(objects: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    return {name: node.decode() for name, node in objects}


def copy_of(instance: Instance) -> SnapshotMemory:
    assert isinstance(instance, WasmtimeInstance)
    return instance._snapshot


def test_five_thousand_nodes(load: Loader, node_table: NodeTable) -> None:
    objects = {f"node-{at:04}.example.com": f"{at}:".encode() * (at % 800) for at in range(5_000)}
    node_table.put(objects.items())
    names = list(objects)
    random.Random(1).shuffle(names)
    instance = load.instance(SHOWS_NODES)
    for at in range(0, 5_000, 50):
        some = names[at : at + 50]
        expected = {name: objects[name].decode()[:4096] for name in some if objects[name]}
        assert shown(instance, node_table, some) == expected


ODD_NAMES = [
    "a",
    "b",
    "ab",
    "ba",
    "node",
    "node-",
    "node-1",
    "node-10",
    "größe",
    "节点-1",
    "🚀",
    "e\u0301",
    "é",
    "with\0nul",
    "with space",
    "x" * 252,
    "x" * 253,
    "x" * 252 + "y",
    "y" + "x" * 252,
    ".",
    "-",
    '"',
]


def test_odd_names(load: Loader, node_table: NodeTable) -> None:
    objects = {name: f"object of {at}".encode() for at, name in enumerate(ODD_NAMES)}
    node_table.put(objects.items())
    assert shown(load.instance(SHOWS_NODES), node_table, ODD_NAMES) == texts(objects.items())
    by_name = load.instance(SHOWS_NODE_NAMED_LIKE_POD)
    for name, node in objects.items():
        at = World(world(pod=name.encode()).pod, Nodes(node_table, []))
        assert once(by_name, at) == (len(node), 0, node.decode())


def test_a_node_without_a_name(load: Loader, node_table: NodeTable) -> None:
    node_table.put([("", b"nameless"), ("a", b"A")])
    assert shown(load.instance(SHOWS_NODES), node_table, ["a", ""]) == {"a": "A", "": "nameless"}


def fnv1a(name: str) -> int:
    """The driver's hash."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFF_FFFF
    return value


SAME_HASH = [("costarring", "liquid"), ("declinate", "macallums"), ("altarage", "zinke")]


@pytest.mark.parametrize(("one", "other"), SAME_HASH)
def test_names_of_the_same_hash(load: Loader, node_table: NodeTable, one: str, other: str) -> None:
    assert fnv1a(one) == fnv1a(other)
    instance = load.instance(SHOWS_NODES)
    node_table.put([(one, b"1")])
    assert shown(instance, node_table, [other, one]) == {one: "1"}
    node_table.put([(other, b"2")])
    assert shown(instance, node_table, [other, one]) == {one: "1", other: "2"}
    node_table.remove(one)
    assert shown(instance, node_table, [other, one]) == {other: "2"}


def test_names_that_all_want_the_same_slot(load: Loader, node_table: NodeTable) -> None:
    """The last one, so that they go on at the first."""
    slots = 1 << 12
    names = [name for name in map(str, range(400_000)) if fnv1a(name) % slots == slots - 1][:60]
    assert len(names) == 60
    known, unknown = names[:40], names[40:]
    node_table.put((name, f"object {name}".encode()) for name in known)
    instance = load.instance(SHOWS_NODE_NAMED_LIKE_POD)
    nodes = Nodes(node_table, [])
    for name in names:
        node = f"object {name}" if name in known else ""
        assert once(instance, World(world(pod=name.encode()).pod, nodes)) == (len(node), 0, node)
    assert len(unknown) == 20


def test_a_change_is_written_without_the_rest(load: Loader, node_table: NodeTable) -> None:
    objects = {f"n{at}": b"N" * 100 for at in range(1_000)}
    node_table.put(objects.items())
    instance = load.instance(SHOWS_NODES)
    shown(instance, node_table, list(objects))
    copy = copy_of(instance)
    before = copy._used
    longer = b"C" * 101
    changed = {"n7": b"changed", "n8": longer, "n9": b"C" * 100}
    node_table.put(changed.items())
    objects |= changed
    assert shown(instance, node_table, list(objects)) == texts(objects.items())
    assert (copy._used, copy._waste) == (before + len("n8") + len(longer), len("n8") + 100)


def test_a_node_that_comes_back_has_no_room_left(load: Loader, node_table: NodeTable) -> None:
    node_table.put([("a", b"N" * 100), ("b", b"B")])
    instance = load.instance(SHOWS_NODES)
    shown(instance, node_table, ["a", "b"])
    copy = copy_of(instance)
    before = copy._used
    node_table.remove("a")
    assert shown(instance, node_table, ["a", "b"]) == {"b": "B"}
    assert (copy._used, copy._waste) == (before, 100)
    node_table.put([("a", b"back")])
    assert shown(instance, node_table, ["a", "b"]) == {"a": "back", "b": "B"}
    assert (copy._used, copy._waste) == (before + len("aback"), 101)


def test_new_nodes_are_added_without_the_rest_while_there_is_room(load: Loader, node_table: NodeTable) -> None:
    objects = {f"n{at:03}": b"N" * 100 for at in range(100)}
    node_table.put(objects.items())
    instance = load.instance(SHOWS_NODES)
    shown(instance, node_table, list(objects))
    copy = copy_of(instance)
    before = copy._used
    for at in range(100, 150):
        node_table.put([(f"n{at}", b"new")])
        objects[f"n{at}"] = b"new"
        assert shown(instance, node_table, list(objects)) == texts(objects.items())
    assert copy._used == before + 50 * len("n100new")
    node_table.put([("n150", b"new")])
    objects["n150"] = b"new"
    assert shown(instance, node_table, list(objects)) == texts(objects.items())
    assert copy._capacity == 151 + 75


def test_a_node_that_changes_all_the_time_takes_bounded_room(load: Loader, node_table: NodeTable) -> None:
    objects = {f"n{at}": b"N" * 1_000 for at in range(20)}
    node_table.put(objects.items())
    instance = load.instance(SHOWS_NODES)
    largest = 0
    for value in range(400):
        objects["n3"] = str(value).encode() * 1_000
        node_table.put([("n3", objects["n3"])])
        assert shown(instance, node_table, ["n3", "n4"]) == {"n3": objects["n3"].decode()[:4096], "n4": "N" * 1_000}
        largest = max(largest, copy_of(instance).size)
    assert largest <= 5 * 65_536
    assert shown(instance, node_table, list(objects)) == {name: node.decode()[:4096] for name, node in objects.items()}


def holding(*names: str, more: bytes = b"") -> bytes:
    """A node with images of 5 bytes, and with what else its object is made of."""
    return node_with_images([image([name], 5) for name in names]) + field(4, more)


def holders(**counts: int) -> str:
    """The states of a node whose images are on as many nodes each."""
    members = (f'"{name}":{{"Size":5,"NumNodes":{count}}}' for name, count in counts.items())
    return f"{{{','.join(members)}}}"


def test_a_node_that_changes_keeps_the_image_states_that_it_has(load: Loader, node_table: NodeTable) -> None:
    node_table.put((f"n{at}", holding("a")) for at in range(20))
    instance = load.instance(SHOWS_STATES)
    expected = {"n3": holders(a=20), "n4": holders(a=20)}
    assert shown(instance, node_table, ["n3", "n4"]) == expected
    copy = copy_of(instance)
    used = copy._used
    node = holding("a", more=b"more")
    node_table.put([("n3", node)])
    assert shown(instance, node_table, ["n3", "n4"]) == expected
    assert (copy._used, copy._waste) == (used + len("n3") + len(node), len("n3") + len(holding("a")))


def test_image_states_as_long_as_before_take_no_room(load: Loader, node_table: NodeTable) -> None:
    node_table.put((f"n{at:02}", holding("a") if at < 20 else holding()) for at in range(30))
    instance = load.instance(SHOWS_STATES)
    names = ["n00", "n19", "n20"]
    assert shown(instance, node_table, names) == {"n00": holders(a=20), "n19": holders(a=20), "n20": "{}"}
    copy = copy_of(instance)
    used = copy._used
    node_table.put([("n20", holding("a"))])
    assert shown(instance, node_table, names) == dict.fromkeys(names, holders(a=21))
    assert copy._used == used + len("n20") + len(holding("a")) + len(holders(a=21))
    assert copy._waste == len("n20") + len(holding()) + len("{}")


def test_image_states_of_other_lengths_are_written_without_objects(load: Loader, node_table: NodeTable) -> None:
    node_table.put((f"n{at}", holding("a")) for at in range(10))
    instance = load.instance(SHOWS_STATES)
    names = ["n0", "n8", "n9"]
    assert shown(instance, node_table, names) == dict.fromkeys(names, holders(a=10))
    copy = copy_of(instance)
    used = copy._used
    node_table.remove("n9")
    assert shown(instance, node_table, names) == {"n0": holders(a=9), "n8": holders(a=9), "n9": "null"}
    assert copy._used == used + 9 * len(holders(a=9)) + len("{}")
    assert copy._waste == len(holding("a")) + 10 * len(holders(a=10))


def test_image_states_that_change_all_the_time_take_bounded_room(load: Loader, node_table: NodeTable) -> None:
    """Each change of the first node changes the length of all states."""
    node_table.put((f"n{at}", holding("a", more=b"N" * 100)) for at in range(1_000))
    instance = load.instance(SHOWS_STATES)
    names = ["n0", "n1", "n999"]
    largest = 0
    for _ in range(50):
        node_table.put([("n0", holding())])
        assert shown(instance, node_table, names) == {"n0": "{}", "n1": holders(a=999), "n999": holders(a=999)}
        node_table.put([("n0", holding("a"))])
        assert shown(instance, node_table, names) == dict.fromkeys(names, holders(a=1_000))
        largest = max(largest, copy_of(instance)._used)
    assert largest <= 10 * 65_536


def test_image_states_after_memory_ran_out_halfway(
    load: Loader, node_table: NodeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_table.put((f"n{at}", holding("a")) for at in range(10))
    instance = load.instance(SHOWS_STATES)
    names = ["n0", "n1"]
    assert shown(instance, node_table, names) == dict.fromkeys(names, holders(a=10))

    def fails(*_: object) -> None:
        raise MemoryError

    node_table.put([("n0", holding("b"))])
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(copy_of(instance), "_write_states", fails)
        copy_of(instance).sync_nodes(Nodes(node_table, names))
    assert shown(instance, node_table, names) == {"n0": holders(b=1), "n1": holders(a=9)}


def test_removed_nodes_have_no_object(load: Loader, node_table: NodeTable) -> None:
    objects = {f"n{at}": str(at).encode() for at in range(10)}
    node_table.put(objects.items())
    instance = load.instance(SHOWS_NODES)
    names = list(objects)
    for name in ("n3", "n9", "n0"):
        node_table.remove(name)
        del objects[name]
        assert shown(instance, node_table, names) == texts(objects.items())
    node_table.put([("n3", b"back")])
    assert shown(instance, node_table, names) == texts({**objects, "n3": b"back"}.items())
    node_table.replace({"n1": b"only"})
    assert shown(instance, node_table, names) == {"n1": "only"}


def test_growth_moves_nothing_that_the_guest_sees(load: Loader, node_table: NodeTable) -> None:
    """Memory of the copy, of the call and of the guest grow in turn."""
    instance = load.instance(SHOWS_NODES)
    objects: dict[str, bytes] = {}
    for at in range(14):
        objects |= {f"n{at}-{more}": f"{at}-{more}".encode() * 10 for more in range(2**at // 4)}
        node_table.put(objects.items())
        instance.begin(b"P" * 2**at * 16)
        assert shown(instance, node_table, list(objects)) == texts(objects.items())


def test_two_instances_follow_one_node_table_each_at_its_own_time(load: Loader, node_table: NodeTable) -> None:
    often, seldom = load.instance(SHOWS_NODES), load.instance(SHOWS_NODES)
    truth = {"always": "A"}
    node_table.put([("always", b"A")])
    names = [f"n{at}" for at in range(10)] + ["always"]
    for value in range(20):
        node_table.put((name, f"{value}".encode()) for name in names[: value % 10])
        truth |= dict.fromkeys(names[: value % 10], f"{value}")
        assert shown(often, node_table, names) == truth
        if value % 7 == 0:
            assert shown(seldom, node_table, names) == truth


def test_one_instance_and_two_node_tables(load: Loader) -> None:
    instance = load.instance(SHOWS_NODES)
    one, other = NodeTable(), NodeTable()
    one.put([("a", b"1"), ("b", b"2")])
    other.put([("b", b"3"), ("a", b"4")])
    for _ in range(3):
        assert shown(instance, one, ["a", "b"]) == {"a": "1", "b": "2"}
        assert shown(instance, other, ["a", "b"]) == {"a": "4", "b": "3"}


def test_a_request_that_was_made_before_a_new_epoch(
    load: Loader, node_table: NodeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", 5)
    node_table.put([("gone", b"0"), ("a", b"1"), ("b", b"2")])
    instance = load.instance(SHOWS_NODES)
    request = Nodes(node_table, ["b", "gone", "a"])
    for value in range(50):
        node_table.remove("gone")
        node_table.put([("a", str(value).encode())])
    results = instance.each("filter", Call(request, time.monotonic() + 5), -1)
    assert results.reasons == ["2", "", "49"]


def test_a_place_that_another_name_gets(load: Loader, node_table: NodeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a new epoch, or later in it: the name before is not known any more."""
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", -6)
    instance, by_name = load.instance(SHOWS_NODES), load.instance(SHOWS_NODE_NAMED_LIKE_POD)

    def asked(name: str) -> str:
        return once(by_name, World(world(pod=name.encode()).pod, Nodes(node_table, []))).reason

    node_table.put([("a", b"1"), ("b", b"2"), ("c", b"3")])
    assert [asked(name) for name in "abc"] == ["1", "2", "3"]
    for name in "bc":
        node_table.remove(name)
    assert [asked(name) for name in "abc"] == ["1", "", ""]
    for name, at in (("d", 2), ("e", 1)):
        node_table.put([(name, name.encode())])
        assert asked(name) == copy_of(by_name).name(at) == name
    assert [asked(name) for name in "abcde"] == ["1", "", "", "d", "e"]
    assert shown(instance, node_table, ["e", "a", "d"]) == {"e": "e", "a": "1", "d": "d"}
    assert [name for _, name, _ in node_table.everything().nodes] == ["a", "e", "d"]


def test_a_node_without_a_name_that_comes_and_goes(load: Loader, node_table: NodeTable) -> None:
    """It is in the index once, however often that is."""
    node_table.put([("a", b"A")])
    instance = load.instance(SHOWS_NODES)
    for _ in range(200):
        node_table.put([("", b"nameless")])
        assert shown(instance, node_table, ["a", ""]) == {"a": "A", "": "nameless"}
        node_table.remove("")
        assert shown(instance, node_table, ["a", ""]) == {"a": "A"}


NAMES = [f"n{at}" for at in range(8)]
STEP = st.one_of(
    st.tuples(st.just("put"), st.dictionaries(st.sampled_from(NAMES), st.text("xyz", max_size=300), max_size=5)),
    st.tuples(st.just("replace"), st.dictionaries(st.sampled_from(NAMES), st.text("xyz", max_size=9), max_size=5)),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("ask"), st.lists(st.sampled_from(NAMES), max_size=5)),
)


@given(steps=st.lists(STEP, max_size=40))
@settings(max_examples=60, deadline=None)
def test_guests_see_the_truth_after_any_changes(engine: WasmtimeEngine, steps: list[tuple[str, Any]]) -> None:
    always = {"always": b"A"}
    truth: dict[str, str] = {}
    node_table = NodeTable()
    node_table.put(always.items())
    instance = engine.compile(binary(SHOWS_NODES)).instantiate(Settings("plugin"), NoHandle())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wasm_runtime.nodes.node_table.SLACK", 6)
        for step, argument in [*steps, ("ask", NAMES)]:
            if step == "put":
                truth |= argument
                node_table.put((name, text.encode()) for name, text in argument.items())
            elif step == "replace":
                truth = dict(argument)
                node_table.replace({**always, **{name: text.encode() for name, text in argument.items()}})
            elif step == "remove":
                truth.pop(argument, None)
                node_table.remove(argument)
            else:
                expected = {name: truth[name] for name in argument if truth.get(name)}
                assert shown(instance, node_table, argument) == expected
    instance.close()


HELD = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from("abc")), max_size=5)
STATES_STEP = st.one_of(
    st.tuples(st.just("put"), HELD),
    st.tuples(st.just("replace"), HELD),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("ask"), st.lists(st.sampled_from(NAMES), max_size=5)),
)


def states_of(truth: dict[str, set[str]], name: str) -> str:
    if name not in truth:
        return "null"
    return holders(**{held: sum(held in each for each in truth.values()) for held in sorted(truth[name])})


@given(steps=st.lists(STATES_STEP, max_size=40))
@settings(max_examples=60, deadline=None)
def test_guests_see_the_image_states_after_any_changes(engine: WasmtimeEngine, steps: list[tuple[str, Any]]) -> None:
    """Also those of thirteen nodes that stay: counts have one digit or two."""
    always = {f"always-{at}": {"a"} for at in range(7)} | {f"empty-{at}": set() for at in range(6)}
    truth: dict[str, set[str]] = dict(always)
    node_table = NodeTable()
    node_table.put((name, holding(*held)) for name, held in always.items())
    instance = engine.compile(binary(SHOWS_STATES)).instantiate(Settings("plugin"), NoHandle())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wasm_runtime.nodes.node_table.SLACK", 1 - 2 * len(always))
        for step, argument in [*steps, ("ask", NAMES)]:
            if step == "put":
                truth |= argument
                node_table.put((name, holding(*held)) for name, held in argument.items())
            elif step == "replace":
                truth = {**always, **argument}
                node_table.replace({name: holding(*held) for name, held in truth.items()})
            elif step == "remove":
                truth.pop(argument, None)
                node_table.remove(argument)
            else:
                asked = [*argument, "always-0"]
                assert shown(instance, node_table, asked) == {name: states_of(truth, name) for name in asked}
    instance.close()


def test_one_writer_and_many_readers(engine: WasmtimeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every object that a guest reads is that of its node, whole, and no older than the call.

    An object is the node's name, a generation, padding, and the generation again. Nodes of other names
    come and go meanwhile, so that epochs change under the readers' feet.
    """
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", 50)
    node_table = NodeTable()
    plugin = Plugin(engine, binary(SHOWS_NODES), Settings("plugin", timeout=60))
    names = [f"node-{at:02}" for at in range(40)]
    written = dict.fromkeys(names, 0)
    begun = [0]
    done = threading.Event()

    def node(name: str, generation: int) -> bytes:
        return f"{name}|{generation}|{'.' * (generation * 37 % 900)}|{generation}".encode()

    def write() -> int:
        for generation in itertools.count(1):
            if done.wait(0.0002):  # It lets go of the interpreter: readers would starve on a busy machine.
                return generation
            begun[0] = generation
            some = names[generation % 5 :: 3]
            node_table.put((name, node(name, generation)) for name in some)
            for name in some:
                written[name] = generation
            node_table.put([(f"short-{generation}", b"S" * 500)])
            node_table.remove(f"short-{generation}")
            if generation % 50 == 0:
                node_table.replace({name: node(name, written[name]) for name in names})
        raise AssertionError

    def read(reader: int) -> int:
        order = random.Random(reader)
        for number in range(120):
            asked = [*order.sample(names, 20), f"unknown-{reader}-{number}"]
            least = {name: written[name] for name in asked[:-1]}
            at = World(world(uid=f"{reader}-{number}").pod, Nodes(node_table, asked))
            with plugin.guest(at.pod, at.nodes, "filter") as (guest, deadline):
                results = guest.filter(at.nodes, deadline)
            assert (results.codes, results.reasons[-1]) == (b"\x02" * 20 + b"\x03", "")
            for name, text in zip(asked[:-1], results.reasons[:-1], strict=True):
                label, generation, _, again = text.split("|")
                assert (label, generation) == (name, again)
                assert least[name] <= int(generation) <= begun[0]
        return reader

    node_table.replace({name: node(name, 0) for name in names})
    with ThreadPoolExecutor(4) as pool:
        writing = pool.submit(write)
        readers = [pool.submit(read, reader) for reader in range(3)]
        try:
            assert [reader.result(PATIENCE_S) for reader in readers] == [0, 1, 2]
        finally:
            done.set()
        assert writing.result(PATIENCE_S) > 1
    plugin.close()
