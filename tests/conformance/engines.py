"""The engines that the suite runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from wasm_runtime import WasmtimeEngine
from wasm_runtime.engine import Engine


def _engines() -> Iterator[tuple[str, Callable[[], Engine]]]:
    yield "wasmtime", WasmtimeEngine
    if sys.version_info < (3, 11) and find_spec("wasmer"):
        from wasm_runtime.engines.wasmer import WasmerEngine  # noqa: PLC0415

        yield "wasmer", WasmerEngine


ENGINES = list(_engines())
"""Name and maker of each. wasmer has no release for CPython 3.11 and newer."""
