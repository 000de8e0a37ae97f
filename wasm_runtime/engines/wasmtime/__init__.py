"""The wasmtime engine: the default."""

from wasm_runtime.engines.wasmtime.engine import WasmtimeEngine

__all__ = ["WasmtimeEngine"]
