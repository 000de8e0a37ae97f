"""Compiling with wasmtime."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property, partial
from importlib import metadata
from typing import Final

import wasmtime

from wasm_runtime import driver
from wasm_runtime.blob import Blob
from wasm_runtime.compile.cache import CodeFile
from wasm_runtime.compile.compiler import Compiled
from wasm_runtime.engine import DEFAULT_STACK_BYTES, MAX_STACK_BYTES, Handle, Settings
from wasm_runtime.engines.wasmtime.instance import WasmtimeInstance
from wasm_runtime.engines.wasmtime.linker import WasmtimeCode
from wasm_runtime.engines.wasmtime.ticker import Ticker
from wasm_runtime.errors import ModuleError
from wasm_runtime.module.binary import EMPTY, Interface, check_preamble, interface


class WasmtimeEngine:
    """One configuration of wasmtime, its clock for deadlines, and the modules that every guest shares."""

    name: Final = "wasmtime"

    def __init__(self, *, stack_limit: int = DEFAULT_STACK_BYTES) -> None:
        """`stack_limit` is how many bytes of stack wasm may use. Raises ValueError for one that wasmtime cannot do."""
        if not 0 < stack_limit <= MAX_STACK_BYTES:
            raise ValueError(f"wasmtime takes a stack limit of 1 to {MAX_STACK_BYTES} bytes, not of {stack_limit}")
        self._stack_limit = stack_limit
        config = wasmtime.Config()
        config.wasm_multi_memory = True
        config.epoch_interruption = True
        config.wasm_memory64 = False
        config.max_wasm_stack = stack_limit
        self.native = wasmtime.Engine(config)
        config = wasmtime.Config()
        config.wasm_multi_memory = False
        config.wasm_memory64 = False
        self._one_memory = wasmtime.Engine(config)
        """Only the driver may have more than one memory: this validates what a guest may be."""
        self.ticker = Ticker(self.native)
        self._trampoline = wasmtime.Module(self.native, driver.trampoline())
        self._driver = wasmtime.Module(self.native, driver.driver())

    def __reduce__(self) -> tuple[Callable[[], WasmtimeEngine], tuple[()]]:
        """Pickles to an engine of the same settings."""
        return partial(WasmtimeEngine, stack_limit=self._stack_limit), ()

    @cached_property
    def version(self) -> str:
        """The release and a digest of an empty module's code.

        In code wasmtime notes all that it depends on: processor, compiler settings, features. The stack limit
        is not among them.
        """
        code = wasmtime.Module(self.native, EMPTY).serialize()
        return f"{metadata.version('wasmtime')}-{hashlib.sha256(code).hexdigest()[:16]}"

    def compile(self, module: bytes | Blob) -> WasmtimeModule:
        """Compiles a binary module. Raises ModuleError if it is none, or uses what wasmtime cannot do."""
        wasm = Blob.of(module).content
        return self._module(self._compile(wasm), interface(wasm))

    def precompile(self, wasm: bytes) -> Compiled:
        """Compiles a binary module as `compile` does, to bytes for `load`."""
        native = self._compile(wasm)
        return Compiled(interface(wasm), bytes(native.serialize()))

    def load(self, compiled: Compiled) -> WasmtimeModule:
        """Makes a module of what `precompile` made; a file is mapped. Raises ModuleError if wasmtime refuses it."""
        code = compiled.code
        try:
            native = (
                wasmtime.Module.deserialize_file(self.native, str(code.path))
                if isinstance(code, CodeFile)
                else wasmtime.Module.deserialize(self.native, code)
            )
        except (wasmtime.WasmtimeError, UnicodeEncodeError) as error:  # wasmtime-py takes no path but UTF-8.
            raise ModuleError([f"is no code for this engine: {_first_line(error)}"]) from error
        return self._module(native, compiled.interface)

    def _module(self, native: wasmtime.Module, found: Interface) -> WasmtimeModule:
        return WasmtimeModule(WasmtimeCode(self.native, self.ticker, self._trampoline, self._driver, native, found))

    def _compile(self, wasm: bytes) -> wasmtime.Module:
        check_preamble(wasm)
        try:
            wasmtime.Module.validate(self._one_memory, wasm)
            return wasmtime.Module(self.native, wasm)
        except wasmtime.WasmtimeError as error:
            raise ModuleError([f"is no valid WebAssembly module: {_first_line(error)}"]) from error


class WasmtimeModule:
    """Compiled code of a guest."""

    def __init__(self, code: WasmtimeCode) -> None:
        self._code = code
        self.exports, self.imports = code.interface

    def instantiate(self, settings: Settings, handle: Handle) -> WasmtimeInstance:
        """Makes and starts an instance. Raises GuestError."""
        return WasmtimeInstance(self._code, settings, handle)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join(dict.fromkeys(line for line in lines if line != "Caused by:"))
