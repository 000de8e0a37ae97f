"""Status codes: what each export may return, and what is said of the rest."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import NODE_NAME, POD, REASON, TEXT, answers, binary, call, export, module, result
from tests.wasm_runtime.world import World, each, filter_nodes, on_node, post_filter, pre_filter, score, world
from wasm_runtime import Fault, GuestError, Plugin, Settings, WasmtimeEngine, abi
from wasm_runtime.abi import Code
from wasm_runtime.driver import layout
from wasm_runtime.engine import NodeResults, NoHandle
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest import Nomination, Permission, PreFilter, Status

CODES = {
    -(2**31): "-2147483648",
    -1: "-1",
    0: "0 Success",
    1: "1 Error",
    2: "2 Unschedulable",
    3: "3 UnschedulableAndUnresolvable",
    4: "4 Wait",
    5: "5 Skip",
    6: "6 Pending",
    7: "7",
    31: "31",
    32: "32",
    2**31 - 1: "2147483647",
}

VICTIM = b"VICTIM"

Becomes = Callable[[str], object]
"""What a code with a reason becomes."""

RUN: dict[str, Callable[[Plugin, World], Any]] = {
    "prefilter": pre_filter,
    "filter": filter_nodes,
    "postfilter": post_filter,
    "prescore": score,
    "score": score,
    "normalizescore": score,
    "addpod": lambda plugin, at: on_node(plugin, at, "preempt", lambda guest, *node: guest.add_pod(VICTIM, *node)),
    "removepod": lambda plugin, at: on_node(
        plugin, at, "preempt", lambda guest, *node: guest.remove_pod(VICTIM, *node)
    ),
    "reserve": lambda plugin, at: on_node(plugin, at, "bind", CoreGuest.reserve),
    "permit": lambda plugin, at: on_node(plugin, at, "bind", CoreGuest.permit),
    "prebind": lambda plugin, at: on_node(plugin, at, "bind", CoreGuest.pre_bind),
    "bind": lambda plugin, at: on_node(plugin, at, "bind", CoreGuest.bind),
}
"""How each export that returns a code is reached."""


def _statuses(*codes: int, to: Callable[[Status], object] = lambda status: status) -> dict[int, Becomes]:
    def becomes(code: int) -> Becomes:
        return lambda reason: to(Status(Code(code), reason))

    return {code: becomes(code) for code in codes}


_ONE_NODE: dict[str, dict[int, Becomes]] = {
    "prefilter": _statuses(0, 2, 3, 5, 6, to=PreFilter),
    "filter": {
        0: lambda _: NodeResults(1, b"", [], []),
        **_statuses(2, 3, 6, to=lambda status: NodeResults(1, bytes([status.code]), [], [status.reason])),
    },
    "postfilter": _statuses(0, 2, 3, 6, to=lambda status: Nomination(status, 0, "")),
    "prescore": {0: lambda _: [0], 5: lambda _: None},
    "score": {0: lambda _: [0]},
    "normalizescore": {0: lambda _: [0]},
    "addpod": {0: lambda _: None},
    "removepod": {0: lambda _: None},
    "reserve": _statuses(0, 2, 3, 6),
    "permit": _statuses(0, 2, 3, 4, 6, to=lambda status: Permission(status, 0.0)),
    "prebind": _statuses(0, 2, 3, 6),
    "bind": _statuses(0, 2, 3, 5, 6),
}
"""What each export's codes become, given the reason. Every other code is a GuestError."""

ALLOWED = {
    "prefilter": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 5 Skip, 6 Pending",
    "filter": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending",
    "postfilter": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending",
    "prescore": "0 Success, 1 Error, 5 Skip",
    "score": "0 Success, 1 Error",
    "normalizescore": "0 Success, 1 Error",
    "addpod": "0 Success, 1 Error",
    "removepod": "0 Success, 1 Error",
    "reserve": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending",
    "permit": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 4 Wait, 6 Pending",
    "prebind": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending",
    "bind": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 5 Skip, 6 Pending",
}


def test_every_export_that_returns_a_code_is_here() -> None:
    assert {name for name, export in abi.EXPORTS.items() if "code" in export.result} == RUN.keys()


@pytest.mark.parametrize("reason", [None, "", "disk is full"])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("name", RUN)
def test_each_code_of_each_export(load: Loader, name: str, code: int, reason: str | None) -> None:
    plugin = load.plugin(answers(name, code, reason))
    at = world({"node-a": b"A"})
    expected = _ONE_NODE[name].get(code)
    if expected is not None:
        assert RUN[name](plugin, at) == expected(reason or "")
        return
    where = f"{name} of node node-a" if abi.EXPORTS[name].on_node else name
    said = f" ({reason})" if reason else ""
    with pytest.raises(GuestError) as caught:
        RUN[name](plugin, at)
    error = caught.value
    if code == Code.ERROR:
        assert str(error) == f"{where}: {reason or 'Error without a reason'}"
        assert (error.fault, error.fatal) == (Fault.STATUS, False)
    else:
        assert str(error) == f"{where}: status code {CODES[code]}{said} is none of {ALLOWED[name]}"
        assert (error.fault, error.fatal) == (Fault.RESULT, False)


NUMBERED = module(
    # The pod's object has a code for each node, a byte each; the reason is the byte after the codes.
    "(global $node (mut i32) (i32.const 0))",
    export("prefilter", "(global.set $node (i32.const 0))", "(i32.const 0)"),
    export(
        "filter",
        "(drop (call $k8s.io/scheduler/currentPod (i32.const 0) (i32.const 64)))",
        "(i32.store8 (i32.const 80) (i32.add (i32.const 97) (global.get $node)))",
        call(REASON, 80, 1),
        "(global.set $node (i32.add (global.get $node) (i32.const 1)))",
        "(i32.load8_u (i32.sub (global.get $node) (i32.const 1)))",
    ),
    uses=[REASON, "k8s.io/scheduler/currentPod"],
)
"""Filters with the codes that the pod's bytes list, and with the reasons a, b, c …"""

NAMES = ["n0", "n1", "n2", "n3", "n4"]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0, 0, 0, 0], NodeResults(5, b"", [], [])),
        ([0, 2, 0, 3, 6], NodeResults(5, b"\x00\x02\x00\x03\x06", [], ["b", "d", "e"])),
        ([2, 2, 2, 2, 2], NodeResults(5, b"\x02" * 5, [], list("abcde"))),
        ([0, 0, 0, 0, 2], NodeResults(5, b"\x00\x00\x00\x00\x02", [], ["e"])),
    ],
)
def test_filter_goes_on_while_codes_are_tolerated(load: Loader, codes: list[int], expected: NodeResults) -> None:
    plugin = load.plugin(NUMBERED)
    assert filter_nodes(plugin, world(dict.fromkeys(NAMES, b"N"), pod=bytes(codes))) == expected


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([0, 2, 1, 9, 9], "filter of node n2: c"),
        ([1, 9, 9, 9, 9], "filter of node n0: a"),
        ([0, 0, 0, 0, 1], "filter of node n4: e"),
        ([2, 5, 1, 0, 0], f"filter of node n1: status code 5 Skip (b) is none of {ALLOWED['filter']}"),
        ([2, 2, 2, 4, 1], f"filter of node n3: status code 4 Wait (d) is none of {ALLOWED['filter']}"),
        ([0, 200, 1, 0, 0], f"filter of node n1: status code 200 (b) is none of {ALLOWED['filter']}"),
    ],
)
def test_filter_stops_at_the_first_other_code_and_names_the_node(load: Loader, codes: list[int], message: str) -> None:
    plugin = load.plugin(NUMBERED)
    with pytest.raises(GuestError) as caught:
        filter_nodes(plugin, world(dict.fromkeys(NAMES, b"N"), pod=bytes(codes)))
    assert str(caught.value) == message


def test_filter_of_no_nodes(load: Loader) -> None:
    assert filter_nodes(load.plugin(NUMBERED), world(names=[])) == NodeResults(0, b"", [], [])


def test_filter_of_a_node_named_twice(load: Loader) -> None:
    at = world({"node-a": b"A"}, names=["node-a", "node-a"], pod=bytes([2, 3]))
    assert filter_nodes(load.plugin(NUMBERED), at) == NodeResults(2, b"\x02\x03", [], ["a", "b"])


@pytest.mark.parametrize("value", [0, 1, 99, 100])
def test_score_within_the_range(load: Loader, value: int) -> None:
    assert score(load.plugin(answers("score", 0, value=value)), world()) == [value, value]


@pytest.mark.parametrize("value", [-1, 101, 2**31 - 1, -(2**31)])
def test_score_outside_of_the_range(load: Loader, value: int) -> None:
    with pytest.raises(GuestError) as caught:
        score(load.plugin(answers("score", 0, value=value)), world())
    assert str(caught.value) == f"score of node node-a: score {value} is outside 0..100"
    assert (caught.value.fault, caught.value.fatal) == (Fault.RESULT, False)


def test_score_of_no_nodes(load: Loader) -> None:
    assert score(load.plugin(answers("score", 0, value=50)), world(names=[])) == []


@pytest.mark.parametrize("mode", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_nominating_mode_keeps_its_sign(load: Loader, mode: int) -> None:
    plugin = load.plugin(answers("postfilter", 2, "busy", value=mode))
    assert post_filter(plugin, world()) == Nomination(Status(Code.UNSCHEDULABLE, "busy"), mode, "")


def test_a_score_beside_a_code_is_not_looked_at(load: Loader) -> None:
    with pytest.raises(GuestError) as caught:
        score(load.plugin(answers("score", 1, "no idea", value=-7)), world())
    assert str(caught.value) == "score of node node-a: no idea"


LIMIT = layout.REASON_LIMIT


def gives_reason(*calls: tuple[int, int], code: int = 2, pages: str = "1", setup: str = "") -> str:
    """A filter that gives reasons by pointer and length, one after the other."""
    body = " ".join(call(REASON, ptr, length) for ptr, length in calls)
    return module(export("filter", setup, body, f"(i32.const {code})"), uses=[REASON], pages=pages, text="first second")


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([], ""),
        ([(TEXT, 0)], ""),
        ([(TEXT, 5)], "first"),
        ([(TEXT, 5), (TEXT + 6, 6)], "second"),
        ([(TEXT, 5), (TEXT, 0)], ""),
        ([(65536, 0)], ""),
        ([(65535, 1)], "\0"),
        ([(65536, 1)], "BUG: out of memory reading message"),
        ([(65535, 2)], "BUG: out of memory reading message"),
        ([(0xFFFFFFFF, 0)], "BUG: out of memory reading message"),
        ([(0xFFFFFFFF, 1)], "BUG: out of memory reading message"),
        ([(0xFFFFFFFF, 0xFFFFFFFF)], "BUG: out of memory reading message"),
        ([(0x80000000, 0x80000000)], "BUG: out of memory reading message"),
        ([(0, 0xFFFFFFFF)], "BUG: out of memory reading message"),
        ([(1, 0xFFFFFFFF)], "BUG: out of memory reading message"),
        ([(TEXT, 5), (70000, 1)], "BUG: out of memory reading message"),
        ([(70000, 1), (TEXT, 5)], "first"),
    ],
)
def test_a_reason_is_what_was_given_last(load: Loader, calls: list[tuple[int, int]], reason: str) -> None:
    results = filter_nodes(load.plugin(gives_reason(*calls)), world())
    assert results == NodeResults(2, b"\x02\x02", [], [reason, reason])


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT, LIMIT + 1, 60_000])
def test_a_long_reason_is_cut(load: Loader, length: int) -> None:
    fill = "(memory.fill (i32.const 2048) (i32.const 120) (i32.const 60000))"
    results = filter_nodes(load.plugin(gives_reason((2048, length), setup=fill)), world())
    assert results.reasons == ["x" * min(length, LIMIT)] * 2


def test_a_reason_cut_within_a_character_is_still_text(load: Loader) -> None:
    plugin = load.plugin(answers("filter", 2, "x" * (LIMIT - 1) + "é"))
    assert filter_nodes(plugin, world()).reasons == ["x" * (LIMIT - 1) + "\N{REPLACEMENT CHARACTER}"] * 2


def test_a_reason_in_utf8(load: Loader) -> None:
    plugin = load.plugin(answers("filter", 2, "größer als 4 ☃ 🚀"))
    assert filter_nodes(plugin, world()).reasons == ["größer als 4 ☃ 🚀"] * 2


def test_a_reason_of_a_success_is_not_kept(load: Loader) -> None:
    results = filter_nodes(load.plugin(gives_reason((TEXT, 5), code=0)), world())
    assert results == NodeResults(2, b"", [], [])


def test_a_reason_does_not_reach_the_next_node(load: Loader) -> None:
    silent_second = module(
        "(global $calls (mut i32) (i32.const 0))",
        export(
            "filter",
            "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))",
            f"(if (i32.eq (global.get $calls) (i32.const 1)) (then {call(REASON, TEXT, 5)}))",
            "(i32.const 2)",
        ),
        uses=[REASON],
        text="first",
    )
    assert filter_nodes(load.plugin(silent_second), world()).reasons == ["first", ""]


LEFT_OUT = "(left out: the reasons of this call are longer than their limit)"


def rejects_with_node_name_over_pod(name_limit: int) -> str:
    """Rejects each node. The reason is the pod's object, its begin overwritten by the node's name if that fits."""
    return module(
        export(
            "filter",
            "(local.set $length (call $k8s.io/scheduler/currentPod (i32.const 8192) (i32.const 8192)))",
            f"(drop (call $k8s.io/scheduler/currentNodeName (i32.const 8192) (i32.const {name_limit})))",
            "(call $k8s.io/scheduler/result.status_reason (i32.const 8192) (local.get $length))",
            "(i32.const 2)",
            local="(local $length i32)",
        ),
        uses=[REASON, POD, NODE_NAME],
    )


def test_reasons_that_differ_are_all_kept(load: Loader) -> None:
    names = [f"node-{at:04}" for at in range(5_000)]
    plugin = load.plugin(rejects_with_node_name_over_pod(9))
    at = world(dict.fromkeys(names, b"N"), pod=b"." * 9)
    assert filter_nodes(plugin, at) == NodeResults(5_000, b"\x02" * 5_000, [], names)


def test_reasons_that_repeat_take_room_once(load: Loader) -> None:
    """They would need twenty times the room of a call, were each kept for itself."""
    names = [f"node-{at:04}" for at in range(5_000)]
    plugin = load.plugin(rejects_with_node_name_over_pod(0))
    at = world(dict.fromkeys(names, b"N"), pod=b"x" * LIMIT)
    assert filter_nodes(plugin, at) == NodeResults(5_000, b"\x02" * 5_000, [], ["x" * LIMIT] * 5_000)


def test_reasons_beyond_the_room_are_said_to_be_left_out(load: Loader) -> None:
    """There is room for 64 of the longest and for 160 bytes a node."""
    names = [f"node-{at:04}" for at in range(200)]
    plugin = load.plugin(rejects_with_node_name_over_pod(9))
    results = filter_nodes(plugin, world(dict.fromkeys(names, b"N"), pod=b"x" * LIMIT))
    kept = 64 + 160 * 200 // layout.REASON_ROOM
    whole = [name + "x" * (LIMIT - 9) for name in names]
    assert results == NodeResults(200, b"\x02" * 200, [], [*whole[:kept], *[LEFT_OUT] * (200 - kept)])


def test_a_guest_goes_on_after_an_error_status(load: Loader) -> None:
    plugin = load.plugin(NUMBERED)
    at = world({"node-a": b"A"})
    with pytest.raises(GuestError, match=r"^filter of node node-a: a$"):
        filter_nodes(plugin, at.with_pod("1", bytes([1])))
    assert filter_nodes(plugin, at.with_pod("2", bytes([2]))) == NodeResults(1, b"\x02", [], ["a"])


CODES_AND_REASONS = module(
    # The pod's object has two bytes for each node: the code, and the reason, of one character or none.
    "(global $node (mut i32) (i32.const 0))",
    export(
        "filter",
        "(drop (call $k8s.io/scheduler/currentPod (i32.const 0) (i32.const 1024)))",
        "(local.set $at (i32.mul (i32.const 2) (global.get $node)))",
        "(global.set $node (i32.add (global.get $node) (i32.const 1)))",
        "(if (i32.load8_u offset=1 (local.get $at)) (then",
        "(call $k8s.io/scheduler/result.status_reason (i32.add (local.get $at) (i32.const 1)) (i32.const 1))))",
        "(i32.load8_u (local.get $at))",
        local="(local $at i32)",
    ),
    uses=[REASON, POD],
)


@settings(max_examples=100, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.sampled_from([0, 0, 1, 2, 2, 3, 6, 31, 32, 255]), st.sampled_from("\0ab")), max_size=40
    ),
    tolerated=st.one_of(st.just(0b1001101), st.integers(0, 2**32 - 1)),
)
def test_each_is_what_a_loop_over_the_nodes_would_be(
    engine: WasmtimeEngine, pairs: list[tuple[int, str]], tolerated: int
) -> None:
    called = next((at + 1 for at, (code, _) in enumerate(pairs) if code > 31 or not tolerated >> code & 1), len(pairs))
    codes = [code for code, _ in pairs[:called]]
    expected = NodeResults(
        called,
        bytes(code & 0xFF for code in codes) if any(codes) else b"",
        [],
        [reason.strip("\0") for code, reason in pairs[:called] if code],
        next((code for code in codes[-1:] if code > 31 or not tolerated >> code & 1), 0),
    )
    pod = b"".join(bytes([code]) + reason.encode() for code, reason in pairs)
    instance = engine.compile(binary(CODES_AND_REASONS)).instantiate(Settings("plugin"), NoHandle())
    assert (
        each(instance, world({}, names=[f"n{at}" for at in range(len(pairs))], pod=pod), "filter", tolerated)
        == expected
    )
    instance.close()


def test_result_packs_a_negative_code() -> None:
    assert result("score", -1, 1) == f"(i64.const {(1 << 32) | 0xFFFFFFFF})"
