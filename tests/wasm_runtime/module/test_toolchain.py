"""What a module was made with, from what compilers put into it."""

import pytest

from tests.wasm_runtime.custom import custom, made_by
from tests.wasm_runtime.guest_modules import binary
from wasm_runtime import WasmtimeEngine
from wasm_runtime.module.toolchain import MAX_NAME_CHARS, MAX_TOOLS, Toolchain, toolchain

ABORT = '(import "env" "abort" (func (param i32 i32 i32 i32)))'


def of(engine: WasmtimeEngine, fields: str, behind: bytes = b"") -> Toolchain:
    wasm = binary(f"(module {fields})") + behind
    return toolchain(wasm, engine.compile(wasm))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            '(@producers (language "Go" "go1.26.8") (processed-by "Go cmd/compile" "go1.26.8"))',
            Toolchain("Go", ("Go cmd/compile go1.26.8",)),
        ),
        (
            """(@producers
              (language "C11" "") (language "C99" "")
              (processed-by "clang" "19.1.2 (https://github.com/espressif/llvm-project 510a078c)")
              (processed-by "TinyGo" "0.39.0"))""",
            Toolchain("Go", ("clang 19.1.2", "TinyGo 0.39.0")),
        ),
        (
            '(@producers (language "Rust" "") (processed-by "rustc" "1.84.0 (9fc6b4312 2025-01-07)"))',
            Toolchain("Rust", ("rustc 1.84.0",)),
        ),
        (
            '(@producers (language "C11" "") (language "Rust" "") (processed-by "clang" "18.1.0"))',
            Toolchain("Rust", ("clang 18.1.0",)),
        ),
        ('(@producers (language "C11" "") (processed-by "clang" "22.1.8"))', Toolchain("C", ("clang 22.1.8",))),
        (
            '(@producers (language "C11" "") (language "C_plus_plus_14" "") (processed-by "clang" "22.1.8"))',
            Toolchain("C++", ("clang 22.1.8",)),
        ),
        ('(@producers (language "Swift" "6.0"))', Toolchain("Swift", ())),
        ('(@producers (processed-by "wit-component" ""))', Toolchain("unknown", ("wit-component",))),
        (
            '(@producers (language "C99" "")) (@custom ".debug_str" "start\\00zig 0.17.0\\00end\\00")',
            Toolchain("Zig", ("zig 0.17.0",)),
        ),
        ('(@custom ".debug_str" "zig 0.17.0\\00")', Toolchain("Zig", ("zig 0.17.0",))),
        ('(@custom ".debug_str" "a zig 0.17.0\\00zig\\00zig zag\\00")', Toolchain("unknown", ())),
        ('(@custom "go:buildid" "\\ff Go build ID")', Toolchain("Go", ())),
        (f"{ABORT}", Toolchain("AssemblyScript", ())),
        ('(global (export "__rtti_base") i32 (i32.const 0))', Toolchain("AssemblyScript", ())),
        ('(import "env" "abort" (func))', Toolchain("unknown", ())),
        ('(memory (export "memory") 1) (func (export "filter"))', Toolchain("unknown", ())),
    ],
)
def test_language_and_tools(engine: WasmtimeEngine, fields: str, expected: Toolchain) -> None:
    assert of(engine, fields) == expected


@pytest.mark.parametrize(
    ("library", "language"),
    [
        ("typescript 0.1.0", "AssemblyScript"),
        ("zig 0.1.0", "Zig"),
        ("rust", "Rust"),
        ("go 0.1.0", "Go"),
        ("python 0.1.0", "unknown"),
        ("", "unknown"),
    ],
)
def test_where_no_tool_tells_the_library_does(engine: WasmtimeEngine, library: str, language: str) -> None:
    wasm = binary("(module)")
    assert toolchain(wasm, engine.compile(wasm), library) == Toolchain(language, ())


def test_a_tool_knows_better_than_the_library(engine: WasmtimeEngine) -> None:
    wasm = binary(f"(module {ABORT})")
    assert toolchain(wasm, engine.compile(wasm), "go 0.1.0") == Toolchain("AssemblyScript", ())


def test_a_section_that_is_malformed_says_nothing(engine: WasmtimeEngine) -> None:
    assert of(engine, "", custom("producers", b"\x01\xff\xff\xff\xff\x0f")) == Toolchain("unknown", ())
    assert of(engine, "", custom("producers", b"\x01\x08language\x01\x02\xff\xfe\x00")) == Toolchain("unknown", ())


def test_names_are_bounded_in_number_and_length(engine: WasmtimeEngine) -> None:
    tools = {f"{at}{'x' * 100}": "y" * 100 for at in range(20)}
    section = made_by({"language": {"z" * 100: ""}, "processed-by": tools})
    shown = tuple(f"{at}{'x' * (MAX_NAME_CHARS - 1)} {'y' * MAX_NAME_CHARS}" for at in range(MAX_TOOLS))
    assert of(engine, "", custom("producers", section)) == Toolchain("z" * MAX_NAME_CHARS, shown)
