"""Lists of nodes that a guest judges by one call: what it finds there, what it answers, and how it fails."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tests.conformance.calls import POD, TARGET, Failed, failed
from tests.conformance.case import Case
from tests.conformance.cases.endings import COUNTS, ENDINGS
from tests.conformance.cases.limits import SIGNED
from tests.conformance.cases.status import CODES, REJECTIONS
from tests.conformance.guests import (
    BUFFER,
    CURRENT_POD,
    EXIT,
    KEEPS,
    LOG,
    NODE_NAME,
    NODE_OBJECT,
    NUMBERS,
    PAGE,
    REASON,
    TARGET_POD,
    TEXT,
    export,
    guest,
    resident,
    tell,
    tells,
    told,
)
from tests.conformance.stories import evicts, filters, idle, maintain, narrows, put, remove, scores, story
from tests.wasm_runtime.guest_modules import call
from wasm_runtime import Fault, abi
from wasm_runtime.driver.layout import REASON_LIMIT
from wasm_runtime.engine import MAX_LONG_REASONS, Log, NodeResults

NODE_NAMES: Final = "k8s.io/scheduler/result.node_names"
SCORES: Final = "k8s.io/scheduler/nodeScoreList"
NORMALIZED: Final = "k8s.io/scheduler/result.normalized_score_list"

NODES: Final = {"node-a": "A", "node-b": "B", "node-c": "C"}
THERE: Final = put(NODES)
ANSWERS: Final = 2048
"""Where a guest has the answers that it gives."""

NOT_HERE: Final = {name: export(name, "unreachable") for name in abi.LISTS}
"""The exports that are not called where lists are."""
NO_LISTS: Final = {each: resident(each, "unreachable") for each in abi.LISTS.values()}
"""The exports that are not called where nodes are judged by themselves."""
KEPT: Final = " ".join([resident("nodechanged"), resident("noderemoved")])


def _list(export_name: str, *body: str, code: int = 0) -> str:
    """An export for lists, and the one that it needs, which is not called."""
    point = next(point for point, its in abi.LISTS.items() if its == export_name)
    return NOT_HERE[point] + resident(export_name, *body, value=code)


def _answers(answers: Sequence[int], reasons: Iterable[str | bytes] = ()) -> str:
    """A guest that gives reasons, and these answers for as many nodes."""
    at, says = 16_384, []
    data: dict[int, str | bytes] = {ANSWERS: struct.pack(f"<{len(answers)}I", *answers)}
    for reason in reasons:
        data[at] = reason
        size = len(reason.encode() if isinstance(reason, str) else reason)
        says.append(call(REASON, at, size))
        at += size
    copy = f"(memory.copy (i32.const {NUMBERS}) (i32.const {ANSWERS}) (i32.shl (local.get $n) (i32.const 2)))"
    return guest(KEEPS, _list("filternodes", *says, copy), uses=[REASON], data=data, pages=8)


def _filtered(codes: list[int], *reasons: str) -> NodeResults:
    return NodeResults(len(codes), bytes(codes) if any(codes) else b"", [], list(reasons))


def _stored(*answers: int) -> Iterator[str]:
    """What writes answers for the first nodes."""
    for at, answer in enumerate(answers):
        yield f"(i32.store (i32.const {NUMBERS + 4 * at}) (i32.const {answer}))"


def _at(code: int, reason: int = 0) -> int:
    return code | reason << 8


def _looking() -> Iterator[Case]:
    numbers = " ".join(tell(f"(i32.load (i32.const {NUMBERS + 4 * at}))") for at in range(3))
    passes = f"(memory.fill (i32.const {NUMBERS}) (i32.const 0) (i32.const 12))"
    count = tell("(local.get $n)")
    yield Case(
        "numbers are in the order of the request",
        guest(
            KEPT,
            resident("nodebuffer", count, value=NUMBERS),
            _list("filternodes", count, numbers, passes),
        ),
        story(THERE, filters("node-c", "node-a", "node-b")),
        [_filtered([0, 0, 0])],
        [told(3), told(3), told(2), told(0), told(1)],
    )
    yield Case(
        "a node is asked about twice",
        guest(KEEPS, _list("filternodes", numbers, passes)),
        story(THERE, filters("node-b", "node-b", "node-a")),
        [_filtered([0, 0, 0])],
        [told(1), told(1), told(0)],
    )
    for name, step, value in (
        ("filternodes", filters("node-a"), _filtered([0])),
        ("scorenodes", scores("node-a"), [0]),
    ):
        yield Case(
            f"what can be seen in {name}",
            guest(
                KEEPS,
                _list(
                    name,
                    tells(NODE_NAME, BUFFER, 8, shown=8),
                    tells(TARGET_POD, BUFFER, 8, shown=8),
                    tells(CURRENT_POD, BUFFER, 8, shown=8),
                    tells(NODE_OBJECT, TEXT, 6, BUFFER, 8, shown=8),
                    passes,
                ),
                uses=[NODE_NAME, TARGET_POD, CURRENT_POD, NODE_OBJECT],
                data={TEXT: "node-b"},
            ),
            story(THERE, step),
            [value],
            [told(0, "*" * 8), told(0, "*" * 8), told(8, POD), told(1, "B" + "*" * 7)],
        )
    yield Case(
        "no nodes",
        guest(
            KEPT,
            resident("nodebuffer", count, value=NUMBERS),
            _list("filternodes", count),
            _list("scorenodes", count),
        ),
        story(THERE, filters(), scores()),
        [_filtered([]), []],
        [told(0)] * 4,
    )


def _codes() -> Iterator[Case]:
    reasons = ("the disk is full", "", "größe 🚀", "another zone")
    for code in sorted(REJECTIONS):
        name = CODES[code]
        for what, number, said in (
            ("no reason", 0, ""),
            ("the first reason", 1, reasons[0]),
            ("an empty reason", 2, ""),
            ("the third reason", 3, reasons[2]),
            ("the last reason", 4, reasons[3]),
            ("a number that no reason has", 5, ""),
            ("the largest number", 2**24 - 1, ""),
        ):
            yield Case(
                f"filternodes answers {name} with {what}",
                _answers([_at(code, number)], reasons),
                story(THERE, filters("node-a")),
                [_filtered([code], said)],
            )
    yield Case(
        "filternodes answers with reasons that nodes share",
        _answers([_at(2, 2), _at(0, 1), _at(3, 2), _at(6, 1), _at(2)], ["one", "two"]),
        story(put(NODES | {"node-d": "D", "node-e": "E"}), filters("node-e", "node-d", "node-c", "node-b", "node-a")),
        [_filtered([2, 0, 3, 6, 2], "two", "two", "one", "")],
    )
    yield Case(
        "filternodes answers Success and a reason, which means nothing",
        _answers([_at(0, 1), _at(0, 9)], ["one"]),
        story(THERE, filters("node-a", "node-b")),
        [_filtered([0, 0])],
    )
    yield Case(
        "filternodes answers for another list",
        _answers([_at(2, 1), _at(3), 0], ["one"]),
        story(THERE, filters("node-a", "node-b", "node-c"), filters("node-c", "node-b"), filters("node-a")),
        [_filtered([2, 3, 0], "one", ""), _filtered([2, 3], "one", ""), _filtered([2], "one")],
    )


def _intolerable(code: int, reason: str) -> Failed:
    if code == 1:
        return failed(Fault.STATUS, f"filter of node node-b: {reason or 'Error without a reason'}")
    said = f" ({reason})" if reason else ""
    allowed = "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending"
    return failed(
        Fault.RESULT, f"filter of node node-b: status code {CODES.get(code, code)}{said} is none of {allowed}"
    )


def _bad_codes() -> Iterator[Case]:
    for code in (1, 4, 5, 7, 31, 32, 33, 34, 128, 255):
        for reason in ("", "the disk is full"):
            yield Case(
                f"filternodes answers {code} for the second node {'with' if reason else 'without'} a reason",
                _answers([_at(2, 2), _at(code, 1 if reason else 0), _at(1, 2)], ["the disk is full", "other"]),
                story(THERE, filters("node-a", "node-b", "node-c")),
                [_intolerable(code, reason)],
            )


LEFT_OUT: Final = "(left out: the reasons of this call are longer than their limit)"
UNREADABLE: Final = "BUG: out of memory reading message"


def _many_reasons() -> Iterator[Case]:
    most = MAX_LONG_REASONS + 2
    texts = [f"reason {number}" for number in range(1, most + 3)]
    yield Case(
        "more reasons than there can be, for two nodes",
        _answers([_at(2, most), _at(2, most + 1)], texts),
        story(THERE, filters("node-a", "node-b")),
        [_filtered([2, 2], f"reason {most}", "")],
    )
    yield Case(
        "a reason that is too long",
        _answers([_at(2, 1), _at(3, 2)], ["x" * (REASON_LIMIT + 1), "y" * REASON_LIMIT]),
        story(THERE, filters("node-a", "node-b")),
        [_filtered([2, 3], "x" * REASON_LIMIT, "y" * REASON_LIMIT)],
    )
    long = [f"{number:02}".ljust(REASON_LIMIT, ".") for number in range(1, MAX_LONG_REASONS + 3)]
    yield Case(
        "reasons of which there is no room for the last",
        _answers([_at(2, MAX_LONG_REASONS), _at(2, MAX_LONG_REASONS + 1), _at(2, MAX_LONG_REASONS + 2)], long),
        story(THERE, filters("node-a", "node-b", "node-c")),
        [_filtered([2, 2, 2], long[MAX_LONG_REASONS - 1], LEFT_OUT, LEFT_OUT)],
    )
    says = [call(REASON, PAGE - 4, 5), call(REASON, TEXT, 2), call(REASON, -1, -1)]
    stores = " ".join(
        f"(i32.store (i32.const {NUMBERS + 4 * at}) (i32.const {_at(2, at + 1)}))" for at in range(len(says))
    )
    yield Case(
        "reasons that are not in memory",
        guest(KEEPS, _list("filternodes", *says, stores), uses=[REASON], data={TEXT: "hi"}),
        story(THERE, filters("node-a", "node-b", "node-c")),
        [_filtered([2, 2, 2], UNREADABLE, "hi", UNREADABLE)],
    )
    yield Case(
        "a reason that is no text",
        _answers([_at(2, 1)], [b"\xff."]),
        story(THERE, filters("node-a")),
        [_filtered([2], "\ufffd.")],
    )
    often = (
        "(local $i i32) (loop $again"
        f" {call(REASON, 16_384, REASON_LIMIT)} (local.set $i (i32.add (local.get $i) (i32.const 1)))"
        f" (br_if $again (i32.lt_u (local.get $i) (i32.const {2 * MAX_LONG_REASONS}))))"
    )
    buffer = resident("nodebuffer", often, value=NUMBERS)
    yield Case(
        "reasons of nodebuffer have no numbers, and take no room",
        guest(KEPT, buffer, _list("filternodes", call(REASON, TEXT, 3), stores), uses=[REASON], data={TEXT: "abc"}),
        story(THERE, filters("node-a", "node-b", "node-c")),
        [_filtered([2, 2, 2], "abc", "", "")],
    )
    yield Case(
        "a reason of nodebuffer is none of filternodes",
        guest(KEPT, buffer, _list("filternodes", code=1), uses=[REASON]),
        story(THERE, filters("node-a")),
        [failed(Fault.STATUS, "filternodes: Error without a reason")],
    )


STEPS: Final = {"filternodes": filters("node-a", "node-b"), "scorenodes": scores("node-a", "node-b")}
"""What has each export for lists called."""


def _failing_lists() -> Iterator[Case]:
    for name, step in STEPS.items():
        for code, word in CODES.items():
            if code == 0:
                continue
            for reason in ("", "the disk is full"):
                if code == 1:
                    said = failed(Fault.STATUS, f"{name}: {reason or 'Error without a reason'}")
                else:
                    given = f" ({reason})" if reason else ""
                    cause = f"status code {word}{given} is none of 0 Success, 1 Error"
                    said = failed(Fault.RESULT, f"{name}: {cause}")
                say = call(REASON, TEXT + 16, 4) + call(REASON, TEXT, 16) if reason else ""
                yield Case(
                    f"{name} returns {word} {'with' if reason else 'without'} a reason",
                    guest(KEEPS, _list(name, say, code=code), uses=[REASON], data={TEXT: "the disk is fullmore"}),
                    story(THERE, step, step),
                    [said, said],
                )
        for ending, (body, fault, message) in ENDINGS.items():
            for where in (name, "nodebuffer"):
                exports = [
                    resident("nodebuffer", "(call $count)", body if where == "nodebuffer" else "", value=NUMBERS)
                ]
                exports.append(_list(name, body if where == name else ""))
                cause = message.format(function=where)
                said = failed(fault, f"{name}: {cause}")
                yield Case(
                    f"{where} {ending}, and each time in a new instance, for {name}",
                    guest(COUNTS, KEPT, *exports, uses=[EXIT]),
                    story(THERE, step, step),
                    [said, said],
                    [told(1), told(1)],
                )


def _buffers() -> Iterator[Case]:
    for address, count in (
        (PAGE, 1),
        (PAGE - 4, 2),
        (PAGE - 11, 3),
        (PAGE + 1, 0),
        (2**31, 1),
        (2**32 - 4, 1),
        (2**32 - 4, 0),
        (2**32 - 1, 3),
    ):
        names = list(NODES)[:count]
        signed = address - 2**32 if address >= 2**31 else address
        said = failed(Fault.RESULT, f"nodebuffer: at {address}, there is no room in memory for {count} nodes")
        yield Case(
            f"nodebuffer returns {address} for {count} nodes",
            guest(KEPT, resident("nodebuffer", value=signed), _list("filternodes", "unreachable"), _list("scorenodes")),
            story(THERE, filters(*names), scores(*names)),
            [said, said],
        )
    for address, count in ((PAGE - 12, 3), (0, 3), (PAGE, 0), (1, 3), (PAGE - 9, 2)):
        stores = " ".join(
            f"(i32.store (i32.const {address + 4 * at}) (i32.const {_at(2 if at else 0)}))" for at in range(count)
        )
        yield Case(
            f"nodebuffer returns {address}, which has room for {count} nodes",
            guest(KEPT, resident("nodebuffer", value=address), _list("filternodes", stores)),
            story(THERE, filters(*list(NODES)[:count])),
            [_filtered([2 if at else 0 for at in range(count)], *[""] * (count - 1))],
        )
    grows = "(drop (memory.grow (i32.const 3)))"
    second = f"(i32.store (i32.const {PAGE + 4}) (i32.const 3))"
    first = f"(i32.store (i32.const {PAGE}) (i32.const 2))"
    yield Case(
        "nodebuffer returns room in memory that it has grown by",
        guest(
            KEPT,
            resident("nodebuffer", grows, value=PAGE),
            _list("filternodes", tell(f"(i32.load (i32.const {PAGE + 4}))"), first, second),
        ),
        story(THERE, filters("node-a", "node-c"), filters("node-c", "node-b")),
        [_filtered([2, 3], "", "")] * 2,
        [told(2), told(1)],
    )
    yield Case(
        "filternodes grows its memory",
        guest(
            KEEPS,
            _list("filternodes", grows, f"(i32.store (i32.const {NUMBERS}) (i32.const 2))", tell("(memory.size)")),
        ),
        story(THERE, filters("node-a"), filters("node-c")),
        [_filtered([2], "")] * 2,
        [told(4), told(7)],
    )


def _scores() -> Iterator[Case]:
    for score in SIGNED:
        stores = (
            f"(i32.store (i32.const {NUMBERS}) (i32.const 7)) (i32.store (i32.const {NUMBERS + 4}) (i32.const {score}))"
        )
        is_good = 0 <= score <= 100
        outside = f"of node node-b: score {score} is outside 0..100"
        steps = story(THERE, scores("node-a", "node-b"))
        yield Case(
            f"scorenodes answers {score}",
            guest(KEEPS, _list("scorenodes", stores)),
            steps,
            [[7, score] if is_good else failed(Fault.RESULT, f"score {outside}")],
        )
        given = f'{{"node-a":7,"node-b":{score}}}'
        yield Case(
            f"scorenodes answers {score}, which normalizescore sees and makes 50",
            guest(
                KEEPS,
                _list("scorenodes", stores),
                export("normalizescore", tells(SCORES, BUFFER, 64, shown=64), call(NORMALIZED, TEXT, 25)),
                uses=[SCORES, NORMALIZED],
                data={TEXT: '{"node-a":50,"node-b":50}'},
            ),
            steps,
            [[50, 50]],
            [told(len(given), given.ljust(64, "*"))],
        )
    yield Case(
        "scorenodes gives a reason, which means nothing",
        guest(
            KEEPS,
            _list("scorenodes", call(REASON, TEXT, 2), f"(i32.store (i32.const {NUMBERS}) (i32.const 9))"),
            uses=[REASON],
        ),
        story(THERE, scores("node-b")),
        [[9]],
    )


def _by_themselves() -> Iterator[Case]:
    """Lists that are judged node by node."""
    singly = {"filter": export("filter", code=2), "score": export("score", value=9)}
    whole = " ".join([KEPT, resident("nodebuffer", "unreachable"), *NO_LISTS.values(), *singly.values()])
    yield Case(
        "lists without a node that has an object",
        guest(whole),
        story(THERE, filters("unknown"), scores("unknown", "another")),
        [_filtered([2], ""), [9, 9]],
    )
    yield Case(
        "a list with nodes that have no object: they come after the others",
        guest(
            KEEPS,
            resident("filternodes", tell("(local.get $n)"), call(REASON, TEXT, 4), *_stored(_at(3, 1), 0)),
            resident("scorenodes", tell("(local.get $n)"), *_stored(7, 8)),
            export("filter", tells(NODE_NAME, BUFFER, 8, shown=8), code=2),
            export("score", value=9),
            uses=[REASON, NODE_NAME],
            data={TEXT: "full"},
        ),
        story(
            THERE,
            filters("unknown", "node-b", "another", "node-a"),
            scores("node-b", "unknown", "node-a"),
            filters("node-a", "node-c"),
        ),
        [_filtered([2, 3, 2, 0], "", "full", ""), [7, 9, 8], _filtered([3, 0], "full")],
        [told(2), told(7, "unknown*", "unknown"), told(7, "another*", "another"), told(2), told(2)],
    )
    lists = " ".join([KEEPS, *(resident(each) for each in NO_LISTS), *NOT_HERE.values()])
    yield Case(
        "a list with a node that is gone",
        guest(
            KEEPS,
            resident("filternodes", tell("(i32.const 1)"), f"(i32.store (i32.const {NUMBERS}) (i32.const 0))"),
            singly["filter"],
        ),
        story(
            THERE,
            filters("node-b"),
            remove("node-b"),
            filters("node-b", "node-a"),
            filters("node-a"),
            THERE,
            filters("node-b"),
        ),
        [_filtered([0]), _filtered([2, 0], ""), _filtered([0]), _filtered([0])],
        [told(1), told(1), told(1), told(1)],
    )
    yield Case(
        "lists for filter, and score by itself",
        guest(KEEPS, _list("filternodes", f"(i64.store (i32.const {NUMBERS}) (i64.const 0))"), singly["score"]),
        story(THERE, filters("node-a", "node-b"), scores("node-a", "node-b")),
        [_filtered([0, 0]), [9, 9]],
    )
    yield Case(
        "lists for score, and filter by itself",
        guest(KEEPS, _list("scorenodes", f"(i64.store (i32.const {NUMBERS}) (i64.const 1))"), singly["filter"]),
        story(THERE, filters("node-a", "node-b"), scores("node-a", "node-b")),
        [_filtered([2, 2], "", ""), [1, 0]],
    )
    yield Case(
        "nodes are kept, and judged by themselves",
        guest(KEPT, *singly.values()),
        story(THERE, filters("node-a", "node-b"), scores("node-b")),
        [_filtered([2, 2], "", ""), [9]],
    )
    yield Case(
        "a buffer without lists is never asked for",
        guest(resident("nodebuffer", "unreachable"), *singly.values()),
        story(THERE, filters("node-a"), scores("node-b")),
        [_filtered([2], ""), [9]],
    )
    for point, other in (("filter", "score"), ("score", "filter")):
        yield Case(
            f"{point} is the only extension point of a guest of lists",
            guest(lists),
            lambda plugin: [plugin.exports, plugin.not_run],
            [[point], [other]],
            extension_points=[point],
        )
    yield Case(
        "score is the only extension point, by lists",
        guest(KEEPS, _list("filternodes", "unreachable"), _list("scorenodes")),
        story(THERE, scores("node-c", "node-b")),
        [[2, 1]],
        extension_points=["score"],
    )


def _in_a_cycle() -> Iterator[Case]:
    hands_over = call(NODE_NAMES, TEXT, 14)
    numbers = tell(f"(i32.load (i32.const {NUMBERS}))") + tell(f"(i32.load (i32.const {NUMBERS + 4}))")
    passes = f"(i64.store (i32.const {NUMBERS}) (i64.const 0))"
    yield Case(
        "PreFilter leaves two nodes, which are the list",
        guest(
            KEEPS,
            export("prefilter", hands_over),
            _list("filternodes", tell("(local.get $n)"), numbers, passes),
            uses=[NODE_NAMES],
            data={TEXT: "node-c\0node-a\0"},
        ),
        story(THERE, narrows("node-a", "node-b", "node-c")),
        [_filtered([0, 0])],
        [told(2), told(0), told(2)],
    )
    shows = tells(TARGET_POD, BUFFER, 8, shown=8)
    yield Case(
        "one node at a time between RemovePod and AddPod",
        guest(
            KEEPS,
            export("removepod", shows),
            export("addpod", shows),
            _list(
                "filternodes",
                tell("(local.get $n)"),
                tell(f"(i32.load (i32.const {NUMBERS}))"),
                shows,
                f"(i32.store (i32.const {NUMBERS}) (i32.const 3))",
            ),
            uses=[TARGET_POD],
        ),
        story(THERE, evicts("node-c", "node-b")),
        [[_filtered([3], "")] * 2],
        [
            line
            for number, node in ((2, "node-c"), (1, "node-b"))
            for line in (told(8, TARGET, node), told(1), told(number), told(0, "*" * 8), told(8, TARGET, node))
        ],
    )


def _journals() -> Iterator[Case]:
    says = call(LOG, 1, TEXT, 2)
    line = Log(abi.Severity.WARNING, "hi", ())
    exports = [resident(each, says, value=NUMBERS if each == "nodebuffer" else 0) for each in abi.RESIDENT]
    yield Case(
        "each export logs",
        guest(*exports, *NOT_HERE.values(), uses=[LOG], data={TEXT: "hi"}),
        story(
            put({"node-a": "A", "node-b": "B"}), filters("node-a"), remove("node-a"), idle, maintain, scores("node-b")
        ),
        [_filtered([0]), False, [1]],
        [line._replace(node="node-a"), line._replace(node="node-b"), *[line] * 6],
    )


CASES = [
    *_looking(),
    *_codes(),
    *_bad_codes(),
    *_many_reasons(),
    *_failing_lists(),
    *_buffers(),
    *_scores(),
    *_by_themselves(),
    *_in_a_cycle(),
    *_journals(),
]
