"""wasmtime's unchecked call: half a microsecond where `Func.__call__` takes 16 to 38.

These are functions of wasmtime's public C API, reached through the ctypes declarations that
wasmtime-py generates from its headers. Nothing else in the project touches those declarations.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Final, cast

from wasmtime import Func, Store, Trap, WasmtimeError, _bindings

_ARGUMENTS: Final = (
    ctypes.POINTER(_bindings.wasmtime_context_t),
    ctypes.POINTER(_bindings.wasmtime_func_t),
    ctypes.POINTER(_bindings.wasmtime_val_raw_t),
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.POINTER(_bindings.wasm_trap_t)),
)
_DEADLINE_ARGUMENTS: Final = (ctypes.POINTER(_bindings.wasmtime_context_t), ctypes.c_uint64)
_RAW_FIELDS: Final = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}


def check_bindings() -> None:
    """Raises ImportError when this release of wasmtime declares the calls in another way."""
    function = _bindings._wasmtime_func_call_unchecked
    fields = {name: kind for name, kind in _bindings.wasmtime_val_raw._fields_ if name in _RAW_FIELDS}
    known = (
        tuple(function.argtypes) == _ARGUMENTS
        and function.restype is ctypes.POINTER(_bindings.wasmtime_error_t)
        and fields == _RAW_FIELDS
        and tuple(_bindings._wasmtime_context_set_epoch_deadline.argtypes) == _DEADLINE_ARGUMENTS
    )
    if not known:
        raise ImportError(
            "this release of wasmtime declares the calls of its C API in a way that is not known;"
            " install the release that pyproject.toml names"
        )


check_bindings()


_ADDRESSES: Final = (*[ctypes.c_void_p] * 3, ctypes.c_size_t, ctypes.c_void_p)
_ENTRY: Final = cast(int, ctypes.cast(_bindings._wasmtime_func_call_unchecked, ctypes.c_void_p).value)
_CALL: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, *_ADDRESSES)(_ENTRY)
"""The call by addresses, which need no conversion."""
_CALL_WITH_GIL: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, *_ADDRESSES)(_ENTRY)
"""The same without letting other threads of Python run."""

_SET_DEADLINE: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)(
    cast(int, ctypes.cast(_bindings._wasmtime_context_set_epoch_deadline, ctypes.c_void_p).value)
)

_VIEW: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)
_WRITABLE: Final = 0x200
"""`PyBUF_WRITE` of Python's C API."""

_VALUE: Final = f"q{ctypes.sizeof(_bindings.wasmtime_val_raw_t) - 8}x"
"""A value as `struct` packs it: the number, and what a wider one would take."""


class Function:
    """A function of 32-bit parameters with at most one result, called without conversions in half a microsecond.

    It must not be called once the store is closed. One thread at a time.
    """

    __slots__ = ("_arguments", "_call", "_func", "_pack", "_store", "_trap", "_values", "_words")

    def __init__(self, store: Store, func: Func, parameters: int, *, keeps_gil: bool = False) -> None:
        """`keeps_gil` is for what takes microseconds and never calls the host: to have the GIL back may take longer."""
        values = (_bindings.wasmtime_val_raw_t * max(parameters, 1))()
        self._call = _CALL_WITH_GIL if keeps_gil else _CALL
        self._values = memoryview(values).cast("B")
        self._words = self._values.cast("q")
        self._pack = struct.Struct("=" + _VALUE * parameters).pack_into
        self._store, self._func = store, func._func
        self._trap = ctypes.c_void_p()
        addresses = map(ctypes.addressof, (store._context().contents, self._func, values))
        self._arguments = (
            *map(ctypes.c_void_p, addresses),
            ctypes.c_size_t(len(values)),
            ctypes.c_void_p(ctypes.addressof(self._trap)),
        )

    def __call__(self, *arguments: int) -> int:
        """The result as a signed 64-bit number; an i32 is in its low half, the high half is undefined.

        Raises Trap, or WasmtimeError for what is no trap (ExitTrap among them).
        """
        self._pack(self._values, 0, *arguments)
        error = self._call(*self._arguments)
        if error:
            raise WasmtimeError._from_ptr(ctypes.cast(error, ctypes.POINTER(_bindings.wasmtime_error_t)))
        if self._trap:
            trap, self._trap.value = ctypes.cast(self._trap, ctypes.POINTER(_bindings.wasm_trap_t)), None
            raise Trap._from_ptr(trap)
        return self._words[0]


def view_memory(address: int, size: int) -> memoryview:
    """A view of so many bytes, to be read and written. Whoever uses it must know that they are still there.

    An array of ctypes would do as well, but has a type for each size, which stays until Python collects garbage.
    """
    return cast(memoryview, _VIEW(address, size, _WRITABLE))


class EpochDeadline:
    """Sets when the next call in a store is interrupted, in epochs from now: `Store.set_epoch_deadline` made cheap.

    It must not be called once the store is closed.
    """

    __slots__ = ("_context", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._context = ctypes.c_void_p(ctypes.addressof(store._context().contents))

    def __call__(self, epochs: int) -> None:
        """Replaces what was set before."""
        _SET_DEADLINE(self._context, epochs)
