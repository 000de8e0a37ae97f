"""What stands between a guest and the host functions in Python: a trampoline, as WebAssembly.

It makes traps out of what Python cannot answer, so that a trap in a host function has the guest's backtrace:
of an exception that passes through wasm, wasmer keeps none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import wasmer

from wasm_runtime import abi
from wasm_runtime.abi import FunctionType, Import
from wasm_runtime.engine import KIBIBYTE
from wasm_runtime.engines.wasmer.host import Host, HostFunction
from wasm_runtime.engines.wasmer.memory import OutOfBoundsError
from wasm_runtime.module import wasi

NAME: Final = "kwx-trampoline"
"""The module's name in backtraces."""

FUNCTIONS: Final[Mapping[Import, FunctionType]] = {**abi.IMPORTS, **wasi.FUNCTIONS}
"""Everything that a guest may import."""

MIN_HOST_STACK_BYTES: Final = 64 * KIBIBYTE
"""Bytes of stack that Python has at least: where it ran out of them, wasmer would pass over frames of Python's."""

LINKED_AFTER_START: Final = {**abi.IMPORTS, **abi.WASI_HERE}
"""What a guest cannot call in its start section: as with wasmtime, where the driver is linked after that has run."""

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

    def link(self, functions: Mapping[Import, HostFunction], host: Host) -> dict[str, dict[str, Any]]:
        """What a guest of that host imports, by module and name."""
        answering = {
            str(each): wasmer.Function(
                self._store, _answering(functions[each], host, early=each not in LINKED_AFTER_START), types
            )
            for each, types in self._types.items()
        }
        exports = wasmer.Instance(self._module, {"host": answering}).exports
        linked: dict[str, dict[str, Any]] = {}
        for each in self._functions:
            linked.setdefault(each.module, {})[each.name] = getattr(exports, str(each))
        return linked


def _answering(function: HostFunction, host: Host, *, early: bool) -> Callable[..., int]:
    """A host function as the trampoline calls it."""

    def call(*arguments: int) -> int:
        if not (host.is_linked or early):
            return NOT_LINKED
        try:
            return function(*arguments) or 0
        except OutOfBoundsError:
            return OUT_OF_BOUNDS

    return call


def _text(functions: Mapping[Import, FunctionType]) -> str:
    imports = []
    exports = []
    for at, (function, signature) in enumerate(functions.items()):
        wide = " ".join(["i64"] * len(signature.params))
        imports.append(f'(import "host" "{function}" (func $host{at} (param {wide}) (result i64)))')
        types = f"(param {' '.join(signature.params)}) (result {' '.join(signature.results)})"
        given = " ".join(map(_WIDENED.__getitem__, signature.params)).format(*range(len(signature.params)))
        answer = f"(call $answer (call $host{at} {given}))"
        body = answer if signature.results else f"(drop {answer})"
        exports.append(f'(func ${function} (export "{function}") {types} (call $room (i32.const {_LEVELS})) {body})')
    return "\n".join([f"(module ${NAME}", *imports, _ANSWER, _ROOM, *exports, ")"])


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

_VALUES: Final = " ".join(["v128"] * 240)
"""Almost 4 KiB. Where a frame is larger, wasmer looks for the end of the stack outside of wasm, without a backtrace."""
_LEVELS: Final = MIN_HOST_STACK_BYTES // 4096
_ROOM: Final = f"""
(global $never (mut i32) (i32.const 0))
(func $many (result {_VALUES}) unreachable)
(func $nothing)
(func $take (param {_VALUES}))
(func $room (param $levels i32)
  (if (global.get $never) (then (call $many) (call $nothing) (call $take)))
  (if (local.get $levels) (then (call $room (i32.sub (local.get $levels) (i32.const 1))))))
"""
"""Uses stack: frames must have room for values that outlast a call. Where the stack ends meanwhile, that is a trap."""
