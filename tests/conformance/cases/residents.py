"""Guests that keep nodes: what they are told, when and in which order, and what comes of their failures."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.conformance.calls import Failed, failed
from tests.conformance.case import Case
from tests.conformance.cases.endings import COUNTS, ENDINGS
from tests.conformance.guests import (
    BUFFER,
    EXIT,
    NODE_NAME,
    NODE_OBJECT,
    REASON,
    TEXT,
    WRITE,
    export,
    guest,
    resident,
    tell,
    told,
)
from tests.conformance.stories import (
    Step,
    back,
    elsewhere,
    filters,
    filters_late,
    idle,
    maintain,
    put,
    remove,
    scores,
    story,
)
from tests.wasm_runtime.guest_modules import call
from wasm_runtime import Fault
from wasm_runtime.engine import GuestEvent, Log, NodeResults
from wasm_runtime.nodes.node_feed import MAX_NODES_PER_BATCH

NODE_NAMES: Final = "k8s.io/scheduler/result.node_names"

DOCUMENTS: Final = [
    "k8s.io/api/nodeList",
    *(f"k8s.io/scheduler/{name}" for name in ("filteredNodeList", "nodeToStatusMap", "nodeScoreList")),
]

AT: Final = 2048
"""Where a guest that is told of a node puts together what it tells."""

IS_CHANGED: Final = "\n".join(
    [
        "(func $told (param $n i32) (local $length i32)",
        f"(local.set $length (i32.add (i32.const 1) {call(NODE_NAME, AT + 1, 512)}))",
        f"(i32.store8 offset={AT} (local.get $length) (i32.const {ord('=')}))",
        f"(local.set $length (i32.add (i32.add (local.get $length) (i32.const 1)) (call ${NODE_OBJECT}",
        f"  (i32.const {AT + 1}) (i32.sub (local.get $length) (i32.const 1))",
        f"  (i32.add (local.get $length) (i32.const {AT + 1})) (i32.const 512))))",
        f"(call $tell (local.get $n) (i32.const {AT}) (local.get $length))",
        ")",
    ]
)
"""Tells `+`, the name, `=` and the object of a node, with its number."""

IS_REMOVED: Final = "\n".join(
    [
        "(func $gone (param $n i32) (local $length i32)",
        f"(local.set $length (i32.add (i32.const 1) {call(NODE_NAME, TEXT + 1, 512)}))",
        f"(call $tell (local.get $n) (i32.const {TEXT}) (local.get $length))",
        ")",
    ]
)
"""Tells `-` with the number of a node, and the node's name if there were one."""

TELLS: Final = (
    f"{IS_CHANGED} {IS_REMOVED} {resident('nodechanged', '(call $told (local.get $n))')}"
    f" {resident('noderemoved', '(call $gone (local.get $n))')}"
)

BEGINS: Final = export("prefilter", tell("(i32.const 0)", TEXT + 64, len("prefilter")))
COLLECTS: Final = resident("collectgarbage", tell("(i32.const 0)", TEXT + 128, len("garbage")))
DATA: Final[Mapping[int, str | bytes]] = {
    AT: "+",
    TEXT: "-",
    TEXT + 64: "prefilter",
    TEXT + 128: "garbage",
    TEXT + 192: "node-anode-b",
    TEXT + 256: struct.pack("<II", TEXT, 1),
}

A: Final = {"node-a": "A"}
B: Final = {"node-b": "B"}
C: Final = {"node-c": "C"}
ASK: Final = filters("node-b")
PASS: Final = NodeResults(1, b"", [], [])


def keeper(*fields: str, pages: int = 1) -> str:
    """A guest that tells what it is told, and what else it does."""
    return guest(*fields, uses=[NODE_NAME, NODE_OBJECT, REASON, EXIT, WRITE, NODE_NAMES], data=DATA, pages=pages)


def lines(*said: str) -> list[Log | GuestEvent]:
    """What such a guest tells, each as in `3+node-a=A`, `3-`, or a word alone."""
    return [_line(line) for line in said]


def _line(line: str) -> Log:
    number, sign, rest = line.partition("+")
    if sign:
        return told(int(number), f"+{rest}", node=rest.partition("=")[0])
    return told(int(line[:-1]), "-") if line.endswith("-") else told(0, line)


def _case(
    name: str,
    steps: Sequence[Step],
    *said: str,
    does: Sequence[str] = (TELLS, export("filter")),
    value: Sequence[object] | None = None,
    slack: int | None = None,
    **more: Any,
) -> Case:
    """A story and what the guest tells meanwhile. Unless a value is given, each `ASK` passes its node."""
    passed = [PASS for step in steps if step is ASK] if value is None else list(value)
    return Case(name, keeper(*does), story(*steps, slack=slack), passed, lines(*said), **more)


THREE: Final = ("0+node-a=A", "1+node-b=B", "2+node-c=C")


def _changes() -> Iterator[Case]:
    yield _case("nodes are new", [put(A | B), ASK], *THREE[:2])
    yield _case("nodes have changed", [put(A | B | C), ASK, put({"node-b": "X"}), ASK], *THREE, "1+node-b=X")
    yield _case("nodes are as before", [put(A | B), ASK, put(A | B), ASK], *THREE[:2])
    yield _case("a node changes, and changes back", [put(A | B), ASK, put({"node-a": "X"}), put(A), ASK], *THREE[:2])
    yield _case("nodes are gone", [put(A | B | C), ASK, remove("node-a", "node-c"), ASK], *THREE, "0-", "2-")
    yield _case("a node was there between two calls", [put(A | B), ASK, put(C), remove("node-c"), ASK], *THREE[:2])
    yield _case("a node was gone between two calls", [put(A | B), ASK, remove("node-a"), put(A), ASK], *THREE[:2])
    yield _case(
        "a node is back as another one",
        [put(A | B), ASK, remove("node-a"), put({"node-a": "X"}), ASK],
        *(*THREE[:2], "0+node-a=X"),
    )
    yield _case(
        "a node is back after a call",
        [put(A | B), ASK, remove("node-a"), ASK, put(A), ASK],
        *(*THREE[:2], "0-", "0+node-a=A"),
    )
    yield _case(
        "those that are gone come first",
        [put(A | B | C), ASK, put({"node-d": "D", "node-b": "X"}), remove("node-a", "node-c"), ASK],
        *(*THREE, "0-", "2-", "1+node-b=X", "3+node-d=D"),
    )
    some = filters("node-a", "unknown", "node-b", "other")
    yield _case("names without an object are nothing", [put(A | B), some], *THREE[:2], value=[PASS._replace(called=4)])
    yield _case("a name gets an object", [put(A), ASK, put(B), ASK], *THREE[:2])
    yield _case("a name is all that is known", [ASK, ASK])


def _places() -> Iterator[Case]:
    yield _case(
        "another cluster",
        [put(A | B | C), ASK, elsewhere({"node-a": "A", "node-b": "X"}), ASK],
        *(*THREE, "2-", "1+node-b=X"),
    )
    yield _case(
        "another cluster that has other nodes there, and back",
        [put(A | B), ASK, elsewhere(B | A), ASK, back, ASK],
        *(*THREE[:2], "0-", "1-", "0+node-b=B", "1+node-a=A", "0-", "1-", *THREE[:2]),
    )
    yield _case("another cluster without nodes", [put(A | B), ASK, elsewhere({}), ASK], *THREE[:2], "1-", "0-")
    yield _case(
        "another cluster that is left before it was told of",
        [put(A | B), ASK, elsewhere(C), back, ASK],
        *THREE[:2],
    )
    yield _case(
        "a new epoch in which a number is another node's",
        [put(A | B), ASK, remove("node-a"), ASK, put(C), put({"node-b": "X"}), ASK],
        *(*THREE[:2], "0-", "0+node-c=C", "1+node-b=X"),
        slack=-3,
    )
    yield _case(
        "a new epoch in which a number is another node's at once",
        [put(A | B), ASK, remove("node-a"), put(C), ASK],
        *(*THREE[:2], "0-", "0+node-c=C"),
        slack=-3,
    )
    yield _case(
        "a new epoch in which a node is back at its number",
        [put(A | B), ASK, remove("node-a"), put(A), ASK],
        *THREE[:2],
        slack=-3,
    )
    yield _case(
        "a new epoch in which a node is back at another number",
        [put(A | B), ASK, remove("node-a"), put(C), put(A), ASK],
        *(*THREE[:2], "0-", "0+node-c=C", "2+node-a=A"),
        slack=-3,
    )


def _cycles() -> Iterator[Case]:
    begins = (TELLS, BEGINS, export("filter"), export("score"))
    yield _case(
        "nodes change between two verbs for a pod, whose cycle goes on",
        [put(A | B), ASK, put(C), scores("node-b")],
        *(*THREE[:2], "prefilter", THREE[2]),
        does=begins,
        value=[PASS, [0]],
    )
    yield _case(
        "nodes change between PreFilter and Filter",
        [put(A | B), filters("node-b", between=put(C))],
        *(*THREE[:2], "prefilter", THREE[2]),
        does=begins,
        value=[PASS],
    )
    yield _case(
        "another pod",
        [put(A | B), ASK, filters("node-a", uid="2")],
        *(*THREE[:2], "prefilter", "prefilter"),
        does=begins,
        value=[PASS, PASS],
    )
    other = (TELLS, export("enqueue"), export("filter"))
    yield _case("nodes are there from the start", [ASK], *THREE[:2], nodes=A | B)
    yield _case("nodes are there from the start, and before enqueue", [ASK], *THREE[:2], does=other, nodes=A | B)


MANY: Final = {f"node-{at}": "N" for at in range(MAX_NODES_PER_BATCH + 2)}
MANY_LINES: Final = [f"{at}+{name}=N" for at, name in enumerate(MANY)]


def _tending() -> Iterator[Case]:
    yield _case(
        "maintained, all at once", [put(A | B), maintain, maintain, ASK], *THREE[:2], value=[False, False, PASS]
    )
    some = filters("node-0")
    yield _case(
        "maintained, some at a time", [put(MANY), maintain, maintain, some], *MANY_LINES, value=[True, False, PASS]
    )
    yield _case(
        "maintained, but for some", [put(MANY), maintain, some, maintain], *MANY_LINES, value=[True, PASS, False]
    )
    gone = list(MANY)[:10]
    changed = dict.fromkeys(list(MANY)[10:], "X")
    yield _case(
        "maintained, first of those that are gone",
        [
            put(MANY),
            some,
            remove(*gone),
            put(changed | {f"more-{at}": "N" for at in range(8)}),
            maintain,
            maintain,
            filters("node-10"),
        ],
        *MANY_LINES,
        *(f"{at}-" for at in range(10)),
        *(f"{at}+node-{at}=X" for at in range(10, len(MANY))),
        *(f"{len(MANY) + at}+more-{at}=N" for at in range(8)),
        value=[PASS, True, False, PASS],
    )
    yield _case(
        "maintained, and what has changed since then",
        [put(MANY), maintain, remove("node-0"), put({"node-1": "X", "node-17": "X"}), maintain, filters("node-1")],
        *(*MANY_LINES[:16], "0-", "16+node-16=N", "1+node-1=X", "17+node-17=X"),
        value=[True, False, PASS],
    )
    yield _case(
        "maintained, keeping nothing", [put(A | B), maintain, ASK], does=[export("filter")], value=[False, PASS]
    )
    rounds = [put(A | B), idle, maintain, ASK, idle, maintain, maintain, ASK, ASK, idle, maintain, ASK]
    value = [False, PASS, False, False, PASS, PASS, False, PASS]
    yield _case(
        "garbage is collected once after calls",
        rounds,
        *(*THREE[:2], "garbage", "garbage"),
        does=[TELLS, COLLECTS, export("filter")],
        value=value,
    )
    yield _case(
        "garbage of a guest that keeps no nodes",
        rounds,
        *("garbage", "garbage"),
        does=[COLLECTS, export("filter")],
        value=value,
    )


def _late(told: int, known: int) -> Failed:
    cause = f"its time was over while it learned of nodes: {told} of {known} are told"
    return failed(Fault.BUSY, f"nodechanged: {cause}")


def _without_time() -> Iterator[Case]:
    """Whatever becomes of a verb, the guest goes on from where it was."""
    late, some = filters_late("node-0"), filters("node-0")
    yield _case(
        "a verb's time is over after some nodes, and the next one's after all",
        [put(MANY), late, late, some],
        *MANY_LINES,
        value=[_late(MAX_NODES_PER_BATCH, len(MANY)), _late(len(MANY), len(MANY)), PASS],
    )
    yield _case(
        "a verb's time is over after some nodes, and the rest is told meanwhile",
        [put(MANY), late, maintain, some],
        *MANY_LINES,
        value=[_late(MAX_NODES_PER_BATCH, len(MANY)), False, PASS],
    )
    yield _case(
        "a verb's time is over after some nodes, of which others are gone",
        [put(MANY), some, remove(*list(MANY)[1:]), put({"node-0": "X"} | A), late, some],
        *MANY_LINES,
        *(f"{at}-" for at in range(1, len(MANY))),
        *("0+node-0=X", f"{len(MANY)}+node-a=A"),
        value=[PASS, _late(0, 3), PASS],
    )


def _looking() -> Iterator[Case]:
    lengths = " ".join(tell(call(each, BUFFER, 64)) for each in DOCUMENTS)
    yield Case(
        "documents have no bytes where a guest is told of nodes, or collects garbage",
        guest(*(resident(each, lengths) for each in FAILING), export("filter"), uses=DOCUMENTS),
        story(put(A | B), ASK, remove("node-a"), ASK, idle, maintain, ASK),
        [PASS, PASS, False, PASS],
        [told(0, node=node) for node in ("node-a", "node-b", "", "") for _ in DOCUMENTS],
    )
    asked = (tell(call(NODE_OBJECT, TEXT + 192 + at, 6, BUFFER, 1), BUFFER, 1) for at in (0, 6))
    yield Case(
        "noderemoved asks for the node that is gone, and for another one",
        keeper(resident("nodechanged"), resident("noderemoved", *asked), export("filter")),
        story(put(A | B), ASK, put({"node-b": "X"}), remove("node-a"), ASK),
        [PASS, PASS],
        [told(0, "\0"), told(1, "X")],
    )
    says = (call(REASON, 16_384, 16_384), call(NODE_NAMES, TEXT + 64, len("prefilter") + 1))
    yield _case(
        "what is handed over meanwhile comes to nothing",
        [put(MANY | B), ASK, put(dict.fromkeys(MANY, "X")), ASK],
        *(*MANY_LINES, f"{len(MANY)}+node-b=B", *(line.replace("=N", "=X") for line in MANY_LINES)),
        does=[
            IS_CHANGED,
            IS_REMOVED,
            resident("nodechanged", *says, "(call $told (local.get $n))"),
            resident("noderemoved", *says, "(call $gone (local.get $n))"),
            export("prefilter"),
            export("filter", code=2),
        ],
        value=[NodeResults(1, b"\x02", [], [""])] * 2,
    )


BAD: Final = {"node-a": "!"}
IS_BAD: Final = f"(i32.eq (i32.const {ord('!')}) (i32.load8_u (i32.const {BUFFER})))"

FAILING: Final[Mapping[str, tuple[str, list[Step], list[Step]]]] = {
    "nodechanged": ("nodechanged of node node-a", [put(BAD)], [put(A)]),
    "noderemoved": ("noderemoved", [remove("node-a")], []),
    "collectgarbage": ("collectgarbage", [idle], []),
}
"""How errors name the exports, what makes them fail in a guest that knows node-a and node-b, and what mends it."""


def _failing(name: str, ending: str) -> str:
    """A guest of which one export ends in that way if there is a bad node; filter tells how often it was called."""
    body = ending
    if name == "nodechanged":
        asked = f"(i32.const {AT}) {call(NODE_NAME, AT, 64)} (i32.const {BUFFER}) (i32.const 1)"
        body = f"(drop (call ${NODE_OBJECT} {asked})) (if {IS_BAD} (then {ending}))"
    others = [resident(each) for each in FAILING if each != name]
    return keeper(COUNTS, *others, resident(name, body), export("filter", "(call $count)"))


def _failures() -> Iterator[Case]:
    asked = told(1, node="node-b")
    for name, (where, breaks, mends) in FAILING.items():
        for ending, (body, fault, message) in ENDINGS.items():
            said = failed(fault, f"{where}: {message.format(function=name)}")
            bad = _failing(name, body)
            yield Case(
                f"{name} {ending} while it is maintained, and another instance takes its place",
                bad,
                story(put(A | B), ASK, *breaks, maintain, *mends, ASK),
                [PASS, said, PASS],
                [asked, asked],
            )
            if name != "collectgarbage":
                yield Case(
                    f"{name} {ending} ahead of filter, and another instance takes its place",
                    bad,
                    story(put(A | B), ASK, *breaks, ASK, *mends, ASK),
                    [PASS, said, PASS],
                    [asked, asked],
                )
    for ending, (body, fault, message) in ENDINGS.items():
        said = failed(fault, f"nodechanged of node node-a: {message.format(function='nodechanged')}")
        bad = _failing("nodechanged", body)
        yield Case(f"nodechanged {ending} when the module is loaded", bad, story(ASK), said, nodes=B | BAD)
        yield Case(f"nodechanged {ending} each time", bad, story(put(B | BAD), ASK, ASK), [said, said])
    prints = f"(drop {call(WRITE, 1, TEXT + 256, 1, BUFFER)})"
    yield Case(
        "nodechanged prints, and traps",
        keeper(resident("noderemoved"), resident("nodechanged", prints, "unreachable"), export("filter")),
        story(put(A), ASK),
        [failed(Fault.TRAP, "nodechanged of node node-a: trap: unreachable in nodechanged; the guest printed: -")],
    )


CASES = [*_changes(), *_places(), *_cycles(), *_tending(), *_without_time(), *_looking(), *_failures()]
