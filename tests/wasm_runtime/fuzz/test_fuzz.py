"""A short run of the search for modules that the runtime cannot take, and that a long one tells what it finds."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.wasm_runtime.fuzz.__main__ import WORKER, keep
from tests.wasm_runtime.fuzz.campaign import ROOT, Campaign, Finding
from tests.wasm_runtime.fuzz.cases import Cases
from tests.wasm_runtime.fuzz.invent import invent
from tests.wasm_runtime.fuzz.mutate import join, mutate, split
from tests.wasm_runtime.fuzz.play import Player
from wasm_runtime import ModuleError, WasmtimeEngine

MODULES = 600
SEED = 1


def test_a_short_run_finds_nothing() -> None:
    assert list(Campaign([*WORKER, str(SEED)]).run(lambda number: number < MODULES)) == []


@pytest.fixture(scope="module")
def cases() -> Cases:
    return Cases(SEED)


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
def test_play(wasm: bytes, end: str) -> None:
    assert Player().play(wasm) == end


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
    )


def test_the_command(tmp_path: Path, cases: Cases) -> None:
    ran = command("--minutes", "0", "--seed", "5", "--corpus", str(tmp_path / "corpus"))
    assert (ran.stdout, ran.stderr) == ("", "seed 5\n" + 2 * "0 modules, 0 findings, 0 s left\n")
    module = tmp_path / "good.wasm"
    module.write_bytes(cases._good[0])
    assert command("--replay", str(module), str(module)).stdout == f"{module}: played\n" * 2
