"""Compiling with wasmer: what is refused, and code that is kept."""

from __future__ import annotations

import gc
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.patience import PATIENCE_S
from tests.wasm_runtime.guest_modules import REASON, TEXT, binary, call, export, module
from tests.wasm_runtime.world import filter_nodes, world
from wasm_runtime import ModuleError, Plugin, Settings
from wasm_runtime.compile.cache import CompileCache
from wasm_runtime.compile.compiler import Compiled, Compiler
from wasm_runtime.engine import Engine, NodeResults
from wasm_runtime.engines.wasmer import WasmerEngine
from wasm_runtime.module.binary import interface

GUEST = module(export("filter", call(REASON, TEXT, 5), "(i32.const 2)"), uses=[REASON], text="hello")
ANSWER = NodeResults(1, b"\x02", [], ["hello"])
ONE = world({"node-a": b"A"})


def answer(engine: Engine) -> NodeResults:
    plugin = Plugin(engine, binary(GUEST), Settings("plugin", timeout=30))
    try:
        return filter_nodes(plugin, ONE)
    finally:
        plugin.close()


def problem(engine: WasmerEngine, wasm: bytes) -> str:
    with pytest.raises(ModuleError) as caught:
        engine.compile(wasm)
    (found,) = caught.value.problems
    return found


FILTER = export("filter", "(i32.const 0)")
UNKNOWN = {
    "(func $f (return_call $f))": "tail calls support is not enabled",
    "(memory 1)": "multiple memories",
    "(tag $e) (func (throw $e))": "Exceptions support is not enabled",
    "(memory 1 1 shared)": "threads must be enabled for shared memories",
    "(type $s (struct))": "invalid leading byte in type definition",
    "(global i32 (i32.add (i32.const 1) (i32.const 2)))": "constant expression required",
}
"""What wasmtime can do and wasmer's validator does not know, and its words for it."""


@pytest.mark.parametrize("field", UNKNOWN)
def test_what_is_newer_than_wasmer_is_not_valid(engine: WasmerEngine, field: str) -> None:
    memory = "" if "memory" in field and "shared" in field else '(memory (export "memory") 1)'
    found = problem(engine, binary(f"(module {memory} {field} {FILTER})"))
    assert found.startswith("is no valid WebAssembly module: ")
    assert UNKNOWN[field] in found


def test_what_wasmer_cannot_translate_is_refused_though_it_is_valid(engine: WasmerEngine) -> None:
    popcnt = "(func (drop (i8x16.popcnt (v128.const i64x2 1 2))))"
    assert problem(engine, binary(f"(module {popcnt})")) == (
        "uses what wasmer cannot do: WebAssembly translation error:"
        " Unsupported feature: proposed simd operator I8x16Popcnt"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('(module (import "a" "b" (tag)))', "not implemented: module linking not implemented yet"),
        (
            f'(module (func (export "f") (result {"i64 " * 900}) unreachable))',
            "trampoline compilation should not produce external symbol relocs",
        ),
    ],
)
def test_where_wasmer_panics_the_module_is_refused(
    engine: WasmerEngine, capfd: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert problem(engine, binary(text)) == f"uses what wasmer cannot do: {said}"
    assert answer(engine) == ANSWER
    assert f"panicked at '{said}'" in capfd.readouterr().err


def test_text_is_not_taken_for_a_module(engine: WasmerEngine) -> None:
    """wasmer would compile it."""
    assert problem(engine, GUEST.encode()) == (
        "is no valid WebAssembly module: begins with b'(mod', not with b'\\x00asm'"
    )


def test_compiled_code_can_be_loaded_by_another_engine(engine: WasmerEngine) -> None:
    compiled = engine.precompile(binary(GUEST))
    assert compiled.interface == interface(binary(GUEST))
    other = pickle.loads(pickle.dumps(engine))
    assert (other.name, other.version) == (engine.name, engine.version)
    assert other.thread is not engine.thread
    assert answer(SimpleNamespace(compile=lambda _: other.load(compiled))) == ANSWER


@pytest.mark.parametrize("code", [b"", b"nonsense", b"\0wasmer-universal", b"\x7fELF" + bytes(200)])
def test_code_of_another_engine_is_refused(engine: WasmerEngine, code: bytes) -> None:
    with pytest.raises(ModuleError) as caught:
        engine.load(Compiled(interface(binary(GUEST)), code))
    said = "incompatible binary: The provided bytes are not wasmer-universal"
    assert caught.value.problems == [f"is no code for this engine: {said}"]


def test_the_version_names_release_and_processor(engine: WasmerEngine) -> None:
    assert re.fullmatch(r"1\.1\.0-[0-9a-f]{16}", engine.version)


def test_a_child_process_compiles_for_it_and_the_cache_keeps_it(engine: WasmerEngine, tmp_path: Path) -> None:
    def kept() -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in tmp_path.iterdir()}

    assert answer(Compiler(engine, CompileCache(tmp_path), 300)) == ANSWER
    before = kept()
    assert [name.startswith(f"wasmer-{engine.version}-") for name in before] == [True]
    assert answer(Compiler(engine, CompileCache(tmp_path), 300)) == ANSWER
    assert kept() == before


def test_an_engine_and_its_modules_may_be_used_and_dropped_in_any_thread(engine: WasmerEngine) -> None:
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(answer, [engine] * 16)) == [ANSWER] * 16
        modules = list(threads.map(engine.compile, [binary(GUEST)] * 4))
        threads.submit(modules.clear).result(PATIENCE_S)
    gc.collect()
