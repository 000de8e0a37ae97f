"""The cycle that is measured, what is compared of it, and the upstream host beside it where there is a checkout."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
import wasmtime

from bench.inprocess import cycle, upstream
from bench.inprocess.__main__ import GUESTS, guest_of, line, named_guest, summary
from bench.inprocess.cycle import Answer, Status
from bench.inprocess.rounds import Bounds, Guest, NotComparableError, Row, compare, difference
from bench.inprocess.upstream import HostError
from bench.inprocess.world import Nodes, pods
from wasm_runtime import Plugin, Settings, WasmtimeEngine

CHECKOUT = os.environ.get("KWX_UPSTREAM", "")
ONE_ROUND = Bounds(fewest=1, most=1, seconds=0.0)

KEEPS_ALL = """(func (export "filter") (result i32) (i32.const 0))"""
NODE_4 = """(func (export "prefilter") (result i32)
  (call $names (i32.const 0) (i32.const 13)) (i32.const 0))
  (data (i32.const 0) "worker-00004\\00")"""
REJECTS_ODD = """
  (global $at (mut i32) (i32.const 0))
  (data (i32.const 64) "odd one out")
  (func (export "prefilter") (result i32) (i32.const 0))
  (func (export "filter") (result i32)
    (drop (call $name (i32.const 128) (i32.const 12)))
    (call $reason (i32.const 64) (i32.const 11))
    (i32.shl (i32.and (i32.load8_u (i32.const 139)) (i32.const 1)) (i32.const 1)))"""
SCORES_DIGITS = """
  (func (export "score") (result i64)
    (drop (call $name (i32.const 128) (i32.const 12)))
    (i64.shl (i64.extend_i32_u (i32.sub (i32.load8_u (i32.const 139)) (i32.const 48))) (i64.const 32)))"""


def returns(export: str, code: int) -> str:
    return f'(func (export "{export}") (result i32) (i32.const {code}))'


ODD = {f"worker-{at:05d}": Status(2, "odd one out") for at in (1, 3, 5)}
ANSWERS = {
    "keeps all": (KEEPS_ALL, Answer()),
    "names a node": (NODE_4 + KEEPS_ALL + SCORES_DIGITS, Answer(scores={"worker-00004": 4})),
    "rejects some": (REJECTS_ODD, Answer(rejected=ODD)),
    "rejects some, scores the others": (
        REJECTS_ODD + SCORES_DIGITS,
        Answer(rejected=ODD, scores={"worker-00000": 0, "worker-00002": 2, "worker-00004": 4}),
    ),
    "scores all": (SCORES_DIGITS, Answer(scores={f"worker-{at:05d}": at for at in range(6)})),
    "skips Filter": (returns("prefilter", 5) + returns("filter", 2), Answer(pre_filter=Status(5))),
    "skips Score": (returns("prescore", 5) + SCORES_DIGITS, Answer()),
    "rejects the pod": (returns("prefilter", 3) + KEEPS_ALL + SCORES_DIGITS, Answer(pre_filter=Status(3))),
}
"""Guests and what their cycles come to, on six nodes, in both hosts."""


@pytest.fixture(scope="module")
def engine() -> WasmtimeEngine:
    return WasmtimeEngine()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    return Nodes(6, tmp_path_factory.mktemp("nodes"))


def module(text: str) -> bytes:
    return wasmtime.wat2wasm(f"""(module
      (import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))
      (import "k8s.io/scheduler" "result.node_names" (func $names (param i32 i32)))
      (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
      (memory (export "memory") 1)
      {text})""")


@pytest.fixture
def run(engine: WasmtimeEngine, nodes: Nodes) -> Iterator[Callable[[str], Answer]]:
    """Puts a pod through a cycle of a guest."""
    plugins = []

    def call(text: str) -> Answer:
        plugins.append(Plugin(engine, module(text), Settings("guest")))
        return cycle.run(plugins[-1], nodes.snapshot, nodes.names, next(pods())).answer

    yield call
    for plugin in plugins:
        plugin.close()


@pytest.mark.parametrize(("text", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_a_cycle_comes_to_what_the_guest_says(run: Callable[[str], Answer], text: str, expected: Answer) -> None:
    assert run(text) == expected


def test_a_cycle_tells_of_its_failure(run: Callable[[str], Answer]) -> None:
    assert run(returns("filter", 1)) == Answer("filter of node worker-00000: Error without a reason")


def test_a_cycle_took_time(engine: WasmtimeEngine, nodes: Nodes) -> None:
    plugin = Plugin(engine, module(KEEPS_ALL), Settings("guest"))
    assert cycle.run(plugin, nodes.snapshot, nodes.names, next(pods())).seconds > 0
    plugin.close()


def test_nodes_are_of_4_kilobytes_and_end_in_a_digit(nodes: Nodes) -> None:
    sizes = [len(node) for _, _, node in nodes.snapshot.everything().nodes]
    assert all(3_900 < size < 4_500 for size in sizes)
    assert nodes.names == [f"worker-0000{at}" for at in range(6)]
    assert nodes.file.read_bytes() == nodes.snapshot.node_list()


def test_no_two_pods_are_alike() -> None:
    made = list(islice(pods(), 100))
    assert len({pod.uid for pod in made}) == len({pod.name for pod in made}) == len({pod.object for pod in made}) == 100


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        (Answer(scores={"a": 1}), Answer(scores={"a": 1}), ""),
        (Answer("no"), Answer("no"), "fails there: no"),
        (Answer(), Answer("no"), "fails here: no"),
        (
            Answer(pre_filter=Status(3, "why")),
            Answer(),
            "PreFilter: Status(code=3, reason='why') there, Status(code=0, reason='') here",
        ),
        (
            Answer(rejected={"a": Status(2, "x"), "b": Status(2, "y")}),
            Answer(rejected={"a": Status(2, "x"), "b": Status(2, "z"), "c": Status(3)}),
            "Filter of 2 nodes, as b: Status(code=2, reason='y') there, Status(code=2, reason='z') here",
        ),
        (Answer(scores={"a": 1, "b": 2}), Answer(scores={"a": 1}), "Score of 1 nodes, as b: 2 there, None here"),
    ],
)
def test_what_differs_is_told(theirs: Answer, ours: Answer, expected: str) -> None:
    assert difference(theirs, ours) == expected


def test_a_guest_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.wasm"
    file.touch()
    assert named_guest(f"mine={file}") == Guest("mine", file, ("mine",))


@pytest.mark.parametrize("given", ["mine", "mine=", "=a.wasm", "mine=absent.wasm"])
def test_no_guest_of_the_command_line(given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        named_guest(given)
    assert str(refused.value) == f"{given!r} is no NAME=FILE of a file that is there"


def test_guests_of_a_checkout_are_named_by_their_folder_or_file() -> None:
    assert [
        guest_of(Path("c"), "guest/score/main.wasm", ("a",)),
        guest_of(Path("c"), "test/from_global.wasm", ()),
    ] == [
        Guest("guest/score a", Path("c/guest/score/main.wasm"), ("main", "a")),
        Guest("test/from_global", Path("c/test/from_global.wasm"), ("from_global",)),
    ]


def test_what_is_printed() -> None:
    rows = [Row("a", 500, 0.004, 0.001, 9), Row("b", 500, 0.002, 0.001, 9), Row("a", 5_000, 0.01, 0.012, 5)]
    assert [*map(line, rows), *summary(rows)] == [
        "| a | 500 | 4.000 | 1.000 | 0.25 | 9 |",
        "| b | 500 | 2.000 | 1.000 | 0.50 | 9 |",
        "| a | 5,000 | 10.000 | 12.000 | 1.20 | 5 |",
        "500 nodes: median ratio 0.38 (bar 0.7), worst 0.50 (bar 1.0)  ",
        "5,000 nodes: median ratio 1.20 (bar 0.7), worst 1.20 (bar 1.0)  ",
    ]


def test_a_folder_that_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(HostError) as refused:
        upstream.build(tmp_path, tmp_path)
    missing = "is no checkout of kube-scheduler-wasm-extension: it has no scheduler/go.mod"
    assert str(refused.value) == f"{tmp_path} {missing}"


def test_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "go.mod").touch()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HostError) as refused:
        upstream.build(tmp_path, tmp_path)
    mend = "install Go (https://go.dev/dl/) and put it on PATH"
    assert str(refused.value) == f"the upstream host is built from source and `go` was not found: {mend}"


# ---- beside the host of a checkout


with_upstream = pytest.mark.skipif(
    not CHECKOUT, reason="KWX_UPSTREAM names no checkout of kube-scheduler-wasm-extension"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return upstream.build(Path(CHECKOUT), tmp_path_factory.mktemp("host"))


def written(folder: Path, wasm: bytes) -> Guest:
    file = folder / "guest.wasm"
    file.write_bytes(wasm)
    return Guest("guest", file, ("guest",))


@with_upstream
@pytest.mark.parametrize("text", [text for text, _ in ANSWERS.values()], ids=ANSWERS)
def test_a_cycle_comes_to_the_same_upstream(
    engine: WasmtimeEngine, program: Path, nodes: Nodes, tmp_path: Path, text: str
) -> None:
    row = compare(engine, program, written(tmp_path, module(text)), nodes, ONE_ROUND)
    assert row == Row("guest", 6, row.theirs, row.ours, 1)


@with_upstream
@pytest.mark.parametrize(("file", "arguments"), GUESTS.items(), ids=GUESTS)
def test_guests_of_the_checkout_answer_alike(
    engine: WasmtimeEngine, program: Path, nodes: Nodes, file: str, arguments: tuple[str, ...]
) -> None:
    guest = guest_of(Path(CHECKOUT), file, arguments)
    row = compare(engine, program, guest, nodes, ONE_ROUND)
    assert row == Row(guest.name, 6, row.theirs, row.ours, 1)


@with_upstream
def test_a_guest_that_fails_is_not_compared(
    engine: WasmtimeEngine, program: Path, nodes: Nodes, tmp_path: Path
) -> None:
    guest = written(tmp_path, module('(func (export "filter") (result i32) unreachable)'))
    with pytest.raises(NotComparableError) as refused:
        compare(engine, program, guest, nodes, ONE_ROUND)
    begin = f"{next(pods()).name}: fails there: wasm: filter error: wasm error: unreachable"
    assert str(refused.value).startswith(begin)


@with_upstream
def test_a_guest_that_upstream_refuses(program: Path, nodes: Nodes, tmp_path: Path) -> None:
    guest = written(tmp_path, b"\0asm")
    with pytest.raises(HostError) as refused, upstream.running(program, guest.file, nodes.file, guest.argv):
        pass
    assert str(refused.value).startswith("the upstream host ended: wasm: error compiling guest: ")
