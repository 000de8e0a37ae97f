"""A short run of the search for modules that the runtime cannot take, and that a long one tells what it finds."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.patience import PATIENCE_S
from tests.wasm_runtime.fuzz.__main__ import WORKER, keep
from tests.wasm_runtime.fuzz.campaign import ROOT, Campaign, Finding
from tests.wasm_runtime.fuzz.cases import Cases
from tests.wasm_runtime.fuzz.invent import invent
from tests.wasm_runtime.fuzz.mutate import join, mutate, split
from tests.wasm_runtime.fuzz.play import FEW, Player
from tests.wasm_runtime.guest_modules import NODE_NAME, REASON, binary, call, export, imports, module
from wasm_runtime import ModuleError, WasmtimeEngine
from wasm_runtime.abi import EXPORTS, RESIDENT
from wasm_runtime.module.binary import interface

MODULES = 600
SEED = 1


def test_a_short_run_finds_nothing() -> None:
    assert list(Campaign([*WORKER, str(SEED)]).run(lambda number: number < MODULES)) == []


@pytest.fixture(scope="module")
def cases() -> Cases:
    return Cases(SEED)


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", FEW)
    return Player()


def test_a_module_can_be_made_again(cases: Cases) -> None:
    assert [cases[number] for number in range(50)] == [Cases(SEED)[number] for number in range(50)]
    assert [cases[number] for number in range(50)] != [Cases(SEED + 1)[number] for number in range(50)]
    assert len({cases[number] for number in range(50)}) > 45


def valid(engine: WasmtimeEngine, wasm: bytes) -> bool:
    try:
        engine.compile(wasm)
    except ModuleError:
        return False
    return True


def test_most_invented_guests_are_valid_and_many_mutated_ones(engine: WasmtimeEngine, cases: Cases) -> None:
    """Or little but the refusal of modules would be tried."""
    good = cases._good
    invented = [invent(Random(number)) for number in range(50)]
    mutated = [mutate(Random(number), good[number % len(good)], good[0]) for number in range(200)]
    assert sum(valid(engine, wasm) for wasm in invented) == 50
    assert 40 < sum(valid(engine, wasm) for wasm in mutated) < 160


def test_invented_guests_have_every_export_between_them() -> None:
    """Guests that keep nodes and pods among them, and are told of some."""
    exported = [interface(invent(Random(number))).exports for number in range(50)]
    assert {*EXPORTS, *RESIDENT} <= {name for exports in exported for name in exports}


def test_a_module_is_the_sum_of_its_sections(cases: Cases) -> None:
    for wasm in cases._good:
        assert join(split(wasm)) == wasm


@pytest.mark.parametrize(
    ("wasm", "end"),
    [
        (b"", "refused"),
        (b"\0asm\1\0\0\0", "refused"),
        (Cases(SEED)._good[0], "played"),
    ],
)
def test_play(player: Player, wasm: bytes, end: str) -> None:
    assert player.play(wasm) == end


WAITING = "k8s.io/scheduler/handle.get_waiting_pod"
NAMES = "k8s.io/scheduler/result.node_names"
SEVERITY = "k8s.io/klog/severity"
YIELD = '(import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))'
CLOSE = '(import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))'
LEAVE = '(import "wasi_snapshot_preview1" "proc_exit" (func $leave (param i32)))'
POINTS = [name for name, each in EXPORTS.items() if each.signature.results == ("i32",)]

KEPT = {
    "an import that is an extension point": (
        module(f'(export "filter" (func ${SEVERITY}))', uses=[SEVERITY]),
        "played",
    ),
    "one of the engine's that is one": (
        f'(module {YIELD} (memory (export "memory") 1) (export "filter" (func $yield)))',
        "played",
    ),
    "those of the engine's that are told of pods": (
        f'(module {CLOSE} {LEAVE} (memory (export "memory") 1) (export "podbuffer" (func $close))'
        f' (export "pendingpodschanged" (func $leave)) {export("filter", "(i32.const 0)")})',
        "not made",
    ),
    "one import twice, as two types": (
        f'(module (import "k8s.io/klog" "severity" (func (param i64))) {imports(SEVERITY)}'
        f' (memory (export "memory") 1) {export("filter", "(i32.const 0)")})',
        "not made",
    ),
    "a memory without a page": (
        module(export("filter", call(NAMES, 0, 0), call(WAITING, 0, 0, 0, 0), "(i32.const 0)"), uses=[NAMES, WAITING])
        .replace('"memory") 1', '"memory") 0 0')
        .replace('(data (i32.const 1024) "")', ""),
        "played",
    ),
    "one function for all": (
        module(
            "(func $one (result i32) (i32.const 0))",
            *(f'(export "{name}" (func $one))' for name in POINTS),
            export("score", "(i64.const 0)"),
        ),
        "played",
    ),
    "one that calls the host down to the last byte of the stack": (
        module(
            "(func $deep (result i32)",
            call(WAITING, 0, 8, 64, 64),
            "(i32.add (i32.const 1) (call $deep)))",
            export("filter", "(call $deep)"),
            uses=[WAITING],
        ),
        "played",
    ),
    "reasons handed over while it is told of nodes": (
        module(
            '(func (export "nodechanged") (param i32) (memory.fill (i32.const 0) (i32.const 127) (i32.const 4096))',
            call(REASON, 0, 4096),
            f"(drop {call(NODE_NAME, 4096, 512)}))",
            '(func (export "noderemoved") (param i32)',
            call(REASON, 0, 4096),
            ")",
            export("filter", "(i32.const 0)"),
            uses=[REASON, NODE_NAME],
        ),
        "played",
    ),
    "UIDs and names of megabytes": (
        module(
            export("filter", call(WAITING, 0, 10 << 20, 64, 64), call(NAMES, 0, 8 << 20), "(i32.const 0)"),
            export("prefilter", call(NAMES, 0, 8 << 20), "(i32.const 0)"),
            uses=[WAITING, NAMES],
            pages="200",
        ),
        "played",
    ),
}
"""Modules that are out for trouble. What a run finds is added here, with what is to become of it."""


@pytest.mark.parametrize("name", KEPT)
def test_modules_that_are_kept(player: Player, name: str) -> None:
    text, end = KEPT[name]
    assert player.play(binary(text)) == end


PATIENCE = 3.0


def campaign(body: str) -> Iterator[Finding]:
    """A run of ten modules with a worker that does with the module of a number what the body says."""
    text = f"""
import json, os, sys, time
for number in range(int(sys.argv[1]), 1000):
    print(number, flush=True)
    {body}
"""
    return Campaign([sys.executable, "-c", text], patience=PATIENCE).run(lambda number: number < 10)


@pytest.mark.parametrize(
    ("body", "findings"),
    [
        ("pass", []),
        ("number in (2, 9) and os.abort()", [Finding(2, "ended by SIGABRT"), Finding(9, "ended by SIGABRT")]),
        ("number == 0 and os.kill(os.getpid(), 11)", [Finding(0, "ended by SIGSEGV")]),
        ("number == 4 and sys.exit('no more')", [Finding(4, "ended with status 1\nno more")]),
        (
            "number % 4 == 3 and print(json.dumps('wrong'), flush=True)",
            [Finding(3, "wrong"), Finding(7, "wrong")],
        ),
        ("number == 5 and time.sleep(60)", [Finding(5, "takes more than 3 s")]),
    ],
)
def test_what_a_module_does_to_the_worker_is_told_and_the_run_goes_on(body: str, findings: list[Finding]) -> None:
    assert list(campaign(body)) == findings


def test_a_worker_that_does_not_begin_is_no_finding() -> None:
    with pytest.raises(RuntimeError, match=r"^the worker does not begin: no such seed$"):
        list(Campaign([sys.executable, "-c", "import sys; sys.exit('no such seed')"]).run(lambda _: True))


def test_a_finding_is_kept_with_what_it_did(tmp_path: Path) -> None:
    path = keep(Finding(7, "ended by SIGSEGV"), b"\0asm", tmp_path / "new" / "corpus", seed=3)
    assert path == tmp_path / "new" / "corpus" / "3-7.wasm"
    assert (path.read_bytes(), path.with_suffix(".txt").read_text()) == (b"\0asm", "ended by SIGSEGV\n")


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.wasm_runtime.fuzz", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )


def test_the_command(tmp_path: Path, cases: Cases) -> None:
    ran = command("--minutes", "0", "--seed", "5", "--corpus", str(tmp_path / "corpus"))
    assert (ran.stdout, ran.stderr) == ("", "seed 5\n" + 2 * "0 modules, 0 findings, 0 s left\n")
    module = tmp_path / "good.wasm"
    module.write_bytes(cases._good[0])
    assert command("--replay", str(module), str(module)).stdout == f"{module}: played\n" * 2
