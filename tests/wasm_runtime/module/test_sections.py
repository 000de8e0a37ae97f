"""What is read of a module's custom sections and of its memory."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wasm_runtime.custom import custom, made_by, text
from tests.wasm_runtime.guest_modules import binary
from wasm_runtime import ModuleError, WasmtimeEngine
from wasm_runtime.module.sections import MAX_PRODUCERS_BYTES, Limits, custom_sections, memory, producers
from wasm_runtime.protobuf.varint import varint

MANY = varint(2**32 - 1)


def test_custom_sections_by_name_and_the_first_of_two() -> None:
    wasm = binary('(module (memory 1) (@custom "a" "1\\00\\ff") (@custom "b" ""))') + custom("a", b"2")
    assert custom_sections(wasm) == {"a": b"1\0\xff", "b": b""}
    assert custom_sections(binary("(module)")) == {}


@pytest.mark.parametrize(
    "behind",
    [b"\0", b"\0\x05", b"\0\x01", custom("cut off", b"")[:-1], b"\0\x02\x05a", custom(b"\xff\xfe", b""), b"\0" + MANY],
)
def test_a_custom_section_that_is_none_is_found_by_the_engine(engine: WasmtimeEngine, behind: bytes) -> None:
    with pytest.raises(ModuleError, match=r"^is no valid WebAssembly module: "):
        engine.compile(binary("(module)") + behind)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"language": {}},
        {"language": {"C11": "", "C99": ""}, "processed-by": {"clang": "19.1.2 (https://x)", "TinyGo": "0.39.0"}},
        {"sdk": {"größe": "é"}},
        {"processed-by": {f"tool{at}": "x" * 200 for at in range(50)}},
    ],
)
def test_producers_by_field_and_name(fields: Mapping[str, Mapping[str, str]]) -> None:
    assert producers(made_by(fields)) == fields


def test_producers_as_a_compiler_writes_them() -> None:
    wasm = binary('(module (@producers (language "Go" "go1.26") (processed-by "Go cmd/compile" "go1.26")))')
    assert producers(custom_sections(wasm)["producers"]) == {
        "language": {"Go": "go1.26"},
        "processed-by": {"Go cmd/compile": "go1.26"},
    }


WHOLE = made_by({"language": {"Go": "go1.26"}})


@pytest.mark.parametrize(
    "section",
    [
        b"",
        *(WHOLE[:end] for end in range(len(WHOLE))),
        MANY,
        b"\x01" + text("language") + MANY,
        b"\x01" + MANY + b"language",
        b"\x01" + text("language") + b"\x01" + text(b"\xff\xfe") + text("1"),
        b"\x01" + text(b"\xc3") + b"\0",
        b"\x80" * 100,
        b"\x80" * (1 << 20),
        made_by({"processed-by": {"x" * MAX_PRODUCERS_BYTES: "1", "y": "2"}}),
    ],
    ids=len,
)
def test_nothing_of_producers_that_are_malformed_or_too_large(section: bytes) -> None:
    assert producers(section) == {}


@given(st.binary(max_size=64))
def test_any_bytes_of_producers_are_read_or_left(section: bytes) -> None:
    for versions in producers(section).values():
        assert all(isinstance(each, str) for pair in versions.items() for each in pair)


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ('(memory (export "memory") 1)', Limits(1, None)),
        ('(memory (export "memory") 0 0)', Limits(0, 0)),
        ('(memory (export "memory") 300 65536)', Limits(300, 65536)),
        ('(memory (export "memory") 1 2 shared)', Limits(1, 2)),
        ('(memory 1) (memory (export "memory") 7) (memory 9)', Limits(7, None)),
        ('(import "a" "m" (memory 5)) (import "a" "f" (func)) (memory (export "memory") 7 8)', Limits(7, 8)),
        ('(import "a" "m" (memory 5)) (memory 7) (export "memory" (memory 0))', None),
        ('(memory (export "mem") 1)', None),
        ('(memory 1) (func (export "memory"))', None),
        ("", None),
    ],
)
def test_the_limits_of_the_memory_of_that_name(fields: str, limits: Limits | None) -> None:
    assert memory(binary(f"(module {fields})"), "memory") == limits
