"""The interface of a module, read off its bytes."""

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wasm_runtime.guests import binary
from wasm_runtime import WasmtimeEngine, driver
from wasm_runtime.abi import Import, Signature
from wasm_runtime.binary import Interface, interface


def read(text: str) -> Interface:
    return interface(binary(text))


@pytest.mark.parametrize(
    ("text", "exports", "imports"),
    [
        ("(module)", {}, {}),
        ('(module (func (export "f")))', {"f": Signature()}, {}),
        (
            '(module (func (export "f") (param i32 i64 f32 f64 v128) (result externref funcref) unreachable))',
            {"f": Signature(("i32", "i64", "f32", "f64", "v128"), ("externref", "funcref"))},
            {},
        ),
        (
            """(module
              (import "a" "f" (func (param i32)))
              (import "a" "t" (table 1 10 funcref))
              (import "a" "m" (memory 1 70000 shared))
              (import "a" "g" (global (mut i64)))
              (import "a" "e" (tag (param i32)))
              (import "a" "t2" (table 300 (ref null func)))
              (import "b/c" "größe" (func (result i64)))
              (import "" "" (memory 1))
              (func $own (result f32) (f32.const 0))
              (export "own" (func $own))
              (export "imported" (func 0))
              (export "later" (func 1)))""",
            {"own": Signature((), ("f32",)), "imported": Signature(("i32",)), "later": Signature((), ("i64",))},
            {
                Import("a", "f"): Signature(("i32",)),
                Import("a", "t"): "table",
                Import("a", "m"): "memory",
                Import("a", "g"): "global",
                Import("a", "e"): "tag",
                Import("a", "t2"): "table",
                Import("b/c", "größe"): Signature((), ("i64",)),
                Import("", ""): "memory",
            },
        ),
        (
            """(module
              (memory (export "m") 1) (table (export "t") 1 funcref) (global (export "g") i32 (i32.const 0))
              (tag (export "e")) (func (export "") (result i32) (i32.const 0)))""",
            {"m": "memory", "t": "table", "g": "global", "e": "tag", "": Signature((), ("i32",))},
            {},
        ),
        (
            """(module
              (rec (type $a (struct (field (ref null $b)) (field (mut i8)))) (type $b (array i16)))
              (type $c (sub (func (param (ref $a)))))
              (type $d (sub final $c (func (param (ref null $a)))))
              (func (export "c") (type $c)) (func (export "d") (type $d))
              (func (export "e") (param (ref any) (ref null extern) i31ref eqref structref arrayref exnref)))""",
            {
                "c": Signature(("(ref 0)",)),
                "d": Signature(("(ref null 0)",)),
                "e": Signature(("(ref any)", "externref", "i31ref", "eqref", "structref", "arrayref", "exnref")),
            },
            {},
        ),
    ],
)
def test_of_a_module(text: str, exports: dict[str, Signature | str], imports: dict[Import, Signature | str]) -> None:
    assert read(text) == Interface(exports, imports)


def test_agrees_with_the_engine(engine: WasmtimeEngine) -> None:
    """On names and their order, and on types that the engine can tell."""
    for text in (driver.trampoline(), driver.driver()):
        found = read(text)
        native = wasmtime.Module(engine.native, text)
        assert list(found.exports) == [each.name for each in native.exports]
        assert list(found.imports) == [Import(each.module, each.name or "") for each in native.imports]
        for each in native.exports:
            if isinstance(each.type, wasmtime.FuncType):
                params, results = map(str, each.type.params), map(str, each.type.results)
                assert found.exports[each.name] == Signature(tuple(params), tuple(results))


@given(count=st.integers(0, 400), length=st.integers(0, 300))
@settings(max_examples=30, deadline=None)
def test_counts_and_lengths_of_more_than_a_byte(count: int, length: int) -> None:
    functions = " ".join(f'(func (export "{"x" * length}{at}") (param {"i32 " * (at % 5)}))' for at in range(count))
    expected = {f"{'x' * length}{at}": Signature(("i32",) * (at % 5)) for at in range(count)}
    assert read(f"(module {functions})") == Interface(expected, {})


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (b"\x01\x5d\x00", "type form 0x5d is not known"),
        (b"\x01\x60\x01\x40\x00", "type 0x40 is not known"),
    ],
)
def test_an_encoding_that_is_not_known(types: bytes, message: str) -> None:
    wasm = b"\0asm\x01\0\0\0\x01" + bytes([len(types)]) + types
    with pytest.raises(ValueError, match=f"^{message}$"):
        interface(wasm)


def test_a_kind_that_is_not_known() -> None:
    with pytest.raises(ValueError, match=r"^kind 0x7 of an import or export is not known$"):
        interface(b"\0asm\x01\0\0\0\x07\x05\x01\x01f\x07\x00")
