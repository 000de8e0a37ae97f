"""Every import that has the host write to a guest's memory, or read from it: sizes, ends of memory, pointers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.conformance.calls import NODE, OBJECT, POD, TARGET, calls, failed
from tests.conformance.case import Case
from tests.conformance.cases.status import DONE, where
from tests.conformance.guests import BUFFER, PAGE, SIGNATURES, TEXT, guest, only, tells, told
from tests.wasm_runtime.guest_modules import call
from tests.wasm_runtime.world import world
from wasm_runtime import Fault, abi
from wasm_runtime.abi import ClusterEvent, Code, Severity
from wasm_runtime.engine import GuestEvent, Log, NodeResults
from wasm_runtime.guests.guest import Nomination, PreFilter, Status

CONFIG: Final = "settings"
SHOWN: Final = 16
"""Bytes that a guest tells of its buffer."""
BLANK: Final = "*" * SHOWN
WRAPS: Final = 2**32
"""Addresses from here on are those from 0 again."""

POINTERLESS: Final = {"k8s.io/klog/severity"}
"""The imports that neither write nor read."""


class Gives(NamedTuple):
    """An import that writes: `buf, limit` are its last parameters."""

    function: str
    export: str
    """One in which it has something to write."""
    answer: str
    takes_name: bool = False
    """Whether `ptr, len` of a node's name come first."""


GIVES: Final = {
    gives.function: gives
    for gives in (
        Gives("k8s.io/api/node", "filter", OBJECT, takes_name=True),
        Gives("k8s.io/api/nodeList", "prefilter", f"\x12\x08{OBJECT}"),
        Gives("k8s.io/scheduler/currentPod", "prefilter", POD),
        Gives("k8s.io/scheduler/currentNodeName", "filter", NODE),
        Gives("k8s.io/scheduler/targetPod", "addpod", TARGET),
        Gives("k8s.io/scheduler/filteredNodeList", "prescore", f'["{NODE}"]'),
        Gives("k8s.io/scheduler/nodeToStatusMap", "postfilter", f'{{"{NODE}":2}}'),
        Gives("k8s.io/scheduler/nodeScoreList", "normalizescore", f'{{"{NODE}":0}}'),
        Gives("k8s.io/scheduler/nodeImageStates", "filter", "{}", takes_name=True),
        Gives("k8s.io/scheduler/get_config", "prefilter", CONFIG),
    )
}
"""The imports that return the length of what they have, and write it where it fits."""


def _outside(function: str, export: str) -> object:
    return failed(Fault.TRAP, f"{where(export)}: trap: memory out of bounds in {function} < {export}")


def _asks(
    what: str, gives: Gives, buffer: int, limit: int, text: str | None, *, shown: int = BUFFER, pages: int = 0
) -> Case:
    """A guest that asks, with a memory that has grown by some pages, and tells what is at `shown`; None for a trap."""
    function, export, answer, takes_name = gives
    name = (TEXT, len(NODE)) if takes_name else ()
    grow = f"(drop (memory.grow (i32.const {pages})))"
    node = NODE if abi.EXPORTS[export].on_node else ""
    return Case(
        f"{function} writes {what}",
        guest(
            only(export, grow, tells(function, *name, buffer, limit, buffer=shown, shown=SHOWN)),
            uses=[function],
            data={TEXT: NODE},
        ),
        calls(export),
        _outside(function, export) if text is None else DONE[export],
        [] if text is None else [told(len(answer), text, node)],
        settings={"config": CONFIG},
    )


def _gives(gives: Gives) -> Iterator[Case]:
    text, length = gives.answer, len(gives.answer)
    for limit in sorted({0, 1, length - 1}):
        yield _asks(f"nothing of {length} bytes to a buffer of {limit}", gives, BUFFER, limit, BLANK)
    for limit in (length, length + 1, PAGE, WRAPS // 2 - 1, WRAPS // 2, WRAPS - 1):
        yield _asks(f"{length} bytes to a buffer of {limit}", gives, BUFFER, limit, text.ljust(SHOWN, "*"))
    for pages in (0, 2):
        end = PAGE * (1 + pages)
        for limit in (length, length + 1, WRAPS - 1):
            what = f"{length} bytes to the end of a memory that has grown by {pages}, in a buffer of {limit}"
            last = text.rjust(SHOWN, "*")
            yield _asks(what, gives, end - length, limit, last, shown=end - SHOWN, pages=pages)
    for buffer in (PAGE - length + 1, PAGE, WRAPS // 2, WRAPS - length, WRAPS - 1):
        yield _asks(f"{length} bytes to a buffer at {buffer}, out of memory", gives, buffer, length, None)
        what = f"nothing to a buffer at {buffer}, out of memory, that is too small"
        yield _asks(what, gives, buffer, length - 1, BLANK)


SILENT_IN: Final = {
    "k8s.io/api/node": "prefilter",
    "k8s.io/scheduler/currentPod": "filter",
    "k8s.io/scheduler/currentNodeName": "prefilter",
    "k8s.io/scheduler/targetPod": "prefilter",
    "k8s.io/scheduler/get_config": "prefilter",
}
"""The imports that may have nothing to say, and an export in which that is so for an empty pod."""


def _gives_nothing(function: str, export: str) -> Iterator[Case]:
    name = (TEXT, len("nobody")) if GIVES[function].takes_name else ()
    node = NODE if abi.EXPORTS[export].on_node else ""
    for buffer in (BUFFER, PAGE, WRAPS - 1):
        for limit in (0, 1, WRAPS - 1):
            yield Case(
                f"{function} has nothing to write to a buffer of {limit} at {buffer}",
                guest(
                    only(export, tells(function, *name, buffer, limit, shown=SHOWN)),
                    uses=[function],
                    data={TEXT: "nobody"},
                ),
                calls(export, at=world({NODE: OBJECT.encode()}, pod=b"")),
                DONE[export],
                [told(0, BLANK, node)],
            )


class Takes(NamedTuple):
    """An import that reads `ptr, len`."""

    function: str
    export: str
    text: str
    whole: object
    """What comes of it when the text was read."""
    unreadable: object = None
    """What comes of a text that is not in memory; None for a trap."""
    journal: tuple[Log | GuestEvent, Log | GuestEvent] | None = None
    """What is recorded of the text, and of an empty one. Nothing is of an unreadable one."""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    """The other parameters."""
    code: int = 0


FINE: Final = DONE["filter"]


def _logged(text: str, *pairs: str) -> Log:
    return Log(Severity.INFO, text, pairs, NODE)


def _rejected(reason: str) -> NodeResults:
    return NodeResults(1, b"\x02", [], [reason])


TAKES: Final = (
    Takes("k8s.io/api/node", "filter", NODE, FINE, after=(BUFFER, 0)),
    Takes("k8s.io/scheduler/nodeImageStates", "filter", NODE, FINE, after=(BUFFER, 0)),
    Takes("k8s.io/klog/log", "filter", "hello", FINE, FINE, (_logged("hello"), _logged("")), before=(0,)),
    Takes(
        "k8s.io/klog/logs", "filter", "hello", FINE, FINE, (_logged("hello"), _logged("")), before=(0,), after=(0, 0)
    ),
    Takes("k8s.io/klog/logs", "filter", "k\0v\0", FINE, FINE, (_logged("", "k", "v"), _logged("")), before=(0, 0, 0)),
    Takes("k8s.io/scheduler/result.cluster_events", "enqueue", "\1\0\0\0\7\0\0\0", [ClusterEvent("Node", 7)]),
    Takes("k8s.io/scheduler/result.node_names", "prefilter", f"{NODE}\0", PreFilter(names=frozenset([NODE]))),
    Takes("k8s.io/scheduler/result.nominated_node_name", "postfilter", NODE, Nomination(Status(Code.SUCCESS), 0, NODE)),
    Takes(
        "k8s.io/scheduler/result.status_reason",
        "filter",
        "full",
        _rejected("full"),
        _rejected("BUG: out of memory reading message"),
        code=2,
    ),
    Takes("k8s.io/scheduler/result.normalized_score_list", "normalizescore", f'{{"{NODE}":9}}', [9]),
    Takes(
        "k8s.io/scheduler/handle.eventrecorder.eventf",
        "filter",
        "{}",
        FINE,
        journal=(GuestEvent(b"{}"), GuestEvent(b"")),
    ),
    Takes("k8s.io/scheduler/handle.get_waiting_pod", "filter", "uid", FINE, after=(BUFFER, 8)),
    Takes("k8s.io/scheduler/handle.reject_waiting_pod", "filter", "uid", FINE, after=(BUFFER, 8)),
)
"""The imports that read, and each of the places that they read."""


def _hands(what: str, takes: Takes, ptr: int, length: int, value: object, journal: list[Log | GuestEvent]) -> Case:
    """A guest that has the text at the end of its memory and hands over some bytes."""
    function, text = takes.function, takes.text
    asked = call(function, *takes.before, ptr, length, *takes.after)
    body = f"(drop {asked})" if SIGNATURES[function].results else asked
    parameter = len(takes.before)
    return Case(
        f"{function} reads {what} (parameter {parameter})",
        guest(only(takes.export, body, code=takes.code), uses=[function], data={PAGE - len(text): text}),
        calls(takes.export),
        value,
        journal,
    )


def _takes(takes: Takes) -> Iterator[Case]:
    length = len(takes.text)
    whole, empty = ([each] for each in takes.journal) if takes.journal else ([], [])
    nothing = _rejected("") if takes.code else DONE[takes.export]
    yield _hands(f"{length} bytes at the end of memory", takes, PAGE - length, length, takes.whole, whole)
    yield _hands("nothing at the start of memory", takes, 0, 0, nothing, empty)
    yield _hands("nothing behind the end of memory", takes, PAGE, 0, nothing, empty)
    for ptr, size in (
        (PAGE - length + 1, length),
        (PAGE, 1),
        (PAGE + 1, 0),
        (0, PAGE + 1),
        (WRAPS // 2, 0),
        (WRAPS // 2, WRAPS // 2),
        (WRAPS - length, length),
        (WRAPS - 1, 1),
        (WRAPS - 1, WRAPS - 1),
        (1, WRAPS - 1),
    ):
        value = takes.unreadable or _outside(takes.function, takes.export)
        yield _hands(f"{size} bytes at {ptr}, out of memory", takes, ptr, size, value, [])


CASES = [
    *(case for gives in GIVES.values() for case in _gives(gives)),
    *(case for function, export in SILENT_IN.items() for case in _gives_nothing(function, export)),
    *(case for takes in TAKES for case in _takes(takes)),
]
