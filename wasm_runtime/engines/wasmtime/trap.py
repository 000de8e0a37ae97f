"""What a trap of wasmtime tells a plugin's author."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wasmtime import ExitTrap, Trap, TrapCode, WasmtimeError

from wasm_runtime.errors import Fault

MAX_FRAMES: Final = 12
"""Frames of a backtrace that a message quotes."""

_OURS: Final = frozenset({"kwx-driver", "kwx-trampoline"})
"""Names of the modules around the guest: their frames say nothing to an author."""


def describe(error: Trap | WasmtimeError) -> tuple[Fault, str]:
    """The kind of a failure and a phrase that names its cause, with the wasm backtrace of a trap."""
    if isinstance(error, ExitTrap):
        return Fault.EXIT, f"the guest left by exit status {error.code}"
    if isinstance(error, WasmtimeError):
        return Fault.LINK, " ".join(str(error).split())
    if error.trap_code is TrapCode.INTERRUPT:
        return Fault.DEADLINE, "interrupted"
    return Fault.TRAP, f"trap: {_name(error)}{_backtrace(error)}"


def _name(trap: Trap) -> str:
    return trap.trap_code.name.lower().replace("_", " ") if trap.trap_code else trap.message


def _backtrace(trap: Trap) -> str:
    frames = trap.frames
    guests = [frame for frame in frames if frame.module_name not in _OURS]
    names = [frame.func_name or f"func[{frame.func_index}]" for frame in guests[:MAX_FRAMES]]
    more = ["…"] if len(guests) > MAX_FRAMES else []
    host = _host_function(frame.func_name for frame in frames if frame.module_name in _OURS)
    return (f" in {' < '.join([*host, *names, *more])}") if host or names else ""


def _host_function(names: Iterable[str | None]) -> list[str]:
    """The import that the guest was in, if the trap rose there: a pointer out of its memory, mostly."""
    return [name for name in names if name and "/" in name][:1]
