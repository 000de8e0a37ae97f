"""The interface of a module, read off its bytes."""

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wasm_runtime.guest_modules import binary
from wasm_runtime import ModuleError, WasmtimeEngine, driver
from wasm_runtime.abi import FunctionType, Import
from wasm_runtime.module.binary import EMPTY, Interface, interface


def read(text: str) -> Interface:
    return interface(binary(text))


@pytest.mark.parametrize(
    ("text", "exports", "imports"),
    [
        ("(module)", {}, {}),
        ('(module (func (export "f")))', {"f": FunctionType()}, {}),
        (
            '(module (func (export "f") (param i32 i64 f32 f64 v128) (result externref funcref) unreachable))',
            {"f": FunctionType(("i32", "i64", "f32", "f64", "v128"), ("externref", "funcref"))},
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
            {
                "own": FunctionType((), ("f32",)),
                "imported": FunctionType(("i32",)),
                "later": FunctionType((), ("i64",)),
            },
            {
                Import("a", "f"): FunctionType(("i32",)),
                Import("a", "t"): "table",
                Import("a", "m"): "memory",
                Import("a", "g"): "global",
                Import("a", "e"): "tag",
                Import("a", "t2"): "table",
                Import("b/c", "größe"): FunctionType((), ("i64",)),
                Import("", ""): "memory",
            },
        ),
        (
            """(module
              (memory (export "m") 1) (table (export "t") 1 funcref) (global (export "g") i32 (i32.const 0))
              (tag (export "e")) (func (export "") (result i32) (i32.const 0)))""",
            {"m": "memory", "t": "table", "g": "global", "e": "tag", "": FunctionType((), ("i32",))},
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
                "c": FunctionType(("(ref 0)",)),
                "d": FunctionType(("(ref null 0)",)),
                "e": FunctionType(("(ref any)", "externref", "i31ref", "eqref", "structref", "arrayref", "exnref")),
            },
            {},
        ),
    ],
)
def test_of_a_module(
    text: str, exports: dict[str, FunctionType | str], imports: dict[Import, FunctionType | str]
) -> None:
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
                assert found.exports[each.name] == FunctionType(tuple(params), tuple(results))


@given(count=st.integers(0, 400), length=st.integers(0, 300))
@settings(max_examples=30, deadline=None)
def test_counts_and_lengths_of_more_than_a_byte(count: int, length: int) -> None:
    functions = " ".join(f'(func (export "{"x" * length}{at}") (param {"i32 " * (at % 5)}))' for at in range(count))
    expected: dict[str, FunctionType | str] = {
        f"{'x' * length}{at}": FunctionType(("i32",) * (at % 5)) for at in range(count)
    }
    assert read(f"(module {functions})") == Interface(expected, {})


def problems(wasm: bytes) -> list[str]:
    with pytest.raises(ModuleError) as caught:
        interface(wasm)
    return caught.value.problems


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (b"\x01\x03\x01\x5d\x00", "type form 0x5d is not known"),
        (b"\x01\x05\x01\x60\x01\x40\x00", "type 0x40 is not known"),
        (b"\x07\x05\x01\x01f\x07\x00", "kind 0x7 of an import or export is not known"),
    ],
)
def test_an_encoding_that_is_not_known(section: bytes, problem: str) -> None:
    assert problems(EMPTY + section) == [f"uses what is not known here: {problem}"]


@pytest.mark.parametrize(
    ("section", "name", "length", "largest"),
    [
        (b"\x01", "types", b"\x80\x80\x40", 1_048_576),
        (b"\x02", "imports", b"\x80\x80\x04", 65_536),
        (b"\x07", "exports", b"\x80\x80\x40", 1_048_576),
    ],
)
def test_a_section_has_a_limit(section: bytes, name: str, length: bytes, largest: int) -> None:
    wasm = EMPTY + section + length + bytes(largest)
    assert interface(wasm) == Interface({}, {})
    longer = bytes([length[0] + 1, *length[1:]])
    assert problems(EMPTY + section + longer + bytes(largest + 1)) == [
        f"has {largest + 1} bytes of {name}, the limit is {largest}"
    ]


@given(
    types=st.lists(st.builds(FunctionType, *[st.lists(st.sampled_from(["i32", "v128"])).map(tuple)] * 2), min_size=1),
    data=st.data(),
)
@settings(max_examples=30, deadline=None)
def test_json_and_back(types: list[FunctionType], data: st.DataObject) -> None:
    kinds: st.SearchStrategy[FunctionType | str] = st.sampled_from([*types, "memory", "table"])
    names = st.text()
    exports = data.draw(st.dictionaries(names, kinds))
    imports = data.draw(st.dictionaries(st.builds(Import, names, names), kinds))
    text = Interface(exports, imports).to_json()
    assert b"\n" not in text
    found = Interface.from_json(text)
    assert found == Interface(exports, imports)
    assert [*map(type, found.exports.values())] == [*map(type, exports.values())]
    assert [*found.exports, *found.imports] == [*exports, *imports]


def test_json_has_each_signature_once() -> None:
    signature = FunctionType(("i32",) * 3)
    exports: dict[str, FunctionType | str] = dict.fromkeys("ab", signature)
    text = b'[[[["i32","i32","i32"],[]],"memory"],{"a":0,"b":0},[[["m","n"],0],[["m","o"],1]]]'
    assert Interface(exports, {Import("m", "n"): signature, Import("m", "o"): "memory"}).to_json() == text
