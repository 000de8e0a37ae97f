"""What is said of a module that cannot be a guest, before anything of it runs."""

import pytest

from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import export, module
from tests.wasm_runtime.world import filter_nodes, world
from wasm_runtime import GuestError, ModuleError, WasmtimeEngine, abi
from wasm_runtime.engine import NodeResults

NOOP = export("filter", "(i32.const 0)")
MEMORY = '(memory (export "memory") 1)'
NO_MEMORY = "exports no memory named 'memory': the host hands everything to a guest through it"
NO_POINT = (
    "exports no extension point; it needs at least one of enqueue, prefilter, addpod, removepod, filter, postfilter,"
    " prescore, score, normalizescore, reserve, bindingannotations, unreserve, permit, prebind, bind, postbind"
)


def problems(load: Loader, text: str) -> list[str]:
    with pytest.raises(ModuleError) as caught:
        load.plugin(text)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (NOOP, [NO_MEMORY]),
        (f"(memory 1) {NOOP}", [NO_MEMORY]),
        (f'(memory (export "mem") 1) {NOOP}', [NO_MEMORY]),
        (f'(func (export "memory")) {NOOP}', [NO_MEMORY]),
        (f'(global (export "memory") i32 (i32.const 0)) {NOOP}', [NO_MEMORY]),
        (MEMORY, [NO_POINT]),
        (f'{MEMORY} (func (export "Filter") (result i32) (i32.const 0))', [NO_POINT]),
        (f'{MEMORY} (func (export "filter"))', ["exports filter as () -> (), the ABI has () -> (i32)"]),
        (
            f'{MEMORY} (func (export "filter") (param i32 i64) (result f32 f64) unreachable)',
            ["exports filter as (i32, i64) -> (f32, f64), the ABI has () -> (i32)"],
        ),
        (
            f'{MEMORY} (func (export "filter") (param v128 externref (ref null func)) unreachable)',
            ["exports filter as (v128, externref, funcref) -> (), the ABI has () -> (i32)"],
        ),
        (
            f'{MEMORY} (global (export "filter") i32 (i32.const 0))',
            ["exports filter as global, the ABI has () -> (i32)"],
        ),
        (f'{MEMORY} (table (export "filter") 1 funcref)', ["exports filter as table, the ABI has () -> (i32)"]),
        (f'{MEMORY} (tag (export "filter"))', ["exports filter as tag, the ABI has () -> (i32)"]),
        (
            f'{MEMORY} (func (export "score") (result i32) (i32.const 0))',
            ["exports score as () -> (i32), the ABI has () -> (i64)"],
        ),
        (
            f"{MEMORY} {export('prescore', '(i32.const 0)')}",
            ["exports prescore without score, so it would never be called"],
        ),
        (
            f"{MEMORY} {export('normalizescore', '(i32.const 0)')} {export('prescore', '(i32.const 0)')}",
            [
                "exports prescore without score, so it would never be called",
                "exports normalizescore without score, so it would never be called",
            ],
        ),
        (
            f'{MEMORY} {NOOP} (func (export "_start") (param i32))',
            ["exports _start as (i32) -> (), the ABI has () -> ()"],
        ),
        (
            f'{MEMORY} {NOOP} (func (export "_initialize") (result i64 i64) (i64.const 0) (i64.const 0))',
            ["exports _initialize as () -> (i64, i64), the ABI has () -> ()"],
        ),
        (
            f'{MEMORY} {NOOP} (global (export "_start") i32 (i32.const 0))',
            ["exports _start as global, the ABI has () -> ()"],
        ),
        (
            f'(import "env" "now" (func)) {MEMORY} {NOOP}',
            ["imports env/now, which the host does not have"],
        ),
        (
            f'(import "k8s.io/scheduler" "currentNodeNames" (func)) {MEMORY} {NOOP}',
            [
                "imports k8s.io/scheduler/currentNodeNames, which the host does not have;"
                " the nearest that it has is k8s.io/scheduler/currentNodeName"
            ],
        ),
        (
            f'(import "k8s.io/klog" "log" (func (param i32) (result i64))) {MEMORY} {NOOP}',
            ["imports k8s.io/klog/log as (i32) -> (i64), the host has (i32, i32, i32) -> ()"],
        ),
        (
            f'(import "k8s.io/klog" "severity" (global i32)) {MEMORY} {NOOP}',
            ["imports k8s.io/klog/severity as global, the host has () -> (i32)"],
        ),
        (
            f'(import "k8s.io/klog" "severity" (func (param v128) (result (ref any)))) {MEMORY} {NOOP}',
            ["imports k8s.io/klog/severity as (v128) -> ((ref any)), the host has () -> (i32)"],
        ),
    ],
)
def test_a_problem(load: Loader, fields: str, expected: list[str]) -> None:
    assert problems(load, f"(module {fields})") == expected


KEEPS = '(func (export "nodechanged") (param i32)) (func (export "noderemoved") (param i32))'
TOLD = '(func (export "{}") (param i32))'
LISTS = '(func (export "{}") (param i32) (result i32) (i32.const 0))'


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ('(func (export "nodechanged") (param i32))', ["exports nodechanged without noderemoved"]),
        ('(func (export "noderemoved") (param i32))', ["exports noderemoved without nodechanged"]),
        (LISTS.format("filternodes"), ["exports filternodes without nodechanged, nodebuffer"]),
        (f"{KEEPS} {LISTS.format('filternodes')}", ["exports filternodes without nodebuffer"]),
        (LISTS.format("scorenodes"), ["exports scorenodes without nodechanged, nodebuffer, score"]),
        (
            f"{KEEPS} {LISTS.format('nodebuffer')} {LISTS.format('scorenodes')}",
            ["exports scorenodes without score"],
        ),
        (TOLD.format("podschanged"), ["exports podschanged without nodechanged, podbuffer"]),
        (f"{KEEPS} {TOLD.format('podschanged')}", ["exports podschanged without podbuffer"]),
        (TOLD.format("pendingpodschanged"), ["exports pendingpodschanged without podbuffer"]),
        (TOLD.format("groupschanged"), ["exports groupschanged without podbuffer"]),
        (TOLD.format("memberschanged"), ["exports memberschanged without groupschanged"]),
        ('(func (export "nodebuffer"))', ["exports nodebuffer as () -> (), the ABI has (i32) -> (i32)"]),
        (
            '(func (export "nodechanged")) (func (export "collectgarbage") (param i32))',
            [
                "exports nodechanged as () -> (), the ABI has (i32) -> ()",
                "exports collectgarbage as (i32) -> (), the ABI has () -> ()",
                "exports nodechanged without noderemoved",
            ],
        ),
    ],
)
def test_a_problem_of_a_guest_that_keeps_nodes(load: Loader, fields: str, expected: list[str]) -> None:
    assert problems(load, f"(module {MEMORY} {NOOP} {fields})") == expected


@pytest.mark.parametrize("name", abi.EXPORTS)
def test_every_export_is_checked(load: Loader, name: str) -> None:
    others = export("score", "(i64.const 0)") if name in {"prescore", "normalizescore"} else ""
    found = problems(load, module(others, f'(func (export "{name}") (param i32))'))
    assert found == [f"exports {name} as (i32) -> (), the ABI has {abi.EXPORTS[name].signature}"]


@pytest.mark.parametrize("function", abi.IMPORTS, ids=str)
def test_every_import_is_checked(load: Loader, function: abi.Import) -> None:
    text = f'(module (import "{function.module}" "{function.name}" (func (param f32))) {MEMORY} {NOOP})'
    assert problems(load, text) == [f"imports {function} as (f32) -> (), the host has {abi.IMPORTS[function]}"]


def test_all_problems_at_once(load: Loader) -> None:
    text = """(module
      (import "k8s.io/api" "nodes" (func))
      (import "k8s.io/klog" "log" (func))
      (import "wasi_snapshot_preview1" "anything" (func))
      (func (export "filter") (result i64) (i64.const 0))
      (func (export "prescore") (param i32))
      (func (export "_start") (param i32)))"""
    assert problems(load, text) == [
        NO_MEMORY,
        "exports _start as (i32) -> (), the ABI has () -> ()",
        "exports filter as () -> (i64), the ABI has () -> (i32)",
        "exports prescore as (i32) -> (), the ABI has () -> (i32)",
        "exports prescore without score, so it would never be called",
        "imports k8s.io/api/nodes, which the host does not have; the nearest that it has is k8s.io/api/node",
        "imports k8s.io/klog/log as () -> (), the host has (i32, i32, i32) -> ()",
        "imports wasi_snapshot_preview1/anything, which the host does not have",
    ]


@pytest.mark.parametrize(
    ("imported", "problem"),
    [
        ('"anything" (func)', "imports wasi_snapshot_preview1/anything, which the host does not have"),
        (
            '"fd_write" (func (param i64))',
            "imports wasi_snapshot_preview1/fd_write as (i64) -> (), the host has (i32, i32, i32, i32) -> (i32)",
        ),
        (
            '"random_get" (global i32)',
            "imports wasi_snapshot_preview1/random_get as global, the host has (i32, i32) -> (i32)",
        ),
    ],
)
def test_imports_from_wasi_are_checked_alike(load: Loader, imported: str, problem: str) -> None:
    assert problems(load, f'(module (import "wasi_snapshot_preview1" {imported}) {NOOP} {MEMORY})') == [problem]


@pytest.mark.parametrize(
    "wasm",
    [
        b"",
        b"\0",
        b"\0asm",
        b"\0asm\x01\0\0",
        b"\0asm\x02\0\0\0",
        b"\0asm\x01\0\0\0\x01",
        b"\0asm\x01\0\0\0\x01\x05",
        b"\x7fELF" + bytes(100),
        b"hello",
        b"(module",
        b"(component)",
        b'(module (func (export "filter") (result i32)))',
        b"(module (memory i64 1))",
        "(module größe)".encode(),
        b"\xff\xfe\xfd",
    ],
)
def test_bytes_that_are_no_module(engine: WasmtimeEngine, wasm: bytes) -> None:
    with pytest.raises(ModuleError) as caught:
        engine.compile(wasm)
    (problem,) = caught.value.problems
    assert problem.startswith("is no valid WebAssembly module: ")
    assert "\n" not in problem


def test_shared_memory_is_refused(load: Loader) -> None:
    with pytest.raises(GuestError, match=r"^instantiate: shared memory support is disabled"):
        load.plugin(f'(module (memory (export "memory") 1 1 shared) {NOOP})')


@pytest.mark.parametrize(
    "extra",
    [
        '(func (export "x") (param v128))',
        '(func (export "x") (param anyref) (result i31ref) unreachable)',
        '(func (export "x") (param exnref))',
        '(func (export "x") (param (ref func)))',
        '(type $t (func)) (func (export "x") (param (ref null $t)) (result (ref $t)) unreachable)',
        '(type $s (struct (field i8) (field (mut i64)))) (func (export "x") (param (ref $s)))',
        '(type $a (array (mut i16))) (func (export "x") (result (ref null $a)) unreachable)',
        '(rec (type $f (func (param (ref null $s)))) (type $s (struct))) (func (export "x") (type $f))',
        '(type $p (sub (struct))) (type $c (sub final $p (struct (field i32)))) (func (export "x") (param (ref $c)))',
        '(global (export "x") (mut anyref) (ref.null any))',
        '(global (export "x") v128 (v128.const i64x2 0 0))',
        '(table (export "x") 1 externref)',
        '(table (export "x") 3 (ref null func))',
        '(tag (export "x") (param i32))',
    ],
)
def test_other_exports_may_be_of_any_type(load: Loader, extra: str) -> None:
    """Also of those that the engine's C API ends the process for, when it is asked."""
    plugin = load.plugin(f"(module {MEMORY} {extra} {NOOP})")
    assert filter_nodes(plugin, world()) == NodeResults(2, b"", [], [])


def test_a_component_is_told_from_a_module_that_is_none(engine: WasmtimeEngine) -> None:
    with pytest.raises(ModuleError, match=r"^is a WebAssembly component, not a core module: "):
        engine.compile(b"\0asm\x0d\0\x01\0")
