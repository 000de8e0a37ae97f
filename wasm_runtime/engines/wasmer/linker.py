"""What stands between a guest and the host functions in Python: a trampoline, as WebAssembly.

It makes traps out of what Python cannot answer, so that a trap in a host function has the guest's backtrace:
of an exception that passes through wasm, wasmer keeps none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import wasmer

from wasm_runtime import abi, wasi
from wasm_runtime.abi import Import, Signature
from wasm_runtime.engines.wasmer.host import HostFunction
from wasm_runtime.engines.wasmer.memory import GuestMemory, OutOfBoundsError

NAME: Final = "kwx-trampoline"
"""The module's name in backtraces."""

FUNCTIONS: Final[Mapping[Import, Signature]] = {**abi.IMPORTS, **wasi.FUNCTIONS}
"""Everything that a guest may import."""

EARLY: Final = Import(abi.WASI, "proc_exit")
"""The only function that a guest may call in its start section, before the host knows its memory."""

OUT_OF_BOUNDS: Final = -1
NOT_LINKED: Final = -2
"""What a host function returns to the trampoline for a trap."""


class Trampoline:
    """The trampoline of one module: an export for each of its imports."""

    def __init__(self, store: Any, imports: Iterable[Import]) -> None:
        self._store = store
        self._functions = {each: FUNCTIONS[each] for each in imports}
        self._module = wasmer.Module(store, _text(self._functions))
        i64 = wasmer.Type.I64
        self._types = {
            each: wasmer.FunctionType([i64] * len(signature.params), [i64])
            for each, signature in self._functions.items()
        }

    def link(self, functions: Mapping[Import, HostFunction], memory: GuestMemory) -> dict[str, dict[str, Any]]:
        """What a guest of that memory imports, by module and name."""
        host = {
            str(each): wasmer.Function(self._store, _answering(functions[each], memory, early=each == EARLY), types)
            for each, types in self._types.items()
        }
        exports = wasmer.Instance(self._module, {"host": host}).exports
        linked: dict[str, dict[str, Any]] = {}
        for each in self._functions:
            linked.setdefault(each.module, {})[each.name] = getattr(exports, str(each))
        return linked


def _answering(function: HostFunction, memory: GuestMemory, *, early: bool) -> Callable[..., int]:
    """A host function as the trampoline calls it."""

    def call(*arguments: int) -> int:
        if not (memory.is_attached or early):
            return NOT_LINKED
        try:
            return function(*arguments) or 0
        except OutOfBoundsError:
            return OUT_OF_BOUNDS

    return call


def _text(functions: Mapping[Import, Signature]) -> str:
    imports = []
    exports = []
    for at, (function, signature) in enumerate(functions.items()):
        wide = " ".join(["i64"] * len(signature.params))
        imports.append(f'(import "host" "{function}" (func $host{at} (param {wide}) (result i64)))')
        types = f"(param {' '.join(signature.params)}) (result {' '.join(signature.results)})"
        given = " ".join(map(_WIDENED.__getitem__, signature.params)).format(*range(len(signature.params)))
        answer = f"(call $answer (call $host{at} {given}))"
        body = answer if signature.results else f"(drop {answer})"
        exports.append(f'(func ${function} (export "{function}") {types} {body})')
    return "\n".join([f"(module ${NAME}", *imports, _ANSWER, *exports, ")"])


_WIDENED: Final = {"i32": "(i64.extend_i32_u (local.get {}))", "i64": "(local.get {})"}
_ANSWER: Final = f"""
(memory 0)
(table 1 funcref)
(type $none (func))
(func $answer (param $answer i64) (result i32)
  (if (i64.eq (local.get $answer) (i64.const {OUT_OF_BOUNDS}))
    (then (drop (i32.load (i32.const 0)))))
  (if (i64.eq (local.get $answer) (i64.const {NOT_LINKED}))
    (then (call_indirect (type $none) (i32.const 0))))
  (i32.wrap_i64 (local.get $answer)))
"""
