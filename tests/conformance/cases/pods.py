"""Guests that keep pods: what they are told, when and in which order, and what comes of their failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.conformance.calls import Failed, failed
from tests.conformance.case import Case
from tests.conformance.cases.endings import COUNTS, ENDINGS
from tests.conformance.cases.residents import DOCUMENTS, NODE_NAMES, PASS, TELLS, keeper, lines
from tests.conformance.guests import BUFFER, NODE_NAME, PAGE, REASON, TEXT, WRITE, export, guest, resident, tell, told
from tests.conformance.stories import (
    Step,
    back,
    complete_pods,
    elsewhere,
    elsewhere_with_pods,
    filters,
    filters_late,
    maintain,
    put,
    put_pods,
    remove,
    remove_pods,
    story,
)
from tests.wasm_runtime.guest_modules import call
from wasm_runtime import Fault
from wasm_runtime.abi import NO_NODE, POD_STREAMS
from wasm_runtime.engine import GuestEvent, Log
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.pods.record_feed import MAX_BATCH_BYTES, MAX_RECORDS_PER_BATCH

RECORDS: Final = 131_072
"""Where a guest has the buffer for records."""
PAGES: Final = 6
SAID: Final = 32_768
"""Where it puts together what it tells of a pod."""
MAX_SAID: Final = 8
"""Bytes of an object that it tells."""

HAS_RECORDS: Final = "\n".join(
    [
        "(func $records (param $left i32) (param $sign i32) (local $at i32) (local $length i32)",
        f"(local.set $at (i32.const {RECORDS}))",
        "(loop $next",
        f"(i32.store8 (i32.const {SAID}) (local.get $sign))",
        f"(i32.store8 (i32.const {SAID + 1}) (select",
        "  (i32.const 45)",
        "  (i32.add (i32.const 48) (i32.load offset=4 (local.get $at)))",
        f"  (i32.eq (i32.load offset=4 (local.get $at)) (i32.const {NO_NODE}))))",
        f"(i32.store8 (i32.const {SAID + 2}) (i32.add (i32.const 48) (i32.load offset=8 (local.get $at))))",
        "(local.set $length (i32.load offset=12 (local.get $at)))",
        f"(memory.copy (i32.const {SAID + 3}) (i32.add (local.get $at) (i32.const 16)) (i32.const {MAX_SAID}))",
        f"(call $tell (i32.load (local.get $at)) (i32.const {SAID}) (i32.add (i32.const 3)",
        f"  (select (local.get $length) (i32.const {MAX_SAID})",
        f"    (i32.lt_u (local.get $length) (i32.const {MAX_SAID})))))",
        "(local.set $at (i32.add (i32.add (local.get $at) (i32.const 16))",
        "  (i32.and (i32.add (local.get $length) (i32.const 7)) (i32.const -8))))",
        "(br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))",
    ]
)
"""Tells of each record the pod's number with a sign, the node's number (`-` for none), the state and the object."""

SIGNS: Final = {"podschanged": "@", "pendingpodschanged": "?"}


def _told(name: str) -> str:
    return resident(name, f"(call $records (local.get $n) (i32.const {ord(SIGNS[name])}))")


TAKES: Final = f"{HAS_RECORDS} {resident('podbuffer', value=RECORDS)}"
ON_NODES: Final = f"{TAKES} {TELLS} {_told('podschanged')}"
PENDING: Final = f"{TAKES} {_told('pendingpodschanged')}"
BOTH: Final = f"{ON_NODES} {_told('pendingpodschanged')}"

A: Final = {"node-a": "A"}
B: Final = {"node-b": "B"}
NODES: Final = ("0+node-a=A", "1+node-b=B")
ASK: Final = filters("node-b")


def on(node: str, text: str = "P", *, is_tentative: bool = False) -> ResidentPod:
    """A pod on a node, or on none where that is empty."""
    return ResidentPod(node, text.encode(), is_tentative)


X: Final = {"x": on("node-a", "X")}
Y: Final = {"y": on("node-b", "Y")}
WAITS: Final = {"w": on("", "W")}
XY: Final = ("0@01X", "1@11Y")


def _lines(*said: str) -> list[Log | GuestEvent]:
    """What a guest tells, each of a pod as in `3@01X` or `3?-1X`, or of a node as in `3+node-a=A`."""
    return [line for each in said for line in _line(each)]


def _line(said: str) -> list[Log | GuestEvent]:
    for sign in SIGNS.values():
        number, found, rest = said.partition(sign)
        if found:
            return [told(int(number), sign + rest)]
    return lines(said)


def _case(
    name: str,
    steps: Sequence[Step],
    *said: str,
    does: str = ON_NODES,
    value: Sequence[object] | None = None,
    slack: int | None = None,
    **more: Any,
) -> Case:
    """A story and what the guest tells meanwhile. Unless a value is given, each `ASK` passes its node."""
    passed = [PASS for step in steps if step is ASK] if value is None else list(value)
    return Case(
        name, keeper(does, export("filter"), pages=PAGES), story(*steps, slack=slack), passed, _lines(*said), **more
    )


def _changes() -> Iterator[Case]:
    there = [put(A | B), put_pods(X | Y), ASK]
    said = (*NODES, *XY)
    yield _case("pods are new", there, *said)
    yield _case("pods are as before", [*there, put_pods(X | Y), ASK], *said)
    yield _case("pods are there from the start", [ASK], *said, nodes=A | B, pods=X | Y)
    yield _case("an object changes", [*there, put_pods({"y": on("node-b", "new")}), ASK], *said, "1@11new")
    yield _case("a pod moves", [*there, put_pods({"y": on("node-a", "Y")}), ASK], *said, "1@01")
    yield _case("a pod moves as it changes", [*there, put_pods({"y": on("node-a", "new")}), ASK], *said, "1@01new")
    tentative = put_pods({"x": on("node-a", "X", is_tentative=True)})
    yield _case(
        "a pod is expected, and comes",
        [put(A | B), tentative, ASK, put_pods(X), ASK],
        *(*NODES, "0@02X", "0@01"),
    )
    yield _case(
        "a pod is expected, and does not come",
        [put(A | B), tentative, ASK, remove_pods("x"), ASK],
        *(*NODES, "0@02X", "0@-0"),
    )
    yield _case("pods are gone", [*there, remove_pods("x", "y"), ASK], *said, "0@-0", "1@-0")
    yield _case("a pod was there between two calls", [*there, put_pods({"z": X["x"]}), remove_pods("z"), ASK], *said)
    yield _case(
        "a pod's number is another's at once",
        [*there, remove_pods("x"), put_pods({"z": on("node-b", "Z")}), ASK],
        *(*said, "0@11Z"),
    )
    yield _case(
        "a pod's number is another's with the same object",
        [*there, remove_pods("x"), put_pods({"z": on("node-b", "X")}), ASK],
        *(*said, "0@11X"),
    )
    yield _case(
        "a pod is back after a call",
        [*there, remove_pods("x"), ASK, put_pods(X), ASK],
        *(*said, "0@-0", "0@01X"),
    )
    yield _case(
        "pods and nodes change, and nodes come first",
        [*there, put_pods({"x": on("node-c", "X")}), put({"node-c": "C"}), remove("node-a"), ASK],
        *(*said, "0-", "2+node-c=C", "0@21"),
    )


def _places() -> Iterator[Case]:
    lost = put_pods({"x": on("lost", "X")})
    yield _case("on a node that is not known", [put(B), lost, ASK], "0+node-b=B", "0@11X")
    yield _case(
        "on a node that comes later",
        [put(B), lost, ASK, put({"lost": "L"}), ASK],
        *("0+node-b=B", "0@11X", "1+lost=L"),
    )
    yield _case(
        "on a node that goes and comes back, and keeps its number",
        [put(A | B), put_pods(X), ASK, remove("node-a"), ASK, put({"node-c": "C"}), put(A), ASK],
        *(*NODES, "0@01X", "0-", "0+node-a=A", "2+node-c=C"),
        slack=-4,
    )
    yield _case(
        "on a node whose number is another's once the pod is gone",
        [put(A | B), put_pods(X), ASK, remove("node-a"), remove_pods("x"), put(B), put({"node-c": "C"}), ASK],
        *(*NODES, "0@01X", "0-", "0+node-c=C", "0@-0"),
        slack=-3,
    )
    yield _case(
        "another cluster",
        [put(A | B), put_pods(X | Y), ASK, elsewhere_with_pods(A | B, {"z": on("node-b", "Y")}), ASK],
        *(*NODES, *XY, "0@11Y", "1@-0"),
    )
    yield _case(
        "another cluster without pods, and back",
        [put(A | B), put_pods(X | Y), ASK, elsewhere(A | B), ASK, back, ASK],
        *(*NODES, *XY, "0@-0", "1@-0", *XY),
    )
    yield _case(
        "another cluster that is left before it was told of",
        [put(A | B), put_pods(X), ASK, elsewhere_with_pods(A, Y), back, ASK],
        *(*NODES, "0@01X"),
    )


def _pending() -> Iterator[Case]:
    yield _case(
        "pods without a node are not of those on nodes", [put(A | B), put_pods(WAITS | X), ASK], *NODES, "1@01X"
    )
    yield _case("pods without a node, alone", [put(A | B), put_pods(WAITS | X), ASK], "0?-1W", does=PENDING)
    yield _case(
        "a pod without a node is expected nowhere",
        [put(B), put_pods({"w": on("", "W", is_tentative=True)}), ASK],
        "0?-1W",
        does=PENDING,
    )
    came = put_pods({"w": on("node-b", "W")})
    yield _case(
        "a pod gets a node, and is gone", [put(B), put_pods(WAITS), ASK, came, ASK], "0?-1W", "0?-0", does=PENDING
    )
    yield _case(
        "a pod gets a node, and is told from one to the other",
        [put(B), put_pods(WAITS), ASK, came, ASK, put_pods(WAITS), ASK],
        *("0+node-b=B", "0?-1W", "0@01W", "0?-0", "0@-0", "0?-1W"),
        does=BOTH,
    )
    yield _case(
        "the number of a pod that is gone is another's, in each way",
        [
            put(B),
            put_pods(WAITS | Y),
            ASK,
            remove_pods("w", "y"),
            put_pods({"v": on("", "V"), "z": on("node-b", "Z")}),
            ASK,
        ],
        *("0+node-b=B", "1@01Y", "0?-1W", "0@01Z", "1@-0", "0?-0", "1?-1V"),
        does=BOTH,
    )
    yield _case("none of it", [put(A | B), put_pods(WAITS | X), ASK, remove_pods("x"), ASK], *NODES, does=TELLS)


MORE: Final = MAX_RECORDS_PER_BATCH + 2
MANY: Final = {f"pod-{at}": on("node-b", "P") for at in range(MORE)}
MANY_LINES: Final = [f"{at}@01P" for at in range(MORE)]
LONG: Final = {name: on("node-b", "L" * size) for name, size in (("a", 40_000), ("b", 40_000), ("c", 70_000), ("d", 1))}
CALLS: Final = resident("podschanged", tell("(local.get $n)"))
"""Tells of how many records it was told."""


def _none() -> Iterator[Case]:
    takes = f"{TAKES} {resident('nodechanged')} {resident('noderemoved')} {CALLS}"
    waits = resident("pendingpodschanged", tell("(local.get $n)"))
    for name, does, steps, said in (
        ("there are no pods, which is told once", takes, [put(B), complete_pods, ASK, ASK], [0]),
        ("there are no pods yet", takes, [put(B), complete_pods, put_pods(Y), ASK, remove_pods("y"), ASK], [1, 1]),
        ("pods come once there are none", takes, [put(B), complete_pods, ASK, put_pods(Y), ASK], [0, 1]),
        ("there are no pods, as far as is known", takes, [put(B), ASK], []),
        ("there are no pods of one kind", takes + waits, [put(B), put_pods(Y), complete_pods, ASK, ASK], [1, 0]),
        ("there are no pods, and some wait", takes + waits, [put(B), put_pods(WAITS), complete_pods, ASK], [0, 1]),
        ("there are no pods in another cluster", takes, [put(B), complete_pods, ASK, elsewhere(B), ASK], [0]),
    ):
        guest_ = keeper(does, export("filter"), pages=PAGES)
        yield Case(name, guest_, story(*steps), [PASS for step in steps if step is ASK], [told(each) for each in said])


def _late(known: int, count: int, stream: str = "podschanged") -> Failed:
    return failed(Fault.BUSY, f"{stream}: its time was over while it learned of pods: {known} of {count} are told")


def _batches() -> Iterator[Case]:
    late, plain = filters_late("node-b"), f"{TAKES} {resident('nodechanged')} {resident('noderemoved')}"
    first, end = "0+node-b=B", [f"{at}@-0" for at in range(MORE)]
    yield _case("more than one call takes", [put(B), put_pods(MANY), ASK], first, *MANY_LINES)
    yield _case(
        "maintained, some at a time",
        [put(B), ASK, put_pods(MANY), maintain, maintain, ASK],
        *(first, *MANY_LINES),
        value=[PASS, True, False, PASS],
    )
    yield _case(
        "maintained, but for some",
        [put(B), put_pods(MANY), maintain, ASK, maintain],
        *(first, *MANY_LINES),
        value=[True, PASS, False],
    )
    yield _case(
        "a verb's time is over after some pods, and the next one's after all",
        [put(B), ASK, put_pods(MANY), late, late, ASK, remove_pods(*MANY), late, maintain, ASK],
        *(first, *MANY_LINES, *end),
        value=[PASS, _late(MAX_RECORDS_PER_BATCH, MORE), _late(MORE, MORE), PASS, _late(0, 2), False, PASS],
    )
    yield _case(
        "a verb's time is over after the pods on nodes, and before the others",
        [put(B), ASK, put_pods(WAITS | Y), late, ASK],
        *(first, "1@01Y", "0?-1W"),
        does=BOTH,
        value=[PASS, _late(1, 1), PASS],
    )
    yield Case(
        "records are at most so many, and so long",
        keeper(plain, CALLS, export("filter"), pages=PAGES),
        story(put(B), put_pods(MANY), ASK, put_pods(LONG), ASK),
        [PASS, PASS],
        [told(count) for count in (MAX_RECORDS_PER_BATCH, 2, 1, 1, 1, 1)],
    )
    half = MAX_BATCH_BYTES // 2 - 16
    yield Case(
        "records fill a call to its last byte",
        keeper(plain, CALLS, export("filter"), pages=PAGES),
        story(
            *(put(B), put_pods({"a": on("node-b", "L" * half), "b": on("node-b", "L" * half)}), ASK),
            *(put_pods({"a": on("node-b", "L" * half + "+"), "b": on("node-b", "M" * half)}), ASK),
        ),
        [PASS, PASS],
        [told(2), told(1), told(1)],
    )


def _buffers() -> Iterator[Case]:
    end = PAGES * PAGE
    wrong = {
        end: f"at {end}, there is no room in memory for 24 bytes of records",
        end - 16: f"at {end - 16}, there is no room in memory for 24 bytes of records",
        -8: "at 4294967288, there is no room in memory for 24 bytes of records",
        RECORDS + 4: f"at {RECORDS + 4}, which is no multiple of 8, 24 bytes of records cannot be written",
        -1: "at 4294967295, which is no multiple of 8, 24 bytes of records cannot be written",
    }
    others = (resident("nodechanged"), resident("noderemoved"), resident("podschanged", "unreachable"))
    for at, cause in wrong.items():
        said = Failed(Fault.RESULT, f"podbuffer: {cause}", fatal=True)
        yield Case(
            f"podbuffer says {at}, and each time in a new instance",
            keeper(*others, resident("podbuffer", value=at), export("filter"), pages=PAGES),
            story(put(B), put_pods(Y), ASK, ASK),
            [said, said],
        )
    yield Case(
        "podbuffer says where there is just room",
        keeper(
            *(resident("nodechanged"), resident("noderemoved"), resident("podbuffer", value=end - 24)),
            resident("podschanged", tell("(local.get $n)", end - 8, 1)),
            export("filter"),
            pages=PAGES,
        ),
        story(put(B), put_pods(Y), ASK),
        [PASS],
        [told(1, "Y")],
    )
    yield Case(
        "podbuffer has its memory grow",
        keeper(
            *(resident("nodechanged"), resident("noderemoved")),
            resident("podbuffer", tell("(local.get $n)"), "(drop (memory.grow (i32.const 2)))", value=end),
            resident("podschanged", tell("(local.get $n)", end + 16, 1)),
            export("filter"),
            pages=PAGES,
        ),
        story(put(B), put_pods({"y": on("node-b", "Y" * 70_000)}), ASK),
        [PASS],
        [told(70_016), told(1, "Y")],
    )


FAILING: Final[Mapping[str, str]] = {
    "podbuffer": "podschanged",
    "podschanged": "podschanged",
    "pendingpodschanged": "pendingpodschanged",
}
"""The exports that are called for pods, and for those of which stream."""


def _failing(name: str, ending: str) -> str:
    """A guest of which one export ends in that way; filter tells how often it was called."""
    needed = {"podbuffer", "nodechanged", "noderemoved", FAILING[name]} - {name}
    others = [resident(each, value=RECORDS if each == "podbuffer" else 0) for each in sorted(needed)]
    return keeper(COUNTS, *others, resident(name, ending), export("filter", "(call $count)"), pages=PAGES)


def _failures() -> Iterator[Case]:
    asked = told(1, node="node-b")
    for name, stream in FAILING.items():
        bad = put_pods(Y if POD_STREAMS[stream] else WAITS)
        for ending, (body, fault, message) in ENDINGS.items():
            said = failed(fault, f"{name}: {message.format(function=name)}")
            yield Case(
                f"{name} {ending} while it is maintained, and another instance takes its place",
                _failing(name, body),
                story(put(B), ASK, bad, maintain, remove_pods("y", "w"), ASK),
                [PASS, said, PASS],
                [asked, asked],
            )
            yield Case(
                f"{name} {ending} ahead of filter, and another instance takes its place",
                _failing(name, body),
                story(put(B), ASK, bad, ASK, remove_pods("y", "w"), ASK),
                [PASS, said, PASS],
                [asked, asked],
            )
            yield Case(
                f"{name} {ending} when the module is loaded",
                _failing(name, body),
                story(ASK),
                said,
                nodes=B,
                pods=Y | WAITS,
            )
    prints = f"(drop {call(WRITE, 1, TEXT + 256, 1, BUFFER)})"
    for name in FAILING:
        yield Case(
            f"{name} prints, and traps",
            _failing(name, f"{prints} unreachable"),
            story(put(B), put_pods(Y | WAITS), ASK),
            [failed(Fault.TRAP, f"{name}: trap: unreachable in {name}; the guest printed: -")],
        )

    yield Case(
        "podbuffer prints, and podschanged traps",
        keeper(
            *(resident("nodechanged"), resident("noderemoved"), resident("podbuffer", prints, value=RECORDS)),
            resident("podschanged", "unreachable"),
            export("filter"),
            pages=PAGES,
        ),
        story(put(B), put_pods(Y), ASK),
        [failed(Fault.TRAP, "podschanged: trap: unreachable in podschanged")],
    )


def _looking() -> Iterator[Case]:
    asked = " ".join(tell(call(each, BUFFER, 64)) for each in (*DOCUMENTS, NODE_NAME))
    others = [resident("nodechanged"), resident("noderemoved")]
    yield Case(
        "documents have no bytes where a guest is told of pods, and there is no current node",
        guest(
            *others,
            resident("podbuffer", asked, value=RECORDS),
            *(resident(each, asked) for each in POD_STREAMS),
            export("filter"),
            uses=[*DOCUMENTS, NODE_NAME],
            pages=PAGES,
        ),
        story(put(B), put_pods(Y | WAITS), ASK),
        [PASS],
        [told(0)] * (4 * (len(DOCUMENTS) + 1)),
    )
    says = (call(REASON, TEXT, 1), call(NODE_NAMES, TEXT + 64, len("prefilter") + 1))
    yield Case(
        "what is handed over meanwhile comes to nothing",
        keeper(
            *others,
            resident("podbuffer", *says, value=RECORDS),
            *(resident(each, *says) for each in POD_STREAMS),
            export("prefilter"),
            export("filter", code=2),
            pages=PAGES,
        ),
        story(put(B), put_pods(Y | WAITS), ASK),
        [PASS._replace(codes=b"\x02", reasons=[""])],
    )


CASES = [*_changes(), *_places(), *_pending(), *_none(), *_batches(), *_buffers(), *_failures(), *_looking()]
