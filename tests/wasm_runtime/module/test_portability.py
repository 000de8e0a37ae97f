"""What keeps a module from running in the upstream host, and what it needs beyond WebAssembly 2.0."""

from itertools import combinations

import pytest

from tests.wasm_runtime.guest_modules import binary, export
from wasm_runtime import WasmtimeEngine, abi
from wasm_runtime.engines.wasmtime.proposals import proposals
from wasm_runtime.module.portability import MAIN, obstacles

MEMORY = '(memory (export "memory") 1)'


def served(*names: str) -> str:
    """Functions that answer nothing in particular."""
    results = {name: abi.EXPORTS[name].signature.results for name in names}
    return " ".join(export(name, *(f"({each}.const 0)" for each in result)) for name, result in results.items())


GUEST = f"{MEMORY} {served('filter')}"


def found(engine: WasmtimeEngine, fields: str, *, leaves: bool = False) -> list[str]:
    wasm = binary(f"(module {fields})")
    return obstacles(engine.compile(wasm), proposals(wasm), leaves=leaves)


@pytest.mark.parametrize(
    "fields",
    [
        GUEST,
        f"{MEMORY} {served('prefilter')}",
        f"{MEMORY} {served(*abi.EXPORTS)}",
        f"{MEMORY} {served('prefilter', *abi.OUR_EXPORTS)}",
        f'{GUEST} (func (export "bindingannotations") (param i32))',
        f"{GUEST} {served('enqueue', 'prefilter', 'postfilter', 'normalizescore', 'prebind', 'postbind')}",
        f"{GUEST} {served('addpod', 'removepod', 'reserve', 'unreserve')}",
        f'{GUEST} (func (export "_start"))',
        f'{GUEST} (func (export "_start") (result i32) (i32.const 0))',
        f'{GUEST} (func (export "_start")) (func (export "_initialize"))',
        f'{GUEST} (global (export "_start") i32 (i32.const 0))',
        f'{GUEST} (global (export "score") i32 (i32.const 0))',
        f"{GUEST} (func $s) (start $s)",
        f'{GUEST} (table (export "t") 1 externref) (func (export "any") (param v128 (ref null func)))',
        f'(import "wasi_snapshot_preview1" "fd_seek" (func (param i32 i64 i32 i32) (result i32))) {GUEST}',
        f'(import "k8s.io/klog" "severity" (func (result i32))) {GUEST}',
    ],
)
def test_a_module_that_runs_there(engine: WasmtimeEngine, fields: str) -> None:
    assert found(engine, fields) == []


ALONE = (
    "serves none of filter, score, reserve, permit, bind;"
    " without them the upstream host only takes a plugin that has prefilter alone"
)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (served("filter"), ["exports no memory named 'memory'"]),
        (f'(memory (export "mem") 1) {served("filter")}', ["exports no memory named 'memory'"]),
        (MEMORY, [ALONE]),
        (f"{MEMORY} {served('enqueue')}", [ALONE]),
        (f"{MEMORY} {served('bindingannotations')}", [ALONE]),
        (f"{MEMORY} {served('enqueue', 'prefilter')}", [ALONE]),
        (f"{MEMORY} {served('prefilter', 'addpod', 'removepod')}", [ALONE]),
        (f"{MEMORY} {served('postfilter')}", [ALONE]),
        (f"{MEMORY} {served('prescore')}", [ALONE]),
        (f"{MEMORY} {served('normalizescore')}", [ALONE]),
        (
            f"{GUEST} {served('reserve')}",
            ["exports reserve without unreserve, which the upstream host calls all the same and panics"],
        ),
        (
            f"{MEMORY} {served('unreserve')}",
            ["exports unreserve without reserve, which the upstream host calls all the same and panics"],
        ),
        (
            f"{GUEST} {served('addpod')}",
            ["exports addpod without removepod, which the upstream host calls all the same and panics"],
        ),
        (
            f'{GUEST} (func (export "score") (result i32) (i32.const 0))',
            ["exports score as () -> (i32), the upstream host has () -> (i64)"],
        ),
        (
            f'{GUEST} (func (export "enqueue") (param i32))',
            ["exports enqueue as (i32) -> (), the upstream host has () -> ()"],
        ),
        (
            f'{GUEST} (func (export "_initialize"))',
            ["exports _initialize without _start, which alone the upstream host calls; export it as _start, too"],
        ),
        (
            f'{GUEST} (func (export "_start") (param i32))',
            ["exports _start as (i32) -> (), the upstream host calls it without arguments"],
        ),
        (f'(import "env" "now" (func)) {GUEST}', ["imports env/now, which the upstream host does not have"]),
        (
            f'(import "env" "m" (memory 1)) {served("filter")} (export "memory" (memory 0))',
            ["imports env/m, which the upstream host does not have"],
        ),
        (
            f'(import "wasi_snapshot_preview1" "anything" (func)) {GUEST}',
            ["imports wasi_snapshot_preview1/anything, which the upstream host does not have"],
        ),
        (
            f'(import "wasi_snapshot_preview1" "fd_write" (func)) {GUEST}',
            [
                "imports wasi_snapshot_preview1/fd_write as () -> (),"
                " the upstream host has (i32, i32, i32, i32) -> (i32)"
            ],
        ),
        (
            f'(import "k8s.io/klog" "severity" (global i32)) {GUEST}',
            ["imports k8s.io/klog/severity as global, the upstream host has () -> (i32)"],
        ),
        (
            f'(import "k8s.io/api" "nodes" (func)) (func (export "_initialize")) {served("reserve")}',
            [
                "exports no memory named 'memory'",
                "exports reserve without unreserve, which the upstream host calls all the same and panics",
                "exports _initialize without _start, which alone the upstream host calls; export it as _start, too",
                "imports k8s.io/api/nodes, which the upstream host does not have",
            ],
        ),
    ],
)
def test_an_obstacle(engine: WasmtimeEngine, fields: str, expected: list[str]) -> None:
    assert found(engine, fields) == expected


def test_a_command_that_has_left_cannot_be_called_there(engine: WasmtimeEngine) -> None:
    assert found(engine, f'{GUEST} (func (export "_start"))', leaves=True) == [
        "leaves by exit status 0 in _start, after which the upstream host cannot call it"
    ]


def test_only_some_combinations_of_extension_points_are_taken_there(engine: WasmtimeEngine) -> None:
    points = list(dict.fromkeys(MAIN.values()))
    refused = {
        chosen
        for count in range(1, len(points) + 1)
        for chosen in combinations(points, count)
        if found(engine, f"{MEMORY} {served(*(name for name, point in MAIN.items() if point in chosen))}")
        == [f"serves {', '.join(chosen)}, a combination for which the upstream host has no type of plugin"]
    }
    assert refused == {
        ("reserve", "permit"),
        ("filter", "reserve", "permit"),
        ("filter", "reserve", "bind"),
        ("filter", "permit", "bind"),
        ("score", "reserve", "permit"),
        ("filter", "score", "reserve", "permit"),
        ("score", "reserve", "permit", "bind"),
        ("filter", "reserve", "permit", "bind"),
    }


REFERENCES = "garbage collection or typed references"
SHARED = f'(memory (export "memory") 1 1 shared) {served("filter")}'


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        (SHARED, ["threads"]),
        (f"{GUEST} (func (drop (i32.atomic.load (i32.const 0))))", ["threads"]),
        (f"{GUEST} (func $f (return_call $f))", ["tail calls"]),
        (f"{GUEST} (func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))", ["relaxed SIMD"]),
        (f"{GUEST} (tag $e)", ["exceptions"]),
        (f'{GUEST} (tag (export "e"))', ["exceptions"]),
        (f"{GUEST} (type $s (struct)) (func (param (ref null $s)))", [REFERENCES]),
        (f"{GUEST} (type $f (func)) (func (param (ref $f)))", [REFERENCES]),
        (f"{GUEST} (func (param anyref))", [REFERENCES]),
        (f"{GUEST} (table 1 (ref null func) (ref.null func))", [REFERENCES]),
        (f"{GUEST} (global $a i32 (i32.const 1)) (global i32 (global.get $a))", [REFERENCES]),
        (
            f"{GUEST} (func (param i64)"
            " (i64.add128 (local.get 0) (local.get 0) (local.get 0) (local.get 0)) (drop) (drop))",
            ["wide arithmetic"],
        ),
        (f"{SHARED} (func $f (return_call $f))", ["threads", "tail calls"]),
    ],
)
def test_what_webassembly_2_does_not_have(engine: WasmtimeEngine, fields: str, needed: list[str]) -> None:
    assert found(engine, fields) == [f"uses {each}, which the upstream host does not have" for each in needed]
