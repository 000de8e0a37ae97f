"""What guests hand over besides their status: node names, a nominated node, normalized scores."""

import json
import time

import pytest

from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import TEXT, call, export, module
from tests.wasm_runtime.world import once, post_filter, pre_filter, score, world
from wasm_runtime import Fault, GuestError
from wasm_runtime.abi import Code, GuestResult
from wasm_runtime.engine import Call
from wasm_runtime.guests.guest import Nomination, PreFilter, Status

NAMES = "k8s.io/scheduler/result.node_names"
NOMINATED = "k8s.io/scheduler/result.nominated_node_name"
NORMALIZED = "k8s.io/scheduler/result.normalized_score_list"
EVENTS = "k8s.io/scheduler/result.cluster_events"


def delivers(function: str, at: str, text: str, value: str, others: str = "") -> str:
    given = call(function, TEXT, len(text.encode()))
    return module(others, export(at, given, value), uses=[function], text=text, pages="8")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", None),
        ("\0", None),
        ("cut", None),
        ("one\0", {"one"}),
        ("one\0two\0", {"one", "two"}),
        ("one\0\0two\0", {"one", "two"}),
        ("one\0cut", {"one"}),
        ("one\0one\0", {"one"}),
        ("a\0fóo\0c\0", {"a", "fóo", "c"}),
        ("".join(f"node-{at:04}\0" for at in range(5_000)), {f"node-{at:04}" for at in range(5_000)}),
    ],
)
@pytest.mark.parametrize("code", [Code.SUCCESS, Code.SKIP, Code.UNSCHEDULABLE])
def test_node_names_of_prefilter(load: Loader, text: str, names: set[str] | None, code: Code) -> None:
    """No name at all is the same as none handed over, as in the upstream host: all nodes."""
    plugin = load.plugin(delivers(NAMES, "prefilter", text, f"(i32.const {code})"))
    assert pre_filter(plugin, world()) == PreFilter(Status(code), None if names is None else frozenset(names))


def test_node_names_handed_over_twice(load: Loader) -> None:
    calls = [call(NAMES, TEXT, 4), call(NAMES, TEXT + 4, 4)]
    plugin = load.plugin(module(export("prefilter", *calls, "(i32.const 0)"), uses=[NAMES], text="one\0two\0"))
    assert pre_filter(plugin, world()) == PreFilter(names=frozenset({"two"}))


def test_node_names_do_not_reach_the_next_pod(load: Loader) -> None:
    only_first = module(
        "(global $pods (mut i32) (i32.const 0))",
        export(
            "prefilter",
            f"(if (i32.eqz (global.get $pods)) (then {call(NAMES, TEXT, 4)}))",
            "(global.set $pods (i32.const 1))",
            "(i32.const 0)",
        ),
        uses=[NAMES],
        text="one\0",
    )
    plugin = load.plugin(only_first)
    assert pre_filter(plugin, world()) == PreFilter(names=frozenset({"one"}))
    assert pre_filter(plugin, world().with_pod("2")) == PreFilter()


@pytest.mark.parametrize("name", ["", "node-a", "größe", "not a node"])
def test_nominated_node(load: Loader, name: str) -> None:
    plugin = load.plugin(delivers(NOMINATED, "postfilter", name, f"(i64.const {1 << 32})"))
    assert post_filter(plugin, world()) == Nomination(Status(Code.SUCCESS), 1, name)


def test_nominated_node_that_is_no_text(load: Loader) -> None:
    guest = module(
        '(data (i32.const 0) "\\ff")', export("postfilter", call(NOMINATED, 0, 1), "(i64.const 0)"), uses=[NOMINATED]
    )
    assert post_filter(load.plugin(guest), world()).node == "\N{REPLACEMENT CHARACTER}"


SCORE = export("score", f"(i64.const {7 << 32})")
NO_OBJECT = "normalizescore: the normalized scores are no JSON object of node names and integers: "


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ('{"node-a": 1, "node-b": 2}', [1, 2]),
        ('{"node-b": 100, "node-a": 0, "other": -5}', [0, 100]),
        ("{}", [7, 7]),
        ("null", [7, 7]),
        ("", [7, 7]),
        (' {"node-a":3,\n"node-b":4} ', [3, 4]),
        ('{"node-a": 1, "node-a": 5, "node-b": 2}', [5, 2]),
    ],
)
def test_normalized_scores(load: Loader, text: str, scores: list[int]) -> None:
    plugin = load.plugin(delivers(NORMALIZED, "normalizescore", text, "(i32.const 0)", SCORE))
    assert score(plugin, world()) == scores


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"node-a": 1}', "normalizescore: the normalized scores have none for node node-b"),
        ('{"other": 1}', "normalizescore: the normalized scores have none for node node-a"),
        ('{"node-a": 101, "node-b": 1}', "normalizescore of node node-a: score 101 is outside 0..100"),
        ('{"node-a": 1, "node-b": -1}', "normalizescore of node node-b: score -1 is outside 0..100"),
        (f'{{"node-a": {2**63}, "node-b": 1}}', f"normalizescore of node node-a: score {2**63} is outside 0..100"),
        (f'{{"node-a": {10**30}, "node-b": 1}}', f"normalizescore of node node-a: score {10**30} is outside 0..100"),
    ],
)
def test_normalized_scores_that_do_not_fit(load: Loader, text: str, message: str) -> None:
    plugin = load.plugin(delivers(NORMALIZED, "normalizescore", text, "(i32.const 0)", SCORE))
    with pytest.raises(GuestError) as caught:
        score(plugin, world())
    assert str(caught.value) == message
    assert (caught.value.fault, caught.value.fatal) == (Fault.RESULT, False)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("{", "truncated"),
        ("nonsense", "malformed"),
        ("[1, 2]", "got `array`"),
        ("7", "got `int`"),
        ('{"node-a": "1"}', "got `str`"),
        ('{"node-a": 1.5}', "got `float`"),
        ('{"node-a": null}', "got `null`"),
        ('{"node-a": 1} rest', "trailing characters"),
        ("[" * 5_000, "got `array`"),
        (f'{{"node-a": {"9" * 50_000}}}', "out of range"),
    ],
)
def test_normalized_scores_that_are_no_object_of_integers(load: Loader, text: str, cause: str) -> None:
    plugin = load.plugin(delivers(NORMALIZED, "normalizescore", text, "(i32.const 0)", SCORE))
    with pytest.raises(GuestError) as caught:
        score(plugin, world())
    assert str(caught.value).startswith(NO_OBJECT)
    assert cause in str(caught.value)
    assert (caught.value.fault, caught.value.fatal) == (Fault.RESULT, False)


def test_normalized_scores_that_are_no_text(load: Loader) -> None:
    guest = module(
        SCORE,
        '(data (i32.const 0) "{\\22\\ff\\22:1}")',
        export("normalizescore", call(NORMALIZED, 0, 7), "(i32.const 0)"),
        uses=[NORMALIZED],
    )
    with pytest.raises(GuestError, match=f"^{NO_OBJECT}"):
        score(load.plugin(guest), world())


def test_raw_scores_may_be_outside_of_the_range_when_they_are_normalized(load: Loader) -> None:
    raw = export("score", f"(i64.const {-5 << 32})")
    text = json.dumps({"node-a": 10, "node-b": 20})
    plugin = load.plugin(delivers(NORMALIZED, "normalizescore", text, "(i32.const 0)", raw))
    assert score(plugin, world()) == [10, 20]


def test_normalized_scores_do_not_reach_the_next_call(load: Loader) -> None:
    only_first = module(
        SCORE,
        "(global $calls (mut i32) (i32.const 0))",
        export(
            "normalizescore",
            f"(if (i32.eqz (global.get $calls)) (then {call(NORMALIZED, TEXT, 25)}))",
            "(global.set $calls (i32.const 1))",
            "(i32.const 0)",
        ),
        uses=[NORMALIZED],
        text='{"node-a": 1,"node-b": 2}',
    )
    plugin = load.plugin(only_first)
    assert [score(plugin, world()), score(plugin, world())] == [[1, 2], [7, 7]]


FUNCTIONS = {
    EVENTS: GuestResult.CLUSTER_EVENTS,
    NAMES: GuestResult.NODE_NAMES,
    NOMINATED: GuestResult.NOMINATED_NODE_NAME,
    NORMALIZED: GuestResult.NORMALIZED_SCORES,
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "place", [(65536, 1), (65535, 2), (0, 65537), (0xFFFFFFFF, 1), (1, 0xFFFFFFFF), (0x80000000, 0x80000000)]
)
def test_a_delivery_outside_of_memory_is_a_trap(load: Loader, function: str, place: tuple[int, int]) -> None:
    instance = load.instance(module(export("prefilter", call(function, *place), "(i32.const 0)"), uses=[function]))
    with pytest.raises(GuestError) as caught:
        once(instance, world())
    assert str(caught.value) == f"prefilter: trap: memory out of bounds in {function} < prefilter"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_delivery_keeps_every_byte(load: Loader, function: str) -> None:
    """From memory that has just grown, too, and moved for all that the host knows."""
    guest = module(
        '(data (i32.const 0) "\\00\\ff\\01")',
        export(
            "prefilter",
            "(drop (memory.grow (i32.const 100)))",
            "(memory.copy (i32.const 6000000) (i32.const 0) (i32.const 3))",
            call(function, 6000000, 3),
            "(i32.const 0)",
        ),
        uses=[function],
    )
    at = world()
    instance = load.instance(guest)
    instance.begin(at.pod.object)
    made = Call(at.nodes, time.monotonic() + 5)
    instance.once("prefilter", made)
    assert made.guest_results == {FUNCTIONS[function]: b"\x00\xff\x01"}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("length", [4, 9 << 20])
def test_what_start_delivers_is_nothing_and_no_failure(load: Loader, function: str, length: int) -> None:
    """Not even what would be too much: no call is about it."""
    start = f'(func (export "_start") {call(function, 0, length)})'
    plugin = load.plugin(module(start, export("prefilter", "(i32.const 0)"), uses=[function], pages="160"))
    assert pre_filter(plugin, world()) == PreFilter()


def test_a_delivery_above_two_gibibytes(load: Loader) -> None:
    """Addresses come from wasm as signed numbers."""
    guest = module(
        export(
            "prefilter",
            "(if (i32.eq (i32.const -1) (memory.grow (i32.const 40000))) (then (return (i32.const 9))))",
            f"(memory.copy (i32.const 2500000000) (i32.const {TEXT}) (i32.const 4))",
            call(NAMES, 2_500_000_000, 4),
            "(i32.const 0)",
        ),
        uses=[NAMES],
        text="one\0",
    )
    assert pre_filter(load.plugin(guest, memory_limit=1 << 32), world()) == PreFilter(names=frozenset({"one"}))
