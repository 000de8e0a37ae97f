"""Compiling with wasmtime."""

from __future__ import annotations

from typing import Final

import wasmtime

from wasm_runtime import driver
from wasm_runtime.abi import Import, Signature
from wasm_runtime.engine import MEBIBYTE, Settings
from wasm_runtime.engines.wasmtime.instance import WasmtimeInstance
from wasm_runtime.engines.wasmtime.ticker import Ticker
from wasm_runtime.errors import ModuleError

STACK: Final = MEBIBYTE
"""Bytes of stack that wasm may use, of the thread's own."""


class WasmtimeEngine:
    """One configuration of wasmtime, its clock for deadlines, and the modules that every guest shares."""

    name = "wasmtime"

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
        try:
            return WasmtimeModule(self, wasmtime.Module(self.native, wasm))
        except wasmtime.WasmtimeError as error:
            raise ModuleError([f"is no valid WebAssembly module: {_first_line(error)}"]) from error


class WasmtimeModule:
    """Compiled code of a guest."""

    def __init__(self, engine: WasmtimeEngine, native: wasmtime.Module) -> None:
        self.engine = engine
        self.native = native
        self.exports = {export.name: _signature(export.type) for export in native.exports}
        self.imports = {Import(each.module, each.name or ""): _signature(each.type) for each in native.imports}

    def instantiate(self, settings: Settings) -> WasmtimeInstance:
        """Makes and starts an instance. Raises GuestError."""
        return WasmtimeInstance(self, settings)


_KINDS: Final = {
    wasmtime.MemoryType: "memory",
    wasmtime.TableType: "table",
    wasmtime.GlobalType: "global",
}


def _signature(kind: object) -> Signature | str:
    if isinstance(kind, wasmtime.FuncType):
        return Signature(tuple(map(str, kind.params)), tuple(map(str, kind.results)))
    return _KINDS.get(type(kind), "unknown")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join(dict.fromkeys(line for line in lines if line != "Caused by:"))
