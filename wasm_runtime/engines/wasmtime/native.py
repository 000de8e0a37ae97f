"""wasmtime's unchecked call: 2 microseconds where `Func.__call__` takes 16 to 38.

These are functions of wasmtime's public C API, reached through the ctypes declarations that
wasmtime-py generates from its headers. Nothing else in the project touches those declarations.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from wasmtime import Func, Store, Trap, WasmtimeError, _bindings

_ARGUMENTS: Final = (
    ctypes.POINTER(_bindings.wasmtime_context_t),
    ctypes.POINTER(_bindings.wasmtime_func_t),
    ctypes.POINTER(_bindings.wasmtime_val_raw_t),
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.POINTER(_bindings.wasm_trap_t)),
)
_RAW_FIELDS: Final = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}


def check_bindings() -> None:
    """Raises ImportError when this release of wasmtime declares the calls in another way."""
    function = _bindings._wasmtime_func_call_unchecked
    fields = {name: kind for name, kind in _bindings.wasmtime_val_raw._fields_ if name in _RAW_FIELDS}
    known = (
        tuple(function.argtypes) == _ARGUMENTS
        and function.restype is ctypes.POINTER(_bindings.wasmtime_error_t)
        and fields == _RAW_FIELDS
    )
    if not known:
        raise ImportError(
            "this release of wasmtime declares wasmtime_func_call_unchecked in a way that is not known;"
            " install the release that pyproject.toml names"
        )


check_bindings()


class Function:
    """A function of 32-bit parameters with at most one result, called without conversions.

    Holds the store's handles, so it must not outlive the store. One thread at a time.
    """

    __slots__ = ("_context", "_count", "_func", "_trap", "_values")

    def __init__(self, store: Store, func: Func, parameters: int) -> None:
        self._context = store._context()
        self._func = func._func
        self._count = max(parameters, 1)
        self._values: Any = (_bindings.wasmtime_val_raw_t * self._count)()
        self._trap = ctypes.POINTER(_bindings.wasm_trap_t)()

    def __call__(self, *arguments: int) -> int:
        """The result as a signed 64-bit number; an i32 is in its low half, the high half is undefined.

        Raises Trap, or WasmtimeError for what is no trap (ExitTrap among them).
        """
        values = self._values
        for at, argument in enumerate(arguments):
            values[at].i32 = argument
        error = _bindings.wasmtime_func_call_unchecked(
            self._context, self._func, values, self._count, ctypes.byref(self._trap)
        )
        if error:
            raise WasmtimeError._from_ptr(error)
        if self._trap:
            trap, self._trap = self._trap, ctypes.POINTER(_bindings.wasm_trap_t)()
            raise Trap._from_ptr(trap)
        result: int = values[0].i64
        return result
