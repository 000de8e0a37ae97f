from __future__ import annotations

import pytest

from wasm_runtime import WasmtimeEngine
from wasm_runtime.compile.cache import CompileCache
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.engine import MEBIBYTE


@pytest.fixture(scope="session")
def engine(pytestconfig: pytest.Config) -> Compiler:
    """Keeps what it compiles from run to run: it takes some ten seconds a module in Go."""
    cache = CompileCache(pytestconfig.cache.mkdir("guests"), limit=512 * MEBIBYTE)
    return Compiler(WasmtimeEngine(), cache, timeout=300)
