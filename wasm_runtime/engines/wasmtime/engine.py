"""Compiling with wasmtime."""

from __future__ import annotations

from typing import Final

import wasmtime

from wasm_runtime import driver
from wasm_runtime.binary import MAGIC, Interface, interface
from wasm_runtime.engine import MEBIBYTE, Settings
from wasm_runtime.engines.wasmtime.instance import WasmtimeInstance
from wasm_runtime.engines.wasmtime.ticker import Ticker
from wasm_runtime.errors import ModuleError

STACK: Final = MEBIBYTE
"""Bytes of stack that wasm may use, of the thread's own."""


class WasmtimeEngine:
    """One configuration of wasmtime, its clock for deadlines, and the modules that every guest shares."""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.wasm_multi_memory = True
        config.epoch_interruption = True
        config.wasm_memory64 = False
        config.max_wasm_stack = STACK
        self.native = wasmtime.Engine(config)
        self.ticker = Ticker(self.native)
        self.trampoline = wasmtime.Module(self.native, driver.trampoline())
        self.driver = wasmtime.Module(self.native, driver.driver())

    def compile(self, wasm: bytes) -> WasmtimeModule:
        """Compiles a binary module. Raises ModuleError if it is none, or uses what wasmtime cannot do."""
        if not wasm.startswith(MAGIC):
            raise ModuleError([f"is no valid WebAssembly module: begins with {wasm[:4]!r}, not with {MAGIC!r}"])
        try:
            return WasmtimeModule(self, wasmtime.Module(self.native, wasm), interface(wasm))
        except ValueError as error:
            raise ModuleError([f"uses what is not known here: {error}"]) from error
        except wasmtime.WasmtimeError as error:
            raise ModuleError([f"is no valid WebAssembly module: {_first_line(error)}"]) from error


class WasmtimeModule:
    """Compiled code of a guest."""

    def __init__(self, engine: WasmtimeEngine, native: wasmtime.Module, found: Interface) -> None:
        self.engine = engine
        self.native = native
        self.exports, self.imports = found

    def instantiate(self, settings: Settings) -> WasmtimeInstance:
        """Makes and starts an instance. Raises GuestError."""
        return WasmtimeInstance(self, settings)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join(dict.fromkeys(line for line in lines if line != "Caused by:"))
