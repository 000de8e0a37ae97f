"""What a trap of wasmtime tells a plugin's author."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from wasmtime import ExitTrap, Trap, TrapCode, WasmtimeError

from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.errors import Fault, TrapKind, shorten

MAX_FRAMES: Final = 12
"""Frames of a backtrace that a message quotes."""
MAX_NAME_CHARS: Final = 80
"""Characters of a function's name that a message quotes."""

_OURS: Final = frozenset({"kwx-driver", "kwx-trampoline"})
"""Names of the modules around the guest: their frames say nothing to an author."""

_WHILE_RUNNING: Final = "error while executing at wasm backtrace:"
"""How messages of wasmtime begin that are not about linking."""

_NO_STATUS: Final = "exit with invalid exit status"
"""What wasmtime says of an exit status above 125."""

_LIMITS: Final = {
    "exceeds memory limits": Fault.MEMORY,
    "exceeds table limits": Fault.TABLES,
    "table count too high": Fault.TABLES,
}
"""What wasmtime says when a module asks for too much at once, and the fault that it is."""


class EngineFailure(NamedTuple):
    """Why wasmtime stopped."""

    fault: Fault
    cause: str
    """A phrase, with the wasm backtrace of a trap."""
    trap: TrapKind | None = None
    exit_code: int | None = None

    def with_memory(self, used: int, limit: int) -> EngineFailure:
        """A guest that cannot grow its memory traps by itself, most at `unreachable`: says how much it has."""
        if self.fault is not Fault.TRAP or 2 * used < limit:
            return self
        held = f"its memory has grown to {used // MEBIBYTE} of {limit // MEBIBYTE} MiB"
        return self._replace(fault=Fault.MEMORY, cause=f"{self.cause}; {held}")


def describe(error: Trap | WasmtimeError) -> EngineFailure:
    """What went wrong. A WasmtimeError comes from linking, or from a function of the engine that the guest was in."""
    if isinstance(error, ExitTrap):
        return EngineFailure(Fault.EXIT, f"the guest left by exit status {error.code}", exit_code=error.code)
    if isinstance(error, WasmtimeError):
        return _refused(str(error))
    if error.trap_code is TrapCode.INTERRUPT:
        return EngineFailure(Fault.DEADLINE, "interrupted")
    kind = _kind(error)
    name = _cause(error.message) if kind is TrapKind.OTHER else kind.value
    fault = Fault.STACK if kind is TrapKind.STACK_OVERFLOW else Fault.TRAP
    return EngineFailure(fault, f"trap: {name}{_backtrace(error)}", kind)


def _refused(message: str) -> EngineFailure:
    cause = _cause(message)
    if _NO_STATUS in cause:
        return EngineFailure(Fault.EXIT, "the guest left by an exit status above 125")
    if message.startswith(_WHILE_RUNNING):
        return EngineFailure(Fault.TRAP, f"trap: {cause}", TrapKind.OTHER)
    return EngineFailure(next((fault for words, fault in _LIMITS.items() if words in cause), Fault.LINK), cause)


def _kind(trap: Trap) -> TrapKind:
    return TrapKind.__members__.get(trap.trap_code.name if trap.trap_code else "", TrapKind.OTHER)


def _cause(message: str) -> str:
    """A message on one line, without the backtrace that it may begin with."""
    if message.startswith(_WHILE_RUNNING):
        message = message.partition("Caused by:")[2] or message
    return " ".join(message.split())


def _backtrace(trap: Trap) -> str:
    frames = trap.frames
    guests = [frame for frame in frames if frame.module_name not in _OURS]
    names = [shorten(frame.func_name or f"func[{frame.func_index}]", MAX_NAME_CHARS) for frame in guests[:MAX_FRAMES]]
    more = ["…"] if len(guests) > MAX_FRAMES else []
    host = _host_function(frame.func_name for frame in frames if frame.module_name in _OURS)
    return (f" in {' < '.join([*host, *names, *more])}") if host or names else ""


def _host_function(names: Iterable[str | None]) -> list[str]:
    """The import that the guest was in, if the trap rose there: a pointer out of its memory, mostly."""
    return [name for name in names if name and "/" in name][:1]
