"""The engines that plugins ask for by name."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from typing import Final

from extender.config import RuntimeConfig
from wasm_runtime.compile.cache import CompileCache
from wasm_runtime.compile.compiler import Compiler, Precompiler
from wasm_runtime.engine import MEBIBYTE, Engine
from wasm_runtime.engines.wasmtime import WasmtimeEngine

THREAD_STACK_BYTES: Final = 8 * MEBIBYTE
"""Bytes of stack of the threads that guests run in: of the system's own default nothing is known."""

PYTHON_STACK_BYTES: Final = 2 * MEBIBYTE
"""Bytes of a thread's stack that are left to Python and the engine beside the guest's."""


class EngineError(Exception):
    """An engine is not to be had here. `str()` says what to do."""


class Engines:
    """Makes each engine when the first plugin asks for it. May be used from any thread."""

    def __init__(self, settings: RuntimeConfig) -> None:
        """Raises CacheError if compiled code cannot be trusted where it is kept, or EngineError for a small stack."""
        _check_stack(settings.stack_limit)
        threading.stack_size(THREAD_STACK_BYTES)
        self._settings = settings
        self._cache = CompileCache(limit=settings.cache_limit)
        self._lock = threading.Lock()
        self._compilers: dict[str, Compiler] = {}

    def get(self, name: str) -> Engine:
        """The engine of a name that the configuration allows. Raises EngineError."""
        with self._lock:
            if name not in self._compilers:
                engine = _MAKERS[name](self._settings)
                self._compilers[name] = Compiler(engine, self._cache, self._settings.compile_timeout)
            return self._compilers[name]

    def close(self) -> None:
        """Ends what is being compiled."""
        with self._lock:
            for compiler in self._compilers.values():
                compiler.close()


def _check_stack(limit: int) -> None:
    """A guest that met the end of the thread's stack before its own limit would end the process. Raises EngineError."""
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if stack != resource.RLIM_INFINITY and stack < limit + PYTHON_STACK_BYTES:
        raise EngineError(
            f"runtime.stackLimit: the process has a stack of {stack} bytes, {limit + PYTHON_STACK_BYTES} are needed for"
            f" guests that may use {limit}; lower it or raise the limit of the shell or service (ulimit -s)"
        )


def _wasmtime(settings: RuntimeConfig) -> Precompiler:
    return WasmtimeEngine(stack_limit=settings.stack_limit)


def _wasmer(_: RuntimeConfig) -> Precompiler:
    try:
        from wasm_runtime.engines.wasmer import WasmerEngine  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise EngineError(str(error)) from error
    return WasmerEngine()


_MAKERS: Final[dict[str, Callable[[RuntimeConfig], Precompiler]]] = {"wasmtime": _wasmtime, "wasmer": _wasmer}
