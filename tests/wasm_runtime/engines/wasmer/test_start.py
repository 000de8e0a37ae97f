"""A module's start section becomes an export."""

from __future__ import annotations

import pytest

from tests.wasm_runtime.guest_modules import binary
from wasm_runtime.engines.wasmer.start import put_off

FUNCTIONS = " ".join(["(func)"] * 200)
MANY = " ".join(f'(export "f{number}" (func {number}))' for number in range(130))


@pytest.mark.parametrize(
    ("section", "exports"),
    [
        ('(export "a" (func 0)) (start 1)', '(export "a" (func 0)) (export "kwx-start" (func 1))'),
        ('(start 199) (export "memory" (memory 0))', '(export "memory" (memory 0)) (export "kwx-start" (func 199))'),
        (f"(start 0) {MANY}", f'{MANY} (export "kwx-start" (func 0))'),
    ],
)
def test_nothing_else_changes(section: str, exports: str) -> None:
    def module(fields: str) -> bytes:
        return binary(f'(module $named {FUNCTIONS} (memory 1) {fields} (data (i32.const 0) "data"))')

    assert put_off(module(section)) == module(exports)


def test_a_module_without_one_stays_as_it_is() -> None:
    wasm = binary(f"(module {FUNCTIONS} {MANY})")
    assert put_off(wasm) is wasm
