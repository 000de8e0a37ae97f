"""When a guest sees PreFilter, and which guest it is."""

from collections.abc import Sequence

import pytest

from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import LOG, TEXT, call, export, module, result
from tests.wasm_runtime.world import World, filter_nodes, post_filter, pre_filter, score, world
from wasm_runtime import GuestError, Plugin
from wasm_runtime.abi import Code
from wasm_runtime.guests.guest import CycleStage, PreFilter, Status

EXPORTS = ["prefilter", "filter", "postfilter", "prescore", "score", "normalizescore"]
PLACES = dict(zip(EXPORTS, range(TEXT, TEXT + 1024, 32), strict=False))


def diary(exports: Sequence[str] = EXPORTS, **codes: int) -> str:
    """Logs the name of each export that is called, and how often it was called in this instance so far."""
    functions = []
    for name in exports:
        at = PLACES[name]
        digit = f"(i32.const {at + len(name) + 1})"
        counted = f"(i32.store8 {digit} (i32.add (i32.const 1) (i32.load8_u {digit})))"
        functions.append(export(name, counted, call(LOG, 0, at, len(name) + 2), result(name, codes.get(name, 0))))
    data = [f'(data (i32.const {at}) "{name} 0")' for name, at in PLACES.items()]
    return module(*data, *functions, uses=[LOG])


ONE = world({"node-a": b"A"})


def run(plugin: Plugin, stage: CycleStage, at: World) -> None:
    """What the verbs do at each stage."""
    if stage in {"filter", "preempt"}:
        filter_nodes(plugin, at, stage)
    elif stage == "postFilter":
        post_filter(plugin, at)
    else:
        score(plugin, at)


F, P, S, V = "filter", "postFilter", "score", "preempt"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("1", F)], "prefilter 1, filter 1"),
        ([("1", F), ("1", S)], "prefilter 1, filter 1, prescore 1, score 1, normalizescore 1"),
        ([("1", S)], "prefilter 1, prescore 1, score 1, normalizescore 1"),
        ([("1", F), ("1", F)], "prefilter 1, filter 1, prefilter 2, filter 2"),
        (
            [("1", S), ("1", S)],
            "prefilter 1, prescore 1, score 1, normalizescore 1, prefilter 2, prescore 2, score 2, normalizescore 2",
        ),
        ([("1", F), ("2", F)], "prefilter 1, filter 1, prefilter 2, filter 2"),
        (
            [("1", F), ("2", F), ("1", S)],
            "prefilter 1, filter 1, prefilter 2, filter 2, prefilter 3, prescore 1, score 1, normalizescore 1",
        ),
        ([("1", F), ("1", V), ("1", P)], "prefilter 1, filter 1, filter 2, postfilter 1"),
        ([("1", V), ("1", P)], "prefilter 1, filter 1, postfilter 1"),
        ([("1", V), ("1", V)], "prefilter 1, filter 1, prefilter 2, filter 2"),
        ([("1", P), ("1", P)], "prefilter 1, postfilter 1, prefilter 2, postfilter 2"),
        ([("1", V), ("2", V), ("1", P)], "prefilter 1, filter 1, prefilter 2, filter 2, prefilter 3, postfilter 1"),
        (
            [("1", F), ("1", S), ("1", F), ("1", S)],
            "prefilter 1, filter 1, prescore 1, score 1, normalizescore 1,"
            " prefilter 2, filter 2, prescore 2, score 2, normalizescore 2",
        ),
    ],
)
def test_prefilter_comes_once_a_cycle(load: Loader, steps: list[tuple[str, CycleStage]], expected: str) -> None:
    plugin = load.plugin(diary())
    for uid, stage in steps:
        run(plugin, stage, ONE.with_pod(uid))
    assert ", ".join(load.logged()) == expected


def test_two_nodes_are_two_calls(load: Loader) -> None:
    plugin = load.plugin(diary())
    filter_nodes(plugin, world())
    score(plugin, world())
    assert load.logged() == [
        *("prefilter 1", "filter 1", "filter 2"),
        *("prescore 1", "score 1", "score 2", "normalizescore 1"),
    ]


@pytest.mark.parametrize("exports", [["filter"], ["score"], ["prescore", "score"], ["filter", "score"]])
def test_a_guest_without_prefilter(load: Loader, exports: list[str]) -> None:
    plugin = load.plugin(diary(exports))
    for uid in ("1", "1", "2"):
        if "filter" in exports:
            filter_nodes(plugin, ONE.with_pod(uid))
        if "score" in exports:
            score(plugin, ONE.with_pod(uid))
    assert load.logged() == [f"{name} {time}" for time in (1, 2, 3) for name in exports]


def test_the_end_of_a_cycle_can_be_said(load: Loader) -> None:
    plugin = load.plugin(diary())
    filter_nodes(plugin, ONE)
    plugin.end_cycle(ONE.with_pod("another").pod)
    plugin.end_cycle(ONE.pod)
    score(plugin, ONE)
    assert load.logged()[:3] == ["prefilter 1", "filter 1", "prefilter 2"]


@pytest.mark.parametrize("code", [Code.SKIP, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING])
def test_what_prefilter_said_is_kept_for_the_cycle(load: Loader, code: Code) -> None:
    """It is for the verb to follow it."""
    plugin = load.plugin(diary(prefilter=code))
    for stage in ("filter", "score", "preempt", "postFilter"):
        assert pre_filter(plugin, ONE, stage) == PreFilter(Status(code))
    assert load.logged() == ["prefilter 1"]


def test_a_stage_that_was_passed_begins_a_new_cycle(load: Loader) -> None:
    """Score behind preemption is that of another attempt, where no verb calls Filter."""
    plugin = load.plugin(diary())
    for stage in ("preempt", "postFilter", "score", "preempt", "score"):
        pre_filter(plugin, ONE, stage)
    assert load.logged() == ["prefilter 1", "prefilter 2", "prefilter 3"]


def test_what_prefilter_said_is_forgotten_with_the_cycle(load: Loader) -> None:
    """The pod's first byte is the code of its PreFilter."""
    guest = module(
        export(
            "prefilter",
            "(drop (call $k8s.io/scheduler/currentPod (i32.const 0) (i32.const 64)))",
            "(i32.load8_u (i32.const 0))",
        ),
        uses=["k8s.io/scheduler/currentPod"],
    )
    plugin = load.plugin(guest)
    assert pre_filter(plugin, ONE.with_pod("1", b"\x02")).status.code is Code.UNSCHEDULABLE
    with pytest.raises(GuestError, match=r"^prefilter: Error without a reason$"):
        pre_filter(plugin, ONE.with_pod("2", b"\x01"))
    assert pre_filter(plugin, ONE.with_pod("2", b"\x00")).status.code is Code.SUCCESS


def test_a_failed_prefilter_is_called_again(load: Loader) -> None:
    plugin = load.plugin(diary(prefilter=Code.ERROR))
    for _ in range(2):
        with pytest.raises(GuestError, match=r"^prefilter: Error without a reason$"):
            score(plugin, ONE)
    assert load.logged() == ["prefilter 1", "prefilter 2"]


def test_a_cycle_goes_on_after_an_error_of_another_point(load: Loader) -> None:
    plugin = load.plugin(diary(filter=Code.ERROR))
    with pytest.raises(GuestError, match=r"^filter of node node-a: Error without a reason$"):
        filter_nodes(plugin, ONE)
    score(plugin, ONE)
    assert load.logged() == ["prefilter 1", "filter 1", "prescore 1", "score 1", "normalizescore 1"]


def test_prescore_may_skip_score(load: Loader) -> None:
    plugin = load.plugin(diary(prescore=Code.SKIP))
    assert score(plugin, ONE) is None
    assert load.logged() == ["prefilter 1", "prescore 1"]


ALL = {"filter": "prefilter, filter", "score": "prefilter, prescore, score, normalizescore"}


@pytest.mark.parametrize(
    ("points", "exports"),
    [
        (None, EXPORTS),
        (["preFilter", "filter", "postFilter", "preScore", "score"], EXPORTS),
        (["filter"], ["prefilter", "filter"]),
        (["preFilter"], ["prefilter"]),
        (["postFilter"], ["postfilter"]),
        (["score"], ["prescore", "score", "normalizescore"]),
        (["preScore"], ["prescore"]),
        (["filter", "score"], ["prefilter", "filter", "prescore", "score", "normalizescore"]),
        (["bind", "reserve"], []),
        ([], []),
    ],
)
def test_extension_points_narrow_what_runs(load: Loader, points: list[str] | None, exports: list[str]) -> None:
    plugin = load.plugin(diary(), points)
    assert plugin.exports == exports
    assert [name for name in EXPORTS if plugin.runs(name)] == exports


def test_prefilter_is_called_even_where_it_is_not_enabled(load: Loader) -> None:
    """It is where a guest drops the last pod's state."""
    plugin = load.plugin(diary(), ["score"])
    score(plugin, ONE)
    assert load.logged() == ["prefilter 1", "prescore 1", "score 1", "normalizescore 1"]


def test_points_that_are_not_enabled_are_not_called(load: Loader) -> None:
    plugin = load.plugin(diary(["score", "normalizescore", "prescore"]), ["preScore"])
    assert plugin.exports == ["prescore"]


@pytest.mark.parametrize(
    ("exports", "points", "runs", "not_run"),
    [
        (["filter", "enqueue", "bind", "reserve"], None, ["enqueue", "filter", "reserve", "bind"], []),
        (["prefilter", "addpod", "removepod"], None, ["prefilter", "addpod", "removepod"], []),
        (["prefilter", "addpod", "removepod"], ["filter"], ["prefilter", "addpod", "removepod"], []),
        (["filter", "enqueue", "bind", "reserve"], ["filter"], ["filter"], ["enqueue", "reserve", "bind"]),
        (
            ["reserve", "bindingannotations", "unreserve", "permit"],
            ["reserve"],
            ["reserve", "bindingannotations", "unreserve"],
            ["permit"],
        ),
        (["permit"], [], [], ["permit"]),
    ],
)
def test_exports_that_are_not_run_are_told(
    load: Loader, exports: list[str], points: list[str] | None, runs: list[str], not_run: list[str]
) -> None:
    plugin = load.plugin(module(*(export(name, result(name, 0)) for name in exports)), points)
    assert (plugin.exports, plugin.not_run) == (runs, not_run)


@pytest.mark.parametrize(
    ("export_of_guest", "points", "binds"),
    [
        ("filter", None, False),
        ("enqueue", None, False),
        ("addpod", None, False),
        ("reserve", None, True),
        ("bindingannotations", None, True),
        ("unreserve", None, True),
        ("permit", None, True),
        ("prebind", None, True),
        ("bind", None, True),
        ("postbind", None, True),
        ("bind", ["filter", "score"], False),
    ],
)
def test_whether_a_guest_has_a_part_in_the_binding_cycle(
    load: Loader, export_of_guest: str, points: list[str] | None, binds: bool
) -> None:
    assert load.plugin(module(export(export_of_guest, result(export_of_guest, 0))), points).has_binding_points is binds


@pytest.mark.parametrize(
    ("function", "wants"),
    [
        ("k8s.io/api/node", True),
        ("k8s.io/api/nodeList", True),
        ("k8s.io/scheduler/nodeImageStates", True),
        ("k8s.io/scheduler/currentNodeName", False),
        ("k8s.io/scheduler/filteredNodeList", False),
    ],
)
def test_whether_a_guest_wants_nodes(load: Loader, function: str, wants: bool) -> None:
    plugin = load.plugin(module(export("filter", "(i32.const 0)"), uses=[function]))
    assert plugin.wants_nodes is wants


def test_memory_is_kept_from_stage_to_stage_and_from_pod_to_pod(load: Loader) -> None:
    """PreFilter adds the pod's first byte to a sum in memory, which Score returns."""
    guest = module(
        export(
            "prefilter",
            "(drop (call $k8s.io/scheduler/currentPod (i32.const 0) (i32.const 1)))",
            "(i32.store (i32.const 64) (i32.add (i32.load (i32.const 64)) (i32.load8_u (i32.const 0))))",
            "(i32.const 0)",
        ),
        export("filter", "(i32.const 0)"),
        export("score", "(i64.shl (i64.load32_u (i32.const 64)) (i64.const 32))"),
        uses=["k8s.io/scheduler/currentPod"],
    )
    plugin = load.plugin(guest)
    for uid, byte, total in (("1", 5, 5), ("2", 20, 25), ("3", 3, 28)):
        at = ONE.with_pod(uid, bytes([byte]))
        filter_nodes(plugin, at)
        assert score(plugin, at) == [total]
