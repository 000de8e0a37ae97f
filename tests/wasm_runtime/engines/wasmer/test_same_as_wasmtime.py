"""Whatever numbers a guest passes to its host, the two engines do the same."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wasm_runtime.guest_modules import POD, binary, types
from tests.wasm_runtime.world import once, world
from wasm_runtime import GuestError, Settings, WasmtimeEngine
from wasm_runtime.abi import EXPORTS, IMPORTS, START, WASI, WASI_HERE, FunctionType, HostDocument, Import, Severity
from wasm_runtime.engine import Call, Engine, Module, NoHandle
from wasm_runtime.engines.wasmer import WasmerEngine
from wasm_runtime.module import wasi

SIZE = 2 * 65_536
NUMBERS = 100_000
"""Where the guests have the numbers that they pass on, 8 bytes each, which are their pod."""
TEXT = 97
NAME = b"node-a"
"""The name of a node, and the UID of a pod that waits. It is in memory at TEXT and every 251 bytes on."""

EDGES = [0, 1, 2, 3, 4, 6, 8, TEXT, 1024, 4096, 4097, 8192, 65_536, SIZE - 8, SIZE - 6, SIZE - 1, SIZE, SIZE + 1]
WRAPS = [2**31 - 1, 2**31, 2**32 - SIZE, 2**32 - 8, 2**32 - 1]
NUMBER = st.one_of(st.sampled_from(EDGES + WRAPS), st.integers(0, SIZE), st.integers(0, 2**32 - 1))

EXIT = Import(WASI, "proc_exit")
RANDOM = Import(WASI, "random_get")
FUNCTIONS = {**IMPORTS, **WASI_HERE, EXIT: wasi.FUNCTIONS[EXIT]}

DOCUMENTS = {document: f"the document {document.name}".encode() for document in HostDocument}
SETTINGS = Settings("plugin", config="settings", log_severity=Severity.WARNING, output_limit=512, timeout=60)


class Waiting:
    """A pod that waits, until it is rejected."""

    def __init__(self) -> None:
        self.uids = {NAME.decode()}

    def waiting_pod(self, uid: str, /) -> bytes | None:
        return b"the pod that waits" if uid in self.uids else None

    def reject_waiting_pod(self, uid: str, /) -> bool:
        waits = uid in self.uids
        self.uids.discard(uid)
        return waits


def guest(function: Import, signature: FunctionType) -> str:
    """A guest that calls a function with numbers, and returns its answer and a sum over all memory."""
    arguments = " ".join(f"({kind}.load (i32.const {NUMBERS + 8 * at}))" for at, kind in enumerate(signature.params))
    asked = f"(call $asked {arguments})"
    body = f"""
      (drop (call $pod (i32.const {NUMBERS}) (i32.const 4096)))
      {f"(local.set $answer {asked})" if signature.results else asked}
      (loop $next
        (local.set $sum (i64.add (i64.load (local.get $at)) (i64.mul (local.get $sum) (i64.const 1099511628211))))
        (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const {SIZE}))))
      (i64.or
        (i64.shl (i64.extend_i32_u (local.get $answer)) (i64.const 32))
        (i64.and (i64.xor (local.get $sum) (i64.shr_u (local.get $sum) (i64.const 32))) (i64.const 0xffffffff)))"""
    locals_ = "(local $answer i32) (local $at i32) (local $sum i64)"
    pattern = NAME.ljust(251, b"\x05")
    memory = bytes(TEXT) + pattern * ((SIZE - TEXT) // len(pattern))
    data = "".join(f"\\{byte:02x}" for byte in memory)
    module, _, name = POD.rpartition("/")
    return f"""(module $guest
      (import "{module}" "{name}" (func $pod (param i32 i32) (result i32)))
      (import "{function.module}" "{function.name}" (func $asked {types(signature)}))
      (memory (export "memory") 2 2)
      (data (i32.const 0) "{data}")
      (func $postfilter (export "postfilter") (result i64) {locals_} {body})
      (func $score (export "score") (result i64) {locals_} {body}))"""


@cache
def wasmtime() -> WasmtimeEngine:
    return WasmtimeEngine()


@cache
def modules(engine: WasmerEngine, function: Import) -> Sequence[Module]:
    """The guest of a function in both engines."""
    wasm = binary(guest(function, wasi.FUNCTIONS.get(function) or IMPORTS[function]))
    engines: list[Engine] = [wasmtime(), engine]
    return [each.compile(wasm) for each in engines]


def outcome(module: Module, export: str, numbers: Sequence[int]) -> Any:
    """All that can be seen of a call."""
    handle = Waiting()
    instance = module.instantiate(SETTINGS, handle)
    nodes = world({NAME.decode(): b"the object of a node"}).nodes
    call = Call(
        nodes,
        time.monotonic() + 60,
        {document: partial(bytes, text) for document, text in DOCUMENTS.items()},
        target=b"the target",
    )
    instance.begin(struct.pack(f"<{len(numbers)}Q", *numbers))
    try:
        result: Any = instance.each(export, call, -1) if EXPORTS[export].on_node else instance.once(export, call)
    except GuestError as error:
        result = (error.fault, str(error), error.fatal, error.exit_code, error.trap)
    seen = (result, call.guest_results, instance.take_journal(), instance.output(), handle.uids)
    instance.close()
    return seen


@pytest.mark.parametrize("function", sorted(FUNCTIONS.keys() - {RANDOM}), ids=str)
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(numbers=st.lists(NUMBER, min_size=8, max_size=8), export=st.sampled_from(["postfilter", "score"]))
def test_of_any_numbers_the_same_comes(engine: WasmerEngine, function: Import, numbers: list[int], export: str) -> None:
    expected, found = (outcome(module, export, numbers) for module in modules(engine, function))
    assert found == expected


POINTER, OTHER = 1024, 2048
FITTING = {
    "args_get": (OTHER,),
    "args_sizes_get": (OTHER,),
    "clock_res_get": (POINTER,),
    "clock_time_get": (0, POINTER),
    "environ_get": (OTHER,),
    "environ_sizes_get": (OTHER,),
    "fd_advise": (0, 0, 1),
    "fd_fdstat_set_flags": (1,),
    "fd_filestat_set_times": (0, 0, 1),
    "fd_read": (POINTER, 1, OTHER),
    "fd_pread": (POINTER, 1, 0, OTHER),
    "fd_pwrite": (POINTER, 1, 0, OTHER),
    "fd_prestat_dir_name": (POINTER, 8),
    "fd_renumber": (1,),
    "fd_seek": (0, 0, OTHER),
    "path_filestat_get": (0, POINTER, 4, OTHER),
    "path_filestat_set_times": (0, POINTER, 4),
    "path_link": (0, POINTER, 4, 3, POINTER, 4),
    "path_open": (0, POINTER, 4, 0, 0, 0, 0, OTHER),
    "sock_accept": (0, OTHER),
    "sock_recv": (POINTER, 1, 0, OTHER, OTHER + 8),
    "sock_send": (POINTER, 1, 0, OTHER),
    "sock_shutdown": (1,),
}
"""Arguments behind the first that wasmtime takes: where one is not aligned or has no meaning, it traps."""

FIRST = {"a": [OTHER - 64], "c": [0, 1, 2, 3], "e": [POINTER], "f": [0, 1, 2, 3, 4], "p": [0, 3], "s": [0, 1, 2, 3, 4]}
"""The first argument, a pointer, clock or descriptor, by the first letter of the functions that take it."""


@pytest.mark.parametrize("function", sorted(wasi.FUNCTIONS.keys() - FUNCTIONS.keys()), ids=str)
def test_of_what_wasmtime_answers_itself_the_error_numbers_are_the_same(engine: WasmerEngine, function: Import) -> None:
    for first in FIRST[function.name[0]]:
        numbers = [first, *FITTING.get(function.name, (POINTER,)), *[0] * 8]
        expected, found = (outcome(module, "postfilter", numbers)[0].high for module in modules(engine, function))
        assert (first, found) == (first, expected)


@pytest.mark.parametrize("name", START)
@pytest.mark.parametrize("status", [0, 1, 125, 126, 2**31, 2**32 - 1])
def test_a_start_leaves_alike(engine: WasmerEngine, name: str, status: int) -> None:
    started = f'(func (export "{name}") (call $exit (i32.const {status})))'
    wasm = binary(
        f'(module (import "{WASI}" "proc_exit" (func $exit (param i32))) (memory (export "memory") 1) {started})'
    )

    def outcome(engine: Engine) -> object:
        try:
            instance = engine.compile(wasm).instantiate(SETTINGS, NoHandle())
        except GuestError as error:
            return error.fault, str(error), error.exit_code
        instance.close()
        return instance.has_left

    expected, found = outcome(wasmtime()), outcome(engine)
    assert found == expected
    assert (found is True) == (status == 0)


CLOSE, SEEK, RENUMBER = (f"{WASI}/{name}" for name in ("fd_close", "fd_seek", "fd_renumber"))


@pytest.mark.parametrize(
    "steps",
    [
        [(CLOSE, 1), (CLOSE, 1), (SEEK, 1, 0, 0, 64), (SEEK, 2, 0, 0, 64)],
        [(RENUMBER, 1, 2), (SEEK, 1, 0, 0, 64), (SEEK, 2, 0, 0, 64), (RENUMBER, 2, 1)],
        [(RENUMBER, 0, 0), (SEEK, 0, 0, 0, 64), (CLOSE, 0), (RENUMBER, 0, 1)],
    ],
)
def test_descriptors_are_closed_alike(engine: WasmerEngine, steps: list[tuple[str, int]]) -> None:
    """The guest returns the error numbers as the digits of a number to the base of 100."""
    code = "(i32.const 0)"
    for function, *arguments in steps:
        kinds = wasi.FUNCTIONS[Import(*function.split("/"))].params
        given = " ".join(f"({kind}.const {each})" for kind, each in zip(kinds, arguments, strict=True))
        code = f"(i32.add (i32.mul {code} (i32.const 100)) (call ${function} {given}))"
    imported = "".join(
        f'(import "{each.module}" "{each.name}" (func ${each} {types(wasi.FUNCTIONS[each])}))'
        for each in {Import(*function.split("/")) for function, *_ in steps}
    )
    wasm = binary(f'(module {imported} (memory (export "memory") 1) (func (export "prefilter") (result i32) {code}))')
    codes = []
    for each in (wasmtime(), engine):
        instance = each.compile(wasm).instantiate(SETTINGS, NoHandle())
        codes.append(once(instance, world()).low)
        instance.close()
    assert codes[0] == codes[1] > 0
