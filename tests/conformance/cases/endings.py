"""Guests that end otherwise than by returning: traps and exits, in every export and at the start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.conformance.calls import NODE, calls, failed, one_by_one
from tests.conformance.case import Case
from tests.conformance.cases.status import DONE, where
from tests.conformance.guests import EXIT, WRITE, export, guest, only, tell, told
from tests.wasm_runtime.guest_modules import call
from tests.wasm_runtime.world import world
from wasm_runtime import Fault, abi
from wasm_runtime.engine import NodeResults

ARGS: Final = "wasi_snapshot_preview1/args_sizes_get"
CLOCK: Final = "wasi_snapshot_preview1/clock_time_get"
RANDOM: Final = "wasi_snapshot_preview1/random_get"
CONFIG: Final = "k8s.io/scheduler/get_config"

ENDINGS: Final = {
    "traps": ("unreachable", Fault.TRAP, "trap: unreachable in {function}"),
    "exits by 0": (call(EXIT, 0), Fault.EXIT, "the guest left by exit status 0"),
    "exits by 1": (call(EXIT, 1), Fault.EXIT, "the guest left by exit status 1"),
}

TRAPS: Final = {
    "(drop (i32.load (i32.const 65533)))": "memory out of bounds",
    "(i32.store offset=4294967295 (i32.const 4) (i32.const 0))": "memory out of bounds",
    "(memory.fill (i32.const -1) (i32.const 0) (i32.const 2))": "memory out of bounds",
    "(drop (i32.div_s (i32.const 1) (i32.const 0)))": "integer division by zero",
    "(drop (i32.rem_u (i32.const 1) (i32.const 0)))": "integer division by zero",
    "(drop (i32.div_s (i32.const -2147483648) (i32.const -1)))": "integer overflow",
    "(drop (i32.trunc_f32_s (f32.const inf)))": "integer overflow",
    "(drop (i32.trunc_f32_s (f32.const nan)))": "bad conversion to integer",
    "(drop (call_indirect $none (result i32) (i32.const 0)))": "indirect call to null",
    "(drop (call_indirect $none (result i32) (i32.const 1)))": "table out of bounds",
    "(drop (call_indirect $other (result i32) (i32.const 0)))": "bad signature",
}

COUNTS: Final = (
    "(global $calls (mut i32) (i32.const 0))"
    " (func $count (global.set $calls (i32.add (global.get $calls) (i32.const 1)))"
    f" {tell('(global.get $calls)')})"
)
"""Tells how often it was called in this instance."""


def _in_exports() -> Iterator[Case]:
    for name, entry in abi.EXPORTS.items():
        node = NODE if entry.on_node else ""
        for ending, (body, fault, message) in ENDINGS.items():
            said = failed(fault, f"{where(name)}: {message.format(function=name)}")
            if name == "enqueue":
                yield Case(f"enqueue {ending}", guest(only(name, body), uses=[EXIT]), calls(name), said)
                continue
            yield Case(
                f"{name} {ending}, and each time in a new instance",
                guest(COUNTS, only(name, "(call $count)", body), uses=[EXIT]),
                one_by_one([calls(name)] * 2),
                [said, said],
                [told(1, node=node)] * 2,
            )


def _starting(name: str, body: str, value: object) -> Case:
    """A guest whose start does something, and whose filter rejects if that is remembered."""
    return Case(
        name,
        guest(
            "(global $started (mut i32) (i32.const 0))",
            body.replace("BEGIN", "(global.set $started (i32.const 2))"),
            '(func (export "filter") (result i32) (global.get $started))',
            uses=[EXIT],
        ),
        calls("filter"),
        value,
    )


STARTED: Final = NodeResults(1, b"\x02", [], [""])


def _at_the_start() -> Iterator[Case]:
    for name in abi.START:
        begin = f'(func ${name} (export "{name}") BEGIN'
        yield _starting(f"{name} returns", f"{begin})", STARTED)
        yield _starting(
            f"{name} traps", f"{begin} unreachable)", failed(Fault.TRAP, f"{name}: trap: unreachable in {name}")
        )
        for status in (1, 42, 125):
            said = failed(Fault.EXIT, f"{name}: the guest left by exit status {status}")
            yield _starting(f"{name} exits by {status}", f"{begin} {call(EXIT, status)})", said)
        yield _starting(f"{name} exits by 0", f"{begin} {call(EXIT, 0)})", STARTED)
    early = "(start $early) (func $early BEGIN"
    yield _starting("the start section returns", f"{early})", STARTED)
    yield _starting(
        "the start section traps",
        f"{early} unreachable)",
        failed(Fault.TRAP, "instantiate: trap: unreachable in early"),
    )
    for status in (0, 1):
        said = failed(Fault.EXIT, f"instantiate: the guest left by exit status {status}")
        yield _starting(f"the start section exits by {status}", f"{early} {call(EXIT, status)})", said)
    yield _starting("the name of a start is something else", '(func (export "start") BEGIN)', DONE["filter"])
    first, second = abi.START
    both = f'(func (export "{second}") unreachable) (func (export "{first}") BEGIN)'
    yield _starting(f"{first} runs where there is {second} as well", both, STARTED)


EARLY: Final = {
    "asks for its arguments": (ARGS, call(ARGS, 0, 4), True),
    "asks for the time": (CLOCK, f"(call ${CLOCK} (i32.const 0) (i64.const 0) (i32.const 0))", True),
    "asks for random numbers": (RANDOM, call(RANDOM, 0, 4), False),
    "prints": (WRITE, call(WRITE, 1, 0, 0, 8), False),
    "asks for its configuration": (CONFIG, call(CONFIG, 0, 0), False),
}
"""What a start section may do: the import, the call, and whether the host is there already."""


def _early() -> Iterator[Case]:
    for what, (function, asked, is_there) in EARLY.items():
        trap = f"instantiate: trap: indirect call to null in {function} < early"
        yield Case(
            f"the start section {what}",
            guest(f"(start $early) (func $early (drop {asked}))", export("filter"), uses=[function]),
            calls("filter"),
            DONE["filter"] if is_there else failed(Fault.TRAP, trap),
        )


def _by_kind() -> Iterator[Case]:
    for body, kind in TRAPS.items():
        yield Case(
            f"filter traps by {body}",
            guest("(table $none 1 funcref) (table $other funcref (elem $other)) (func $other)", only("filter", body)),
            calls("filter"),
            failed(Fault.TRAP, f"{where('filter')}: trap: {kind} in filter"),
        )
    yield Case(
        "filter calls itself without end",
        guest('(func $filter (export "filter") (result i32) (i32.add (i32.const 1) (call $filter)))'),
        calls("filter"),
        failed(Fault.STACK, f"{where('filter')}: trap: stack overflow in {'filter < ' * 12}…"),
    )
    yield Case(
        "filter traps at the second of three nodes",
        guest(
            "(global $calls (mut i32) (i32.const 0))",
            export("filter", "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))", "(call $deep)"),
            "(func $deep (if (i32.eq (global.get $calls) (i32.const 2)) (then unreachable)))",
        ),
        calls("filter", at=world(dict.fromkeys(["node-a", "node-b", "node-c"], b"N"))),
        failed(Fault.TRAP, "filter of node node-b: trap: unreachable in deep < filter"),
    )


CASES = [*_in_exports(), *_at_the_start(), *_early(), *_by_kind()]
