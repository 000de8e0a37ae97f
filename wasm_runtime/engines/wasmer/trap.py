"""What an error of wasmer tells a plugin's author."""

from __future__ import annotations

import re
from typing import Final

from wasm_runtime.engines.wasmer.linker import NAME
from wasm_runtime.engines.wasmer.wasi import MAX_EXIT_STATUS, ExitError
from wasm_runtime.engines.wasmtime.trap import MAX_FRAMES, MAX_NAME_CHARS, EngineFailure
from wasm_runtime.errors import Fault, TrapKind, shorten

_KINDS: Final = {
    "unreachable": TrapKind.UNREACHABLE,
    "out of bounds memory access": TrapKind.MEMORY_OUT_OF_BOUNDS,
    "undefined element: out of bounds table access": TrapKind.TABLE_OUT_OF_BOUNDS,
    "uninitialized element": TrapKind.INDIRECT_CALL_TO_NULL,
    "indirect call type mismatch": TrapKind.BAD_SIGNATURE,
    "integer overflow": TrapKind.INTEGER_OVERFLOW,
    "integer divide by zero": TrapKind.INTEGER_DIVISION_BY_ZERO,
    "invalid conversion to integer": TrapKind.BAD_CONVERSION_TO_INTEGER,
    "call stack exhausted": TrapKind.STACK_OVERFLOW,
}
"""Traps by wasmer's words (`TrapCode::message`)."""

_TRAP: Final = "RuntimeError: "
_FRAME: Final = re.compile(r"^    at (.*) \((.*)\[(\d+)\]:0x[0-9a-f]+\)$", re.MULTILINE)
_UNNAMED: Final = "<unnamed>"


def describe(error: Exception) -> EngineFailure:
    """What went wrong in a guest. An error without wasmer's mark of a trap comes from linking."""
    if isinstance(error, ExitError):
        return _left(error.status)
    message = str(error)
    if not message.startswith(_TRAP):
        return EngineFailure(Fault.LINK, " ".join(message.split()))
    words = message.partition("\n")[0].removeprefix(_TRAP)
    kind = _KINDS.get(words, TrapKind.OTHER)
    name = words if kind is TrapKind.OTHER else kind.value
    fault = Fault.STACK if kind is TrapKind.STACK_OVERFLOW else Fault.TRAP
    return EngineFailure(fault, f"trap: {name}{_backtrace(message)}", kind)


def _left(status: int) -> EngineFailure:
    """No more exit status than wasmtime takes, in its words."""
    if status > MAX_EXIT_STATUS:
        return EngineFailure(Fault.EXIT, "the guest left by an exit status above 125")
    return EngineFailure(Fault.EXIT, f"the guest left by exit status {status}", exit_code=status)


def _backtrace(message: str) -> str:
    host: list[str] = []
    names: list[str] = []
    for name, module, index in (frame.groups() for frame in _FRAME.finditer(message)):
        if module == NAME:
            host += [name] if "/" in name else []
        else:
            names.append(shorten(f"func[{index}]" if name == _UNNAMED else name, MAX_NAME_CHARS))
        if len(names) > MAX_FRAMES:
            names[-1] = "…"
            break
    return f" in {' < '.join([*host, *names])}" if host or names else ""
