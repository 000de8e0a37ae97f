"""What guests log, record and print: which of it is kept, what is said of it, and how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tests.conformance.calls import NODE, calls, failed, one_by_one
from tests.conformance.case import Case
from tests.conformance.cases.endings import ENDINGS
from tests.conformance.cases.status import DONE, where
from tests.conformance.guests import (
    BUFFER,
    EXIT,
    LOG,
    LOGS,
    PAGE,
    REASON,
    TEXT,
    WRITE,
    export,
    guest,
    only,
    size,
    tell,
    told,
)
from tests.wasm_runtime.guest_modules import call
from tests.wasm_runtime.world import world
from wasm_runtime import Fault, Plugin, abi
from wasm_runtime.abi import Code, Severity
from wasm_runtime.engine import GuestEvent, Log, NodeResults
from wasm_runtime.guests.guest import Nomination, PreFilter, Status
from wasm_runtime.nodes.node_table import SLACK

EVENT: Final = "k8s.io/scheduler/handle.eventrecorder.eventf"
SEVERITY: Final = "k8s.io/klog/severity"

SEVERITIES: Final = {
    -(2**31): None,
    -1: None,
    0: Severity.INFO,
    1: Severity.WARNING,
    2: Severity.ERROR,
    3: Severity.FATAL,
    4: Severity.FATAL,
    2**31 - 1: Severity.FATAL,
}
"""Severities that a guest may give, and what they are taken for; None for those that are never logged."""


def _severities() -> Iterator[Case]:
    for least in Severity:
        expected = [each for each in SEVERITIES.values() if each is not None and each >= least]
        for function, more, pairs in ((LOG, (), ()), (LOGS, (0, 0), ()), (LOGS, (TEXT + 2, 4), ("k", "v"))):
            body = " ".join(call(function, given, TEXT, 2, *more) for given in SEVERITIES)
            yield Case(
                f"{function} of every severity {'with a pair ' if pairs else ''}from {least.name} on",
                guest(only("prefilter", body), uses=[function], data={TEXT: "hik\0v\0"}),
                calls("prefilter"),
                PreFilter(),
                [Log(severity, "hi", pairs) for severity in expected],
                settings={"log_severity": least},
            )
        packed = f"(return (i64.shl (i64.extend_i32_u {call(SEVERITY)}) (i64.const 32)))"
        yield Case(
            f"severity is told from {least.name} on",
            guest(only("postfilter", packed), uses=[SEVERITY]),
            calls("postfilter"),
            Nomination(Status(Code.SUCCESS), least, ""),
            settings={"log_severity": least},
        )


PAIRS: Final[dict[str | bytes, tuple[str, ...]]] = {
    "": (),
    "\0": (),
    "\0\0\0": (),
    "key": (),
    "key\0": ("key",),
    "key\0value": ("key",),
    "key\0value\0": ("key", "value"),
    "key\0value\0odd\0": ("key", "value", "odd"),
    "key\0\0more\0value\0": ("key", "more", "value"),
    "key\0größe ☃\0": ("key", "größe ☃"),
    "key\0value\0key\0value\0": ("key", "value", "key", "value"),
    b"k\xff\0v\xc3\0": ("k\ufffd", "v\ufffd"),
}

MESSAGES: Final[dict[str | bytes, str]] = {
    "": "",
    " \t": " \t",
    "two\nlines\r\n": "two\nlines\r\n",
    "größe ☃ 🚀": "größe ☃ 🚀",
    "a\0b": "a\0b",
    "%s {} \\n": "%s {} \\n",
    "\x1b[31mred": "\x1b[31mred",
    b"\xff\xfe": "\ufffd\ufffd",
    "x" * 8000: "x" * 8000,
}


def _texts() -> Iterator[Case]:
    for pairs, read in PAIRS.items():
        yield Case(
            f"logs has the pairs {pairs!r}",
            guest(only("prefilter", call(LOGS, 2, TEXT, 0, TEXT, size(pairs))), uses=[LOGS], data={TEXT: pairs}),
            calls("prefilter"),
            PreFilter(),
            [Log(Severity.ERROR, "", read)],
        )
    for message, logged in MESSAGES.items():
        yield Case(
            f"log has the message {message[:20]!r}",
            guest(only("prefilter", call(LOG, 1, TEXT, size(message))), uses=[LOG], data={TEXT: message}),
            calls("prefilter"),
            PreFilter(),
            [Log(Severity.WARNING, logged, ())],
        )
    for event in (b"", b'{"Reason":"Full"}', b"no JSON", b"\xff\0"):
        yield Case(
            f"eventf has {event!r}",
            guest(only("prefilter", call(EVENT, TEXT, len(event))), uses=[EVENT], data={TEXT: event}),
            calls("prefilter"),
            PreFilter(),
            [GuestEvent(event)],
        )
    yield Case(
        "logs and events come in their order",
        guest(
            only("prefilter", call(EVENT, TEXT, 2), call(LOG, 2, TEXT, 1), call(EVENT, TEXT + 1, 1)),
            uses=[EVENT, LOG],
            data={TEXT: "{}"},
        ),
        calls("prefilter"),
        PreFilter(),
        [GuestEvent(b"{}"), Log(Severity.ERROR, "{", ()), GuestEvent(b"}")],
    )
    yield Case(
        "an event is recorded whatever severity is the least",
        guest(only("prefilter", call(EVENT, TEXT, 2)), uses=[EVENT], data={TEXT: "{}"}),
        calls("prefilter"),
        PreFilter(),
        [GuestEvent(b"{}")],
        settings={"log_severity": Severity.FATAL},
    )


HI: Final = call(LOG, 0, TEXT, 2)
HEAD: Final = 20
"""Bytes that a record takes beside its texts."""


def _bounds() -> Iterator[Case]:
    """Of what is logged and recorded, `output_limit` bytes are kept."""
    for limit, length, kept in ((100, 80, 1), (100, 81, 0), (200, 80, 2), (199, 80, 1), (HEAD, 0, 1), (HEAD - 1, 0, 0)):
        for function, before, record in (
            (LOG, (0,), Log(Severity.INFO, "\0" * length, ())),
            (EVENT, (), GuestEvent(bytes(length))),
        ):
            yield Case(
                f"{function} of {length} bytes three times, of which {limit} are kept",
                guest(only("prefilter", *[call(function, *before, BUFFER, length)] * 3), uses=[function]),
                calls("prefilter"),
                PreFilter(),
                [record] * kept,
                3 - kept,
                {"output_limit": limit},
            )
    yield Case(
        "keys and values take room as well",
        guest(
            only("prefilter", call(LOGS, 0, TEXT, 2, TEXT, 4), call(LOGS, 0, TEXT, 2, TEXT, 5)),
            uses=[LOGS],
            data={TEXT: "hi\0\0\0"},
        ),
        calls("prefilter"),
        PreFilter(),
        [Log(Severity.INFO, "hi", ("hi",))],
        1,
        {"output_limit": HEAD + 6},
    )
    yield Case(
        "a short record fits behind one that was dropped",
        guest(only("prefilter", call(LOG, 0, 0, 90), HI), uses=[LOG], data={TEXT: "hi"}),
        calls("prefilter"),
        PreFilter(),
        [Log(Severity.INFO, "hi", ())],
        1,
        {"output_limit": 100},
    )
    yield Case(
        "each verb has the whole limit",
        guest(export("filter", call(LOG, 0, 0, PAGE), HI), uses=[LOG], data={TEXT: "hi"}),
        one_by_one([calls("filter")] * 2),
        [DONE["filter"]] * 2,
        [Log(Severity.INFO, "hi", (), NODE)] * 2,
        2,
    )
    yield Case(
        "nothing is kept where the limit is 0, and that is no fault",
        guest(only("prefilter", HI, _printing(2)), uses=[LOG, WRITE], data={TEXT: "hi"}),
        calls("prefilter"),
        PreFilter(),
        [],
        1,
        {"output_limit": 0},
    )


def _places() -> Iterator[Case]:
    """Which node a record is about, and when it comes."""
    yield Case(
        "each of two nodes has its own records",
        guest(only("filter", HI), uses=[LOG], data={TEXT: "hi"}),
        calls("filter", at=world({"node-a": b"A", "node-b": b"B"})),
        NodeResults(2, b"", [], []),
        [Log(Severity.INFO, "hi", (), "node-a"), Log(Severity.INFO, "hi", (), "node-b")],
    )
    yield Case(
        "a record has its node though the nodes were numbered anew since",
        guest(export("reserve", HI), export("prebind"), uses=[LOG], data={TEXT: "hi"}),
        _reserve_renumber_prebind,
        Status(Code.SUCCESS),
        [Log(Severity.INFO, "hi", (), "node-a")],
    )
    for start in abi.START:
        yield Case(
            f"what {start} logs comes with the first call",
            guest(f'(func (export "{start}") {HI})', export("filter"), uses=[LOG], data={TEXT: "hi"}),
            calls("filter"),
            DONE["filter"],
            [Log(Severity.INFO, "hi", ())],
        )
    yield Case(
        "what enqueue logs comes with the first call",
        guest(export("enqueue", HI), export("filter"), uses=[LOG], data={TEXT: "hi"}),
        calls("filter"),
        DONE["filter"],
        [Log(Severity.INFO, "hi", ())],
    )


def _reserve_renumber_prebind(plugin: Plugin) -> Status:
    """Names come and go while a pod is bound, so many that all nodes get other numbers."""
    at = world({"gone": b"G", "node-a": b"A", "node-b": b"B"}, ["node-a"])
    at.node_table.remove("gone")
    with plugin.guest(at.pod, at.nodes, "bind") as (guest, deadline):
        guest.reserve(at.nodes, deadline)
        at.node_table.locate([f"stranger-{number}" for number in range(2 * SLACK)])
        at.node_table.put([("node-b", b"BB")])
        return guest.pre_bind(at.nodes, deadline)


IOVECS: Final = 128
WRITTEN: Final = 192
"""Where a guest has what it prints, as pointers and lengths, and how much of it was written."""


def _printing(*lengths: int, start: int = TEXT, to: int = 1) -> str:
    """Prints pieces of the text at `start`, one after the other, in one call."""
    pieces = [number for at, length in enumerate(lengths) for number in (start + sum(lengths[:at]), length)]
    stores = (f"(i32.store (i32.const {IOVECS + 4 * at}) (i32.const {each}))" for at, each in enumerate(pieces))
    return f"{' '.join(stores)} (drop {call(WRITE, to, IOVECS, len(lengths), WRITTEN)})"


SAID: Final = "no disk"
PRINTING: Final = _printing(len(SAID))

WAYS: Final = {
    "to stdout": PRINTING,
    "to stderr": _printing(7, to=2),
    "in pieces": _printing(1, 0, 6),
    "to both": f"{_printing(3)} {_printing(4, start=TEXT + 3, to=2)}",
}
"""Ways to print what is said."""

QUOTED: Final[dict[str | bytes, str]] = {
    "": "",
    " \n\t": "",
    "\n panic: x \n": "; the guest printed: panic: x",
    "one\ntwo": "; the guest printed: one\ntwo",
    "größe ☃": "; the guest printed: größe ☃",
    b"\xffx\xc3": "; the guest printed: \ufffdx\ufffd",
    "x" * 1024: f"; the guest printed: {'x' * 1024}",
    "x" * 1025: f"; the guest printed: {'x' * 510} … {'x' * 510}",
    f"head{'x' * 5000}tail": f"; the guest printed: head{'x' * 506} … {'x' * 506}tail",
}
"""What a guest may print, and how the message of an error ends then."""


def _error(
    what: str, text: str | bytes, body: str, quoted: str, *, limit: int = 8192, told_: Sequence[Log] = ()
) -> Case:
    """A prefilter that prints and returns an error."""
    return Case(
        what,
        guest(only("prefilter", body, code=1), uses=[WRITE], data={TEXT: text}),
        calls("prefilter"),
        failed(Fault.STATUS, f"prefilter: Error without a reason{quoted}"),
        told_,
        settings={"output_limit": limit},
    )


def _printed() -> Iterator[Case]:
    """What is printed is quoted where a call fails."""
    for way, body in WAYS.items():
        yield _error(f"prefilter prints {way} and returns an error", SAID, body, f"; the guest printed: {SAID}")
    for text, quoted in QUOTED.items():
        what = f"prefilter prints {text[:20]!r}, {size(text)} bytes, and returns an error"
        yield _error(what, text, _printing(size(text)), quoted)
    for limit in (0, 2, 6, 7, 8):
        quoted = f"; the guest printed: {SAID[:limit]}" if limit else ""
        yield _error(f"of what prefilter prints {limit} bytes are kept", SAID, PRINTING, quoted, limit=limit)
    written = tell(f"(i32.load (i32.const {WRITTEN}))")
    kept = f"; the guest printed: {'x' * 30}"
    what = "all of what is printed is said to be written, also what is not kept"
    yield _error(what, "x" * 40, f"{_printing(10, 30)} {written}", kept, limit=30, told_=[told(40)])


def _printed_at_the_end() -> Iterator[Case]:
    for name, entry in abi.EXPORTS.items():
        for ending, (body, fault, message) in ENDINGS.items():
            yield Case(
                f"{name} prints and {ending}",
                guest(only(name, PRINTING, body), uses=[WRITE, EXIT], data={TEXT: SAID}),
                calls(name),
                failed(fault, f"{where(name)}: {message.format(function=name)}; the guest printed: {SAID}"),
            )
        if "code" in entry.result:
            reason = call(REASON, TEXT + 3, 4)
            yield Case(
                f"{name} prints and returns an error with a reason",
                guest(only(name, PRINTING, reason, code=1), uses=[WRITE, REASON], data={TEXT: SAID}),
                calls(name),
                failed(Fault.STATUS, f"{where(name)}: disk; the guest printed: {SAID}"),
            )
    for start in abi.START:
        body = f'(func ${start} (export "{start}") {PRINTING} unreachable)'
        yield Case(
            f"{start} prints and traps",
            guest(body, export("filter"), uses=[WRITE], data={TEXT: SAID}),
            calls("filter"),
            failed(Fault.TRAP, f"{start}: trap: unreachable in {start}; the guest printed: {SAID}"),
        )


def _printed_before() -> Iterator[Case]:
    """What was printed in a call that is over is not quoted."""
    yield Case(
        "prefilter prints, and filter returns an error",
        guest(export("prefilter", PRINTING), export("filter", code=1), uses=[WRITE], data={TEXT: SAID}),
        calls("filter"),
        failed(Fault.STATUS, f"filter of node {NODE}: Error without a reason"),
    )
    yield Case(
        "filter prints for one node, and traps for the next",
        guest(
            "(global $calls (mut i32) (i32.const 0))",
            export(
                "filter",
                "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))",
                "(if (i32.eq (global.get $calls) (i32.const 2)) (then unreachable))",
                PRINTING,
            ),
            uses=[WRITE],
            data={TEXT: SAID},
        ),
        calls("filter", at=world({"node-a": b"A", "node-b": b"B"})),
        failed(Fault.TRAP, "filter of node node-b: trap: unreachable in filter"),
    )


CASES = [
    *_severities(),
    *_texts(),
    *_bounds(),
    *_places(),
    *_printed(),
    *_printed_at_the_end(),
    *_printed_before(),
]
