"""Modules of unusual shapes: what is done to load four times as much is about four times as much."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from wasm_runtime import ModuleError, Settings, WasmtimeEngine
from wasm_runtime.engine import NoHandle
from wasm_runtime.module.binary import EMPTY, Interface, interface
from wasm_runtime.module.validate import MAX_IMPORTS_TOLD, validate


def leb(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + leb(rest) if rest else bytes([low])


def sized(content: bytes) -> bytes:
    return leb(len(content)) + content


def section(number: int, items: Sequence[bytes]) -> bytes:
    return bytes([number]) + sized(leb(len(items)) + b"".join(items))


def text(name: str) -> bytes:
    return sized(name.encode())


NO_ARGUMENTS = section(1, [b"\x60\0\1\x7f"])
MEMORY = section(5, [b"\0\1"])
CODE = section(10, [b"\4\0\x41\0\x0b"])
NEEDED = [text("memory") + b"\2\0", text("filter") + b"\0\0"]


def exports(count: int) -> bytes:
    more = [text(f"e{at}") + b"\0\0" for at in range(count)]
    return EMPTY + NO_ARGUMENTS + section(3, [b"\0"]) + MEMORY + section(7, NEEDED + more) + CODE


def exports_of_many_arguments(count: int) -> bytes:
    kind = section(1, [b"\x60" + leb(900) + b"\x7f" * 900 + b"\0"])
    more = [text(f"e{at}") + b"\0\0" for at in range(count)]
    return EMPTY + kind + section(3, [b"\0"]) + section(7, more) + section(10, [b"\2\0\x0b"])


def imports(count: int) -> bytes:
    return EMPTY + NO_ARGUMENTS + section(2, [text("env") + text(f"filte{at}") + b"\0\0" for at in range(count)])


def types(count: int) -> bytes:
    kinds = [b"\x60" + leb(at % 8) + b"\x7f" * (at % 8) + b"\0" for at in range(count)]
    return EMPTY + section(1, kinds)


def functions(count: int) -> bytes:
    return EMPTY + NO_ARGUMENTS + section(3, [b"\0"] * count) + section(10, [b"\4\0\x41\0\x0b"] * count)


def custom_sections(count: int) -> bytes:
    return EMPTY + b"".join(b"\0" + sized(text("name") + b"x") for _ in range(count))


SHAPES = (exports, exports_of_many_arguments, imports, types, functions, custom_sections)


class Found:
    """A module as `validate` looks at it."""

    def __init__(self, found: Interface) -> None:
        self.exports, self.imports = found

    def instantiate(self, *_: object) -> None:
        raise NotImplementedError


def calls(action: Callable[[], object]) -> int:
    """How many functions an action calls, those in C included."""
    count = 0

    def see(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def look(wasm: bytes) -> None:
    found = interface(wasm)
    Interface.from_json(found.to_json())
    try:
        validate(Found(found))  # type: ignore[arg-type]
    except ModuleError as error:
        assert len(str(error)) < 10_000


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_read_is_linear(shape: Callable[[int], bytes]) -> None:
    one, four = (calls(partial(look, shape(count))) for count in (500, 2000))
    assert four < 5 * one


def test_an_instance_has_the_same_done_however_many_exports_there_are(engine: WasmtimeEngine) -> None:
    """wasmtime takes the square of their number to hand all of them over, two minutes for 60,000."""

    def instantiate(count: int) -> int:
        module = engine.compile(exports(count))

        def make() -> None:
            module.instantiate(Settings("plugin", timeout=60), NoHandle()).close()

        make()
        return calls(make)

    assert abs(instantiate(60_000) - instantiate(10)) < 100


def test_of_many_wrong_imports_some_are_told() -> None:
    with pytest.raises(ModuleError) as caught:
        validate(Found(interface(imports(100))))  # type: ignore[arg-type]
    told = [problem for problem in caught.value.problems if problem.startswith("imports ")]
    assert len(told) == MAX_IMPORTS_TOLD
    assert caught.value.problems[-1] == f"and {100 - MAX_IMPORTS_TOLD} more imports that the host does not have so"
