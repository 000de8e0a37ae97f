"""Nodes that only a request has: a guest gets their objects in the calls for that request, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.conformance.calls import failed
from tests.conformance.case import Case
from tests.conformance.cases.names import ROOM
from tests.conformance.guests import (
    BUFFER,
    KEEPS,
    NODE_NAME,
    NODE_OBJECT,
    NUMBERS,
    TEXT,
    export,
    guest,
    resident,
    tell,
    tells,
    told,
)
from tests.conformance.stories import Step, elsewhere, filters, idle, maintain, put, remove, scores, story
from tests.wasm_runtime.guest_modules import call
from wasm_runtime import Fault
from wasm_runtime.engine import NodeResults

NODE_LIST: Final = "k8s.io/api/nodeList"
IMAGE_STATES: Final = "k8s.io/scheduler/nodeImageStates"

A: Final = {"node-a": "AAA"}
C: Final = {"node-c": "C"}
CARRIED: Final = {"node-b": "BB"}

SHOWS: Final = " ".join(
    (
        f"(local.set $name {call(NODE_NAME, 0, 64)})",
        f"(memory.fill (i32.const {BUFFER}) (i32.const {ord('*')}) (i32.const 4))",
        tell(call(NODE_OBJECT, 0, "(local.get $name)", BUFFER, ROOM), BUFFER, 4),
    )
)
"""Tells the object of the current node."""

FILTER: Final = f'(func $filter (export "filter") (result i32) (local $name i32) {SHOWS} (i32.const 0))'
SCORE: Final = f'(func $score (export "score") (result i64) (local $name i32) {SHOWS} (i64.const 0))'
USES: Final = (NODE_NAME, NODE_OBJECT)


def _passed(count: int) -> NodeResults:
    return NodeResults(count, b"", [], [])


def _case(
    name: str,
    steps: tuple[Step, ...],
    value: object,
    shown: Mapping[str, str] | list[tuple[str, str]],
    **settings: int,
) -> Case:
    """A guest that shows each node."""
    lines = list(shown.items()) if isinstance(shown, Mapping) else shown
    journal = [told(len(text), text.ljust(4, "*"), node) for node, text in lines]
    return Case(name, guest(FILTER, SCORE, uses=USES), story(*steps), value, journal, settings=settings)


def _objects() -> Iterator[Case]:
    yield _case(
        "filter sees one between known ones",
        (put(A | C), filters("node-a", "node-b", "node-c", carries=CARRIED)),
        [_passed(3)],
        {"node-a": "AAA", "node-b": "BB", "node-c": "C"},
    )
    yield _case(
        "score sees one between known ones",
        (put(A | C), scores("node-c", "node-b", "node-a", carries=CARRIED)),
        [[0] * 3],
        {"node-c": "C", "node-b": "BB", "node-a": "AAA"},
    )
    yield _case(
        "it is gone with the next request",
        (put(A), filters("node-b", carries=CARRIED), filters("node-b", "node-a")),
        [_passed(1), _passed(2)],
        [("node-b", "BB"), ("node-b", ""), ("node-a", "AAA")],
    )
    yield _case(
        "each request has its own",
        (put(A), filters("node-b", carries=CARRIED), filters("node-b", carries={"node-b": "B", "node-x": "X"})),
        [_passed(1), _passed(1)],
        [("node-b", "BB"), ("node-b", "B")],
    )
    yield _case(
        "one whose name the node table has",
        (put(A | {"node-b": "old"}), remove("node-b"), filters("node-b", carries=CARRIED), filters("node-b")),
        [_passed(1), _passed(1)],
        [("node-b", "BB"), ("node-b", "")],
    )
    yield _case(
        "it comes to the cluster afterwards",
        (put(A), filters("node-b", carries=CARRIED), put({"node-b": "B"}), filters("node-a", "node-b")),
        [_passed(1), _passed(2)],
        [("node-b", "BB"), ("node-a", "AAA"), ("node-b", "B")],
    )
    yield _case(
        "nodes come to the cluster between PreFilter and Filter",
        (put(A), filters("node-b", "node-a", carries=CARRIED, between=put(C | {"node-a": "A"})), filters("node-c")),
        [_passed(2), _passed(1)],
        [("node-b", "BB"), ("node-a", "A"), ("node-c", "C")],
    )
    many = {f"m-{at}": "M" for at in range(300)}
    yield _case(
        "many more than the node table has room for",
        (put(A), filters(*many, "node-a", carries=many), filters("m-7", "node-a")),
        [_passed(301), _passed(2)],
        [*many.items(), ("node-a", "AAA"), ("m-7", ""), ("node-a", "AAA")],
        output_limit=1 << 20,
    )
    large = "L" * 200_000
    yield Case(
        "a large one",
        guest(FILTER, uses=USES),
        story(put(A), filters("node-b", "node-a", carries={"node-b": large})),
        [_passed(2)],
        [told(len(large), "****", "node-b"), told(3, "AAA*", "node-a")],
    )
    yield _case(
        "the cluster has no node at all",
        (filters("node-b", carries=CARRIED),),
        [_passed(1)],
        {"node-b": "BB"},
    )
    yield _case(
        "another cluster takes the place of this one",
        (put(A), filters("node-b", carries=CARRIED), elsewhere(C), filters("node-b", "node-c", carries=CARRIED)),
        [_passed(1), _passed(2)],
        [("node-b", "BB"), ("node-b", "BB"), ("node-c", "C")],
    )


def _by_name() -> Iterator[Case]:
    asks = tells(NODE_OBJECT, TEXT, 6, BUFFER, ROOM, shown=4)
    yield Case(
        "PreFilter gets its object by name",
        guest(export("prefilter", asks), export("filter"), uses=[NODE_OBJECT], data={TEXT: "node-b"}),
        story(put(A), filters("node-a", "node-b", carries=CARRIED), filters("node-a")),
        [_passed(2), _passed(1)],
        [told(2, "BB**"), told(0, "****")],
    )
    yield Case(
        "Filter of another node gets its object by name",
        guest(export("filter", asks), uses=[NODE_OBJECT], data={TEXT: "node-b"}),
        story(put(A | C), filters("node-a", "node-c", carries=CARRIED | {"node-x": "X"})),
        [_passed(2)],
        [told(2, "BB**", "node-a"), told(2, "BB**", "node-c")],
    )
    yield Case(
        "known nodes are found by name beside it",
        guest(export("filter", asks), uses=[NODE_OBJECT], data={TEXT: "node-a"}),
        story(put(A | C), filters("node-b", carries=CARRIED)),
        [_passed(1)],
        [told(3, "AAA*", "node-b")],
    )
    yield Case(
        "it has no image states",
        guest(
            export("filter", tells(IMAGE_STATES, TEXT, 6, BUFFER, ROOM, shown=6)),
            uses=[IMAGE_STATES],
            data={TEXT: "node-b"},
        ),
        story(put(A), filters("node-b", carries=CARRIED), put({"node-b": "B"}), filters("node-b")),
        [_passed(1), _passed(1)],
        [told(4, "null**", "node-b"), told(2, "{}****", "node-b")],
    )


def _lists() -> Iterator[Case]:
    lists = tells(NODE_LIST, BUFFER, ROOM, shown=6)
    yield Case(
        "it is in no list of nodes",
        guest(export("filter", lists), uses=[NODE_LIST]),
        story(put(A), filters("node-b", carries=CARRIED), filters("node-a")),
        [_passed(1), _passed(1)],
        [told(5, "\x12\x03AAA*", "node-b"), told(5, "\x12\x03AAA*", "node-a")],
    )
    yield Case(
        "the list of nodes is empty where only the request has one",
        guest(export("filter", lists), uses=[NODE_LIST]),
        story(filters("node-b", carries=CARRIED)),
        [_passed(1)],
        [told(0, "******", "node-b")],
    )
    passes = f"(i64.store (i32.const {NUMBERS}) (i64.const 0))"
    yield Case(
        "a guest of lists judges node by node, and by list afterwards",
        guest(KEEPS, resident("filternodes", tell("(local.get $n)"), passes), FILTER, uses=USES),
        story(put(A | C), filters("node-a", "node-b", carries=CARRIED), filters("node-a", "node-c")),
        [_passed(2), _passed(2)],
        [told(3, "AAA*", "node-a"), told(2, "BB**", "node-b"), told(2)],
    )
    yield Case(
        "a guest that keeps nodes is not told of it, neither that it is there nor that it is gone",
        guest(
            resident("nodechanged", tell("(local.get $n)", TEXT, 1)),
            resident("noderemoved", tell("(local.get $n)", TEXT + 1, 1)),
            export("filter"),
            data={TEXT: "+-"},
        ),
        story(
            put(A), filters("node-b", carries=CARRIED), idle, maintain, put(C), maintain, filters("node-a", "node-c")
        ),
        [_passed(1), False, False, _passed(2)],
        [told(0, "+", "node-a"), told(1, "+", "node-c")],
    )
    yield Case(
        "collectgarbage does not see it any more",
        guest(
            resident("collectgarbage", tells(NODE_OBJECT, TEXT, 6, BUFFER, ROOM, shown=4)),
            export("filter"),
            uses=[NODE_OBJECT],
            data={TEXT: "node-b"},
        ),
        story(put(A), filters("node-b", carries=CARRIED), idle, maintain),
        [_passed(1), False],
        [told(0, "****")],
    )


def _failures() -> Iterator[Case]:
    yield Case(
        "a trap names it",
        guest(export("filter", "unreachable")),
        story(put(A), filters("node-b", carries=CARRIED)),
        [failed(Fault.TRAP, "filter of node node-b: trap: unreachable in filter")],
    )


CASES = [*_objects(), *_by_name(), *_lists(), *_failures()]
