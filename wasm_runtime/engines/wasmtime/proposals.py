"""Which proposals a module needs beyond WebAssembly 2.0, by asking wasmtime's validator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import wasmtime
from wasmtime import Config, WasmtimeError

PROPOSALS: Final[Mapping[str, Sequence[str]]] = {
    "threads": ["wasm_threads"],
    "tail calls": ["wasm_tail_call"],
    "relaxed SIMD": ["wasm_relaxed_simd"],
    "exceptions": ["wasm_exceptions"],
    "garbage collection or typed references": ["wasm_gc", "wasm_function_references"],
    "wide arithmetic": ["wasm_wide_arithmetic"],
}
"""Proposals by name, with the properties of wasmtime's configuration that turn them on.

Source: https://github.com/WebAssembly/proposals. Extended constant expressions are missing: wasmtime has them
always on.
"""


def proposals(wasm: bytes) -> list[str]:
    """The names of those that a module needs, which is valid with all of them."""
    if _is_valid(wasm, PROPOSALS):
        return []
    return [name for name in PROPOSALS if not _is_valid(wasm, [name])]


def _is_valid(wasm: bytes, without: Collection[str]) -> bool:
    config = Config()
    config.wasm_memory64 = False
    for name, properties in PROPOSALS.items():
        for each in properties:
            setattr(config, each, name not in without)
    try:
        wasmtime.Module.validate(wasmtime.Engine(config), wasm)
    except WasmtimeError:
        return False
    return True
