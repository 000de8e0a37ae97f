"""The unchecked call, with and without the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from wasmtime import Engine, Func, Instance, Module, Store, Trap

from wasm_runtime.wasmtime_capi import Function

WAT = """
(module
  (func (export "pair") (param i32 i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32)) (i64.extend_i32_u (local.get 1))))
  (func (export "trap") (param i32 i32) (result i64)
    (if (local.get 0) (then unreachable))
    (i64.extend_i32_u (local.get 1))))
"""


@pytest.fixture(params=[False, True], ids=["gives up the GIL", "keeps the GIL"])
def function(request: pytest.FixtureRequest) -> Callable[[str], Function]:
    store = Store(Engine())
    exports = Instance(store, Module(store.engine, WAT), []).exports(store)
    return lambda name: Function(store, cast(Func, exports[name]), 2, keeps_gil=request.param)


@pytest.mark.parametrize(
    ("arguments", "result"),
    [((0, 0), 0), ((1, 2), 1 << 32 | 2), ((0xFFFF_FFFF, 0xFFFF_FFFF), -1), ((0x8000_0000, 1), -(1 << 63) + 1)],
)
def test_arguments_and_result(function: Callable[[str], Function], arguments: tuple[int, int], result: int) -> None:
    assert function("pair")(*arguments) == result


def test_a_trap_is_raised_once(function: Callable[[str], Function]) -> None:
    call = function("trap")
    for _ in range(2):
        with pytest.raises(Trap, match="unreachable"):
            call(1, 7)
        assert call(0, 7) == 7
