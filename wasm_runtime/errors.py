"""Whose fault it is: errors that a module or a guest causes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class ModuleError(Exception):
    """A module cannot be used. Has every problem that was found, one a line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class Fault(Enum):
    """Why a guest's call has no answer."""

    TRAP = "trap"
    """The guest ran into a trap: out of bounds, unreachable, stack overflow and their like."""
    DEADLINE = "deadline"
    """The guest was interrupted at its deadline."""
    EXIT = "exit"
    """The guest left by WASI's proc_exit."""
    STATUS = "status"
    """The guest answered with a status that has no other meaning than an error."""
    RESULT = "result"
    """The guest's result is none that the ABI allows."""
    NO_NODE_DATA = "no node data"
    """The guest asked for the object of a node, and no node's object is known to the host."""
    LIMIT = "limit"
    """The guest asked for more than its limits allow."""
    LINK = "link"
    """The module could not be instantiated: its imports or its memory do not fit."""

    @property
    def is_fatal(self) -> bool:
        """Whether the instance may be in any state afterwards and must not be used again."""
        return self in {Fault.TRAP, Fault.DEADLINE, Fault.EXIT, Fault.LINK}


NO_NODE_DATA = "the guest asked for a node's object, but none is known here: only names were given"


class GuestError(Exception):
    """A guest's call failed. `str()` is a sentence for the author and the user of the plugin."""

    def __init__(
        self,
        fault: Fault,
        export: str,
        cause: str,
        *,
        node: str = "",
        output: str = "",
        exit_code: int | None = None,
        fatal: bool | None = None,
    ) -> None:
        self.fault = fault
        self.export = export
        self.cause = cause
        self.node = node
        self.output = output
        self.exit_code = exit_code
        self.fatal = fault.is_fatal if fatal is None else fatal
        where = f"{export} of node {node}" if node else export
        printed = f"; the guest printed: {output.strip()}" if output.strip() else ""
        super().__init__(f"{where}: {cause}{printed}")
