"""The table of WASI's functions, beside what the engine defines."""

import pytest
import wasmtime

from wasm_runtime.abi import WASI_HERE, FunctionType, Import
from wasm_runtime.module import wasi


@pytest.fixture(scope="module")
def linker() -> wasmtime.Linker:
    linker = wasmtime.Linker(wasmtime.Engine())
    linker.define_wasi()
    return linker


@pytest.mark.parametrize("function", wasi.FUNCTIONS, ids=str)
def test_the_engine_has_the_function_with_that_signature(linker: wasmtime.Linker, function: Import) -> None:
    store = wasmtime.Store(linker.engine)
    found = linker.get(store, function.module, function.name)
    assert isinstance(found, wasmtime.Func)
    kind = found.type(store)
    signature = FunctionType(tuple(map(str, kind.params)), tuple(map(str, kind.results)))
    assert signature == wasi.FUNCTIONS[function]


def test_what_the_host_answers_itself_is_among_them() -> None:
    assert {**wasi.FUNCTIONS, **WASI_HERE} == wasi.FUNCTIONS
