"""Every export with every status code, with and without a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tests.conformance.calls import NODE, calls, failed
from tests.conformance.case import Case
from tests.conformance.guests import REASON, TEXT, guest, only
from tests.wasm_runtime.guest_modules import call
from wasm_runtime import Fault, abi
from wasm_runtime.abi import Code
from wasm_runtime.engine import NodeResults
from wasm_runtime.guests.guest import Nomination, Permission, PreFilter, Status

CODES: Final = {
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
"""Codes, and some that are none, as messages spell them."""

REJECTIONS: Final = {2, 3, 6}

MEANINGS: Final[dict[str, dict[int, Callable[[Status], object]]]] = {
    "prefilter": dict.fromkeys({0, 5} | REJECTIONS, PreFilter),
    "addpod": {0: lambda _: None},
    "removepod": {0: lambda _: None},
    "filter": {
        0: lambda _: NodeResults(1, b"", [], []),
        **dict.fromkeys(REJECTIONS, lambda status: NodeResults(1, bytes([status.code]), [], [status.reason])),
    },
    "postfilter": dict.fromkeys({0} | REJECTIONS, lambda status: Nomination(status, 0, "")),
    "prescore": {0: lambda _: [0], 5: lambda _: None},
    "score": {0: lambda _: [0]},
    "normalizescore": {0: lambda _: [0]},
    "reserve": dict.fromkeys({0} | REJECTIONS, lambda status: status),
    "permit": dict.fromkeys({0, 4} | REJECTIONS, lambda status: Permission(status, 0.0)),
    "prebind": dict.fromkeys({0} | REJECTIONS, lambda status: status),
    "bind": dict.fromkeys({0, 5} | REJECTIONS, lambda status: status),
}
"""What each code that an export may return comes to. Any other one is an error."""

SILENT: Final[dict[str, object]] = {"enqueue": [], "bindingannotations": {}, "unreserve": None, "postbind": None}
"""The exports that return no code, and what comes of them if they return nothing."""


DONE: Final = {**SILENT, **{export: meanings[0](Status(Code.SUCCESS)) for export, meanings in MEANINGS.items()}}
"""What comes of exports that return Success and nothing else, for one node."""


def where(export: str) -> str:
    """How messages name the call of an export for one node."""
    return f"{export} of node {NODE}" if abi.EXPORTS[export].on_node else export


def _outcome(export: str, code: int, reason: str) -> object:
    meanings = MEANINGS[export]
    if code in meanings:
        return meanings[code](Status(Code(code), reason))
    if code == Code.ERROR:
        return failed(Fault.STATUS, f"{where(export)}: {reason or 'Error without a reason'}")
    said = f" ({reason})" if reason else ""
    allowed = ", ".join(CODES[each] for each in sorted({*meanings, Code.ERROR}))
    return failed(Fault.RESULT, f"{where(export)}: status code {CODES[code]}{said} is none of {allowed}")


def _cases() -> Iterator[Case]:
    for named, reason in {"": "", " and gives a reason": "the disk is full"}.items():
        say = call(REASON, TEXT, len(reason)) if reason else ""
        for export in MEANINGS:
            for code in CODES:
                yield Case(
                    f"{export} returns {CODES[code]}{named}",
                    guest(only(export, say, code=code), uses=[REASON], data={TEXT: reason}),
                    calls(export),
                    _outcome(export, code, reason),
                )
        for export, value in SILENT.items():
            body = guest(only(export, say), uses=[REASON], data={TEXT: reason})
            yield Case(f"{export} returns{named}", body, calls(export), value)


CASES = list(_cases())
