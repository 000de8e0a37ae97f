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


_WHILE_RUNNING: Final = "error while executing at wasm backtrace:"
"""How messages of wasmtime begin that are not about linking."""


def describe(error: Trap | WasmtimeError) -> tuple[Fault, str]:
    """The kind of a failure and a phrase that names its cause, with the wasm backtrace of a trap.

    A WasmtimeError comes from linking, or from a function of the engine that the guest was in.
    """
    if isinstance(error, ExitTrap):
        return Fault.EXIT, f"the guest left by exit status {error.code}"
    if isinstance(error, WasmtimeError):
        cause = _cause(str(error))
        return (Fault.TRAP, f"trap: {cause}") if str(error).startswith(_WHILE_RUNNING) else (Fault.LINK, cause)
    if error.trap_code is TrapCode.INTERRUPT:
        return Fault.DEADLINE, "interrupted"
    return Fault.TRAP, f"trap: {_name(error)}{_backtrace(error)}"


def _name(trap: Trap) -> str:
    return trap.trap_code.name.lower().replace("_", " ") if trap.trap_code else _cause(trap.message)


def _cause(message: str) -> str:
    """A message on one line, without the backtrace that it may begin with."""
    if message.startswith(_WHILE_RUNNING):
        message = message.partition("Caused by:")[2] or message
    return " ".join(message.split())


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
