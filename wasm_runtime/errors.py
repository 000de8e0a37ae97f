"""Whose fault it is: errors that a module or a guest causes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final


class ModuleError(Exception):
    """A module cannot be used. Has every problem that was found, one a line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class Fault(Enum):
    """Why a guest's call has no answer."""

    TRAP = "trap"
    """The guest ran into a trap: out of bounds, unreachable and their like (`TrapKind`)."""
    STACK = "stack"
    """The guest's calls nest deeper than the stack that wasm may use."""
    MEMORY = "memory"
    """The guest trapped with at least half of its memory limit in use, or is larger than that limit at once."""
    TABLES = "tables"
    """The module's tables are more, or larger, than its limits allow."""
    DEADLINE = "deadline"
    """The guest was interrupted at its deadline."""
    BUSY = "busy"
    """No instance was to be had before the deadline: all that may be made are in use, or still learn of changes."""
    EXIT = "exit"
    """The guest left by WASI's proc_exit."""
    STATUS = "status"
    """The guest answered with a status that has no other meaning than an error."""
    RESULT = "result"
    """The guest's result is none that the ABI allows."""
    NO_NODE_DATA = "no node data"
    """The guest asked for the object of a node, and no node's object is known to the host.

    An empty node would be an answer too, by which a policy on labels rejects every node without a word."""
    LIMIT = "limit"
    """The guest handed over, or asked for, more than the host moves in one call."""
    LINK = "link"
    """The module could not be instantiated: its imports or its memory do not fit."""

    @property
    def is_fatal(self) -> bool:
        """Whether the instance may be in any state afterwards and must not be used again."""
        return self in _FATAL


_FATAL: Final = {
    Fault.TRAP,
    Fault.STACK,
    Fault.MEMORY,
    Fault.TABLES,
    Fault.DEADLINE,
    Fault.EXIT,
    Fault.LINK,
}


class TrapKind(Enum):
    """What a trap is, in the words of the WebAssembly specification where it has some."""

    UNREACHABLE = "unreachable"
    MEMORY_OUT_OF_BOUNDS = "memory out of bounds"
    TABLE_OUT_OF_BOUNDS = "table out of bounds"
    INDIRECT_CALL_TO_NULL = "indirect call to null"
    BAD_SIGNATURE = "bad signature"
    INTEGER_OVERFLOW = "integer overflow"
    INTEGER_DIVISION_BY_ZERO = "integer division by zero"
    BAD_CONVERSION_TO_INTEGER = "bad conversion to integer"
    HEAP_MISALIGNED = "heap misaligned"
    STACK_OVERFLOW = "stack overflow"
    OTHER = "other"
    """One that this version has no word for, or that a function of the engine raised."""


NO_NODE_DATA: Final = "the guest asked for a node's object, but none is known here: only names were given"

MAX_OUTPUT_CHARS: Final = 1_024
"""Characters that a message quotes of what a guest printed."""
MAX_CAUSE_CHARS: Final = 2_048
"""Characters that a message has of a cause, a guest's own reason for instance."""


class GuestError(Exception):
    """A guest's call failed. `str()` is a sentence for the author and the user of the plugin, of bounded length."""

    def __init__(
        self,
        fault: Fault,
        export: str,
        cause: str,
        *,
        node: str = "",
        output: str = "",
        exit_code: int | None = None,
        trap: TrapKind | None = None,
        fatal: bool | None = None,
    ) -> None:
        self.fault = fault
        self.trap = trap
        self.export = export
        self.cause = cause
        self.node = node
        self.output = output
        self.exit_code = exit_code
        self.fatal = fault.is_fatal if fatal is None else fatal
        where = f"{export} of node {node}" if node else export
        printed = shorten(output.strip(), MAX_OUTPUT_CHARS)
        super().__init__(
            f"{where}: {shorten(cause, MAX_CAUSE_CHARS)}{'; the guest printed: ' if printed else ''}{printed}"
        )

    @property
    def reason(self) -> str:
        """The fault as a word for logs: the kind of a trap that nothing better is known of, else the fault's own."""
        return self.fault.value if self.fault is Fault.MEMORY or not self.trap else self.trap.value


def shorten(text: str, limit: int) -> str:
    """Head and tail of a text that is too long: a panic's message is at the one or the other."""
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]} … {text[-half:]}"
