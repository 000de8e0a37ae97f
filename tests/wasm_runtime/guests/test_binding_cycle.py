"""Exports that are called for one node: pods that come and go in a dry run, and the binding cycle."""

import time
from collections.abc import Callable

import pytest

from tests.patience import delay
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import LOG, NODE, NODE_NAME, REASON, SPIN, TEXT, call, export, module, result
from tests.wasm_runtime.world import filter_nodes, on_node, world
from wasm_runtime import Fault, GuestError, Nodes, NodeTable, Pod, WasmtimeEngine
from wasm_runtime.abi import EXPORTS, Code
from wasm_runtime.engines.wasmtime.ticker import TICK_S
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest import CycleStage, Permission, Status
from wasm_runtime.wasmtime_capi import EpochDeadline

TARGET = "k8s.io/scheduler/targetPod"
EVENTS = "k8s.io/scheduler/result.cluster_events"

STEPS: dict[str, Callable[[CoreGuest, Nodes, float], object]] = {
    "addpod": lambda guest, node, deadline: guest.add_pod(b"VICTIM", node, deadline),
    "removepod": lambda guest, node, deadline: guest.remove_pod(b"VICTIM", node, deadline),
    "reserve": CoreGuest.reserve,
    "bindingannotations": CoreGuest.binding_annotations,
    "unreserve": CoreGuest.unreserve,
    "permit": CoreGuest.permit,
    "prebind": CoreGuest.pre_bind,
    "bind": CoreGuest.bind,
    "postbind": CoreGuest.post_bind,
}

NODE_B = world(names=["node-b"])


def shows(name: str, *functions: str) -> str:
    """A guest that logs what host functions answer in an export, which succeeds, or rejects where it may."""
    asked = " ".join(call(LOG, 0, 512, call(function, 512, 64)) for function in functions)
    return module(export(name, asked, result(name, 0)), uses={LOG, *functions})


@pytest.mark.parametrize("name", STEPS)
def test_each_sees_its_node(load: Loader, name: str) -> None:
    plugin = load.plugin(shows(name, NODE_NAME))
    on_node(plugin, NODE_B, "bind", STEPS[name])
    assert load.logged() == ["node-b"]


@pytest.mark.parametrize("name", STEPS)
def test_each_can_ask_for_the_object_of_its_node(load: Loader, name: str) -> None:
    ask = call(NODE, 512, call(NODE_NAME, 512, 64), 640, 64)
    guest = module(export(name, call(LOG, 0, 640, ask), result(name, 0)), uses=[LOG, NODE, NODE_NAME])
    on_node(load.plugin(guest), NODE_B, "bind", STEPS[name])
    assert load.logged() == ["BB"]


@pytest.mark.parametrize(
    ("name", "target"), [(name, "VICTIM" if name in {"addpod", "removepod"} else "") for name in STEPS]
)
def test_only_pods_that_come_and_go_are_targets(load: Loader, name: str, target: str) -> None:
    plugin = load.plugin(shows(name, TARGET))
    on_node(plugin, NODE_B, "bind", STEPS[name])
    assert load.logged() == [target]


def test_the_target_is_that_of_the_call(load: Loader) -> None:
    """Neither the last one's, whatever the lengths, nor there in Filter."""
    ask = call(LOG, 0, 512, call(TARGET, 512, 8192))
    exports = [export(name, ask, "(i32.const 0)") for name in ("addpod", "removepod", "filter")]
    plugin = load.plugin(module(*exports, uses=[LOG, TARGET]))
    with plugin.guest(NODE_B.pod, NODE_B.nodes, "preempt") as (guest, deadline):
        guest.remove_pod(b"a long target", NODE_B.nodes, deadline)
        guest.filter(NODE_B.nodes, deadline)
        guest.add_pod(b"T", NODE_B.nodes, deadline)
        guest.add_pod(b"", NODE_B.nodes, deadline)
        guest.remove_pod(b"x" * 5_000, NODE_B.nodes, deadline)
    assert load.logged() == ["a long target", "", "T", "", "x" * 5_000]


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(0, 0.0), (1, 0.001), (1_500, 1.5), (2**31, 2147483.648), (2**32 - 1, 4294967.295)]
)
def test_the_time_that_permit_lets_a_pod_wait(load: Loader, milliseconds: int, seconds: float) -> None:
    """Unsigned, in the low half; the code is the high one, unlike elsewhere."""
    guest = module(
        export("permit", call(REASON, TEXT, 4), f"(i64.const {4 << 32 | milliseconds})"), uses=[REASON], text="slow"
    )
    permission = on_node(load.plugin(guest), NODE_B, "bind", CoreGuest.permit)
    assert permission == Permission(Status(Code.WAIT, "slow"), seconds)


@pytest.mark.parametrize(
    ("name", "ending", "message", "fault"),
    [
        *((name, "unreachable", f"{name} of node node-b: trap: unreachable in {name}", Fault.TRAP) for name in STEPS),
        ("bind", SPIN, "bind of node node-b: interrupted at its timeout of 40 ms", Fault.DEADLINE),
    ],
)
def test_a_failure_names_the_node(load: Loader, name: str, ending: str, message: str, fault: Fault) -> None:
    plugin = load.plugin(module(export(name, ending, result(name, 0))), timeout=0.04 if fault is Fault.DEADLINE else 10)
    with pytest.raises(GuestError) as caught:
        on_node(plugin, NODE_B, "bind", STEPS[name])
    assert (str(caught.value), caught.value.fault, caught.value.node) == (message, fault, "node-b")


@pytest.mark.parametrize(
    ("before", "begun"),
    [([], 1), (["filter"], 1), (["filter", "score"], 1), (["score"], 1), (["bind"], 2), (["filter", "bind"], 2)],
)
def test_binding_goes_on_with_the_pods_cycle(load: Loader, before: list[CycleStage], begun: int) -> None:
    """And is its end: another attempt to bind begins a new one."""
    logs = [export(name, call(LOG, 0, TEXT, 1), result(name, 0)) for name in ("prefilter", "reserve")]
    plugin = load.plugin(module(*logs, uses=[LOG], text="."), ["preFilter"])
    stages: list[CycleStage] = [*before, "bind"]
    for stage in stages:
        with plugin.guest(NODE_B.pod, NODE_B.nodes, stage):
            pass
    assert len(load.logged()) == begun


def test_a_guest_that_binds_is_left_to_its_pod(load: Loader, open_instances: Callable[[], int]) -> None:
    """Binding comes later, when other pods have been scheduled: state that a guest has kept for it is to be there."""
    count = "(global.set $pods (i32.add (i32.const 1) (global.get $pods)))"
    guest = module(
        "(global $pods (mut i32) (i32.const 0))",
        export("prefilter", count, "(i32.const 0)"),
        export("filter", "(i32.const 0)"),
        export("permit", "(i64.or (i64.shl (i64.const 4) (i64.const 32)) (i64.extend_i32_u (global.get $pods)))"),
    )
    plugin = load.plugin(guest)
    pods = [NODE_B.with_pod(uid) for uid in "abc"]
    for at in pods:
        filter_nodes(plugin, at)
    assert open_instances() == 3
    assert [on_node(plugin, at, "bind", CoreGuest.permit).timeout for at in pods] == [0.001] * 3


def test_a_pod_whose_cycle_is_over_leaves_its_guest_to_others(load: Loader, open_instances: Callable[[], int]) -> None:
    plugin = load.plugin(module(export("filter", "(i32.const 0)"), export("bind", "(i32.const 0)")))
    for uid in "abc":
        at = NODE_B.with_pod(uid)
        filter_nodes(plugin, at)
        on_node(plugin, at, "bind", CoreGuest.bind)
        plugin.end_cycle(at.pod)
    assert open_instances() == 1


def test_binding_leaves_one_guest_to_the_scheduling_cycle(load: Loader) -> None:
    """It may take as long as Permit lets a pod wait, and filter must not wait for it."""
    plugin = load.plugin(
        module(export("filter", "(i32.const 0)"), export("bind", "(i32.const 0)")), instances=2, timeout=0.05
    )
    first, second = (NODE_B.with_pod(uid) for uid in "ab")
    with plugin.guest(first.pod, first.nodes, "bind"):
        with pytest.raises(GuestError) as caught, plugin.guest(second.pod, second.nodes, "bind"):
            pass
        assert (str(caught.value), caught.value.fault, caught.value.fatal) == (
            "instance: all 1 that may be used here are in use; raise the plugin's instances",
            Fault.BUSY,
            False,
        )
        assert filter_nodes(plugin, second).called == 1


KEEPS_NODES = ['(func (export "nodechanged") (param i32))', '(func (export "noderemoved") (param i32))']
BUFFER = '(func (export "podbuffer") (param i32) (result i32) (i32.const 0))'
KEEPS_PODS = [*KEEPS_NODES, BUFFER, '(func (export "podschanged") (param i32))']
KEEPS_PENDING = [BUFFER, '(func (export "pendingpodschanged") (param i32))']
PERMIT, RESERVE = export("permit", "(i64.const 0)"), export("reserve", "(i32.const 0)")


@pytest.mark.parametrize(
    ("exports", "points", "is_asked_again"),
    [
        ([PERMIT], None, False),
        ([PERMIT, *KEEPS_NODES], None, False),
        ([PERMIT, *KEEPS_PODS], None, True),
        ([PERMIT, *KEEPS_PENDING], None, True),
        ([PERMIT, RESERVE, *KEEPS_PODS], ["reserve"], False),
        ([RESERVE, *KEEPS_PODS], None, False),
    ],
)
def test_permit_is_asked_again_of_guests_that_are_told_of_pods(
    load: Loader, exports: list[str], points: list[str] | None, *, is_asked_again: bool
) -> None:
    """A guest that keeps nodes alone may run on the upstream host as well, and mean the same there."""
    assert load.plugin(module(*exports), points).is_asked_again is is_asked_again


def delivers_events(*pairs: tuple[int, int], ending: str = "") -> str:
    words = "".join(f"\\{byte:02x}" for pair in pairs for number in pair for byte in number.to_bytes(4, "little"))
    return module(
        f'(data (i32.const 64) "{words}")',
        export("enqueue", call(EVENTS, 64, 8 * len(pairs)), ending),
        export("filter", "(i32.const 0)"),
        uses=[EVENTS],
    )


class TestClusterEvents:
    """What enqueue hands over when a plugin is made."""

    @pytest.mark.parametrize(
        ("guest", "events"),
        [
            (module(export("filter", "(i32.const 0)")), []),
            (module(export("enqueue")), []),
            (delivers_events(), []),
            (delivers_events((1, 3)), [("Node", 3)]),
            (delivers_events((0, 1), (10, 2**32 - 1), (77, 0)), [("Pod", 1), ("*", 2**32 - 1), ("77", 0)]),
        ],
    )
    def test_are_known_from_the_start(self, load: Loader, guest: str, events: list[tuple[str, int]]) -> None:
        assert load.plugin(guest).cluster_events == events

    def test_are_not_asked_for_where_enqueue_is_not_enabled(self, load: Loader) -> None:
        assert load.plugin(delivers_events((1, 3), ending="unreachable"), ["filter"]).cluster_events == []

    def test_are_found_out_without_a_pod(self, load: Loader) -> None:
        """The first pod begins its cycle in the same guest."""
        plugin = load.plugin(delivers_events((1, 3)))
        assert filter_nodes(plugin, NODE_B).called == 1

    def test_of_a_guest_that_looks_for_nodes(self, load: Loader) -> None:
        """None is known when a plugin is made: it finds none, and that is no failure."""
        ask = f"(if {call(NODE, 0, 1, 512, 64)} (then unreachable))"
        guest = module(
            '(data (i32.const 64) "\\01\\00\\00\\00\\03\\00\\00\\00")',
            export("enqueue", ask, call(EVENTS, 64, 8)),
            uses=[NODE, EVENTS],
        )
        assert load.plugin(guest).cluster_events == [("Node", 3)]

    def test_are_kept_once(self, load: Loader) -> None:
        assert load.plugin(delivers_events(*[(1, 3)] * 300)).cluster_events == [("Node", 3)]

    def test_more_than_there_are_keep_the_plugin_from_being_made(self, load: Loader) -> None:
        with pytest.raises(GuestError) as caught:
            load.plugin(delivers_events(*((0, at) for at in range(257))))
        assert str(caught.value) == "enqueue: 257 cluster events were handed over, at most 256 are taken"

    def test_that_cannot_be_had_keep_the_plugin_from_being_made(self, load: Loader) -> None:
        with pytest.raises(GuestError) as caught:
            load.plugin(delivers_events((1, 3), ending="unreachable"))
        assert str(caught.value) == "enqueue: trap: unreachable in enqueue"


def test_a_call_that_ends_before_it_comes_to_a_node_names_none(
    engine: WasmtimeEngine, load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the one of the last call, which may be gone, and another node or none in its place."""
    start = engine.ticker.start

    def start_late(set_deadline: EpochDeadline, deadline: float) -> None:
        start(set_deadline, deadline)
        delay(5 * TICK_S)

    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", 0)
    at = world({f"node-{number}": b"N" for number in range(2_000)}, names=["node-1999"])
    plugin = load.plugin(module(export("removepod", "(i32.const 0)"), export("filter", "(i32.const 0)")))
    with plugin.guest(at.pod, at.nodes, "preempt") as (guest, deadline):
        guest.remove_pod(b"", at.nodes, deadline)
        at.node_table.replace({})
        at.node_table.replace({f"other-{number}": b"\xff" * 10_000 for number in range(10)})
        monkeypatch.setattr(engine.ticker, "start", start_late)
        with pytest.raises(GuestError) as caught:
            guest.filter(Nodes(at.node_table, ["other-9"]), time.monotonic())
    assert str(caught.value) == "filter: interrupted at its timeout of 30000 ms"


def test_exports_about_a_node_are_all_tried_here() -> None:
    assert {name for name, each in EXPORTS.items() if each.on_node} - {"filter", "score"} == STEPS.keys()


def test_a_call_about_a_node_that_came_later(load: Loader) -> None:
    """The node was not there when the guest was made, nor at Filter."""
    node_table = NodeTable()
    plugin = load.plugin(shows("reserve", NODE_NAME))
    for name in ("node-a", "node-b"):
        node_table.put([(name, b"N")])
        with plugin.guest(Pod("1", "default/pod", b""), Nodes(node_table, [name]), "bind") as (guest, deadline):
            guest.reserve(Nodes(node_table, [name]), deadline)
    assert load.logged() == ["node-a", "node-b"]
