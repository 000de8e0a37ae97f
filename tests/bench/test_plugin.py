"""The plugin level measures what is there: delays that are injected, answers that differ, runs that go on."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import wasmtime
from typer.testing import CliRunner

from bench import cli
from bench.controlplane.process import comes_true
from bench.peers import gopeer, objects
from bench.peers.nodelist import node_list
from bench.plugin import interpreter
from bench.plugin.cases import CASES, EFFORTS, CaseSpec, Effort, Kind
from bench.plugin.interpreter import Interpreter, InterpreterError, look, own
from bench.plugin.ledger import Ledger
from bench.plugin.measure import Means, measure, take_turns
from bench.plugin.rounds import (
    MOST,
    WARM_UP,
    DifferentAnswersError,
    best,
    difference,
    first_pod,
    how_many,
    play,
    warm_up,
)
from bench.plugin.subject import Answer, Reply, Status, Subject, SubjectError, Took
from bench.plugin.swaps import stamped
from bench.plugin.turns import Quiet, Replay, Turn
from bench.plugin.variants import WAYS, MeasuredModule, Setup, Started, starting
from bench.plugin.workload import PERIOD, Cycle, Recorded, Synthetic
from bench.progress import Meter
from bench.run import PARTS, Case, Machine, Run, RunError
from bench.statistics import parts, quantile, ratio
from extender.commands.traffic import recording
from tests.patience import Beside, delay
from wasm_runtime.protobuf import encode_pod

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

NODES = 20
CYCLES = 8
FEW = 5
HEADROOM = MeasuredModule(cli._headroom().absolute())
DELAY = 0.1
"""Seconds, injected."""
ROOM = 0.09
"""What else may be in a part that has a delay, and all that may be in one that has none, in seconds; in the middle of
FEW cycles, so that one or two may stall."""

SPINS = f"""
    (module
      (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "filter") (result i32) (local $end i64)
        (if (i32.load8_u (i32.const 16)) (then (return (i32.const 0))))
        (i32.store8 (i32.const 16) (i32.const 1))
        (call $now)
        (local.set $end (i64.add (i64.load (i32.const 0)) (i64.const {int(DELAY * 1e9)})))
        (loop $again
          (call $now)
          (br_if $again (i64.lt_u (i64.load (i32.const 0)) (local.get $end))))
        (i32.const 0))
      (func (export "prefilter") (result i32) (i32.store8 (i32.const 16) (i32.const 0)) (i32.const 0))
      (func $now (drop (call $clock (i32.const 1) (i64.const 1) (i32.const 0)))))"""
"""A guest whose first Filter of a pod takes DELAY."""


@contextmanager
def started(
    folder: Path, guest: MeasuredModule, *names: str, nodes: int = NODES, plugins: int = 1
) -> Iterator[tuple[Mapping[str, Started], Synthetic]]:
    """Variants that are ready."""
    workload = Synthetic(nodes)
    setup = Setup(folder, guest, workload, ExitStack(), plugins=plugins)
    with starting(setup, names) as (found, left_out):
        assert left_out == {}
        yield found, workload


def module(folder: Path, text: str) -> MeasuredModule:
    file = folder / "guest.wasm"
    file.write_bytes(wasmtime.wat2wasm(text))
    return MeasuredModule(file, has_peers=False)


class Delayed(BaseHTTPRequestHandler):
    """An extender in which some parts take long."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    delays: Mapping[str, float] = {}
    spent: Mapping[str, dict[str, float]] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verb, args = self.path.strip("/"), json.loads(body)
        for part in ("decode", "map", "guest", "encode"):
            begun = time.perf_counter()
            delay(self.delays.get(part, 0.0))
            self.spent[verb][part] = self.spent[verb].get(part, 0.0) + time.perf_counter() - begun
        delay(self.delays.get("transport", 0.0))
        names = args["NodeNames"]
        answer: Any = {"NodeNames": names} if verb == "filter" else [{"Host": name, "Score": 1} for name in names]
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def delayed(folder: Path, delays: Mapping[str, float]) -> Iterator[Started]:
    """kube-scheduler's client of an extender with delays."""
    spent: dict[str, dict[str, float]] = {"filter": {}, "prioritize": {}}
    handler = type("Handler", (Delayed,), {"delays": delays, "spent": spent})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        beside = Beside(server.serve_forever)
        nodes = folder / "nodes.pb"
        nodes.write_bytes(node_list(Synthetic(NODES).nodes.values()))
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            with Subject("delayed", [gopeer.program("player"), "http", "-nodes", nodes, "-url", url]) as subject:
                subject.ready()
                yield Started(subject, spent=lambda: gopeer.spent(json.dumps({"seconds": spent})))
        finally:
            server.shutdown()
            beside.end()


@pytest.mark.parametrize("part", ["transport", "decode", "map", "guest", "encode"])
def test_a_delay_in_an_extender_is_found_in_its_part(part: str, tmp_path: Path) -> None:
    workload = Synthetic(NODES)
    with delayed(tmp_path, {part: DELAY}) as extender:
        extender.subject.ask(workload.cycle(0))
        found = [play(extender, [workload.cycle(at)]) for at in range(FEW)]
    for verb in ("filter", "prioritize"):
        parts = middle(each.parts[verb] for each in found)
        assert list(parts) == list(PARTS)
        assert {name: delay_of(value) for name, value in parts.items()} == {name: name == part for name in PARTS}
    whole = middle({metric: samples[0] for metric, samples in each.samples.items()} for each in found)
    assert DELAY <= whole["filter"] <= DELAY + ROOM
    assert DELAY <= whole["prioritize"] <= DELAY + ROOM
    assert 2 * DELAY <= whole["cycle"] <= 2 * (DELAY + ROOM)


def middle(rounds: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The median of each over the rounds, in seconds."""
    each = list(rounds)
    return {name: median(times[name] for times in each) / 1e6 for name in each[0]}


def delay_of(seconds: float) -> bool:
    """Whether a part has the delay. What has neither that nor nothing fails the test."""
    assert 0 <= seconds < ROOM or DELAY <= seconds <= DELAY + ROOM, seconds
    return seconds >= DELAY


@pytest.mark.parametrize("variant", ["wasmtime", "kwx"])
def test_a_delay_in_a_guest_is_found_in_the_guest(variant: str, tmp_path: Path) -> None:
    with started(tmp_path, module(tmp_path, SPINS), variant) as (variants, workload):
        extender = variants[variant]
        extender.subject.ask(workload.cycle(0))
        found = [play(extender, [workload.cycle(at)]) for at in range(FEW)]
    parts = middle(each.parts["filter"] for each in found)
    assert {name for name, value in parts.items() if delay_of(value)} == {"guest"}
    assert DELAY <= middle({"filter": each.samples["filter"][0]} for each in found)["filter"] <= DELAY + 2 * ROOM
    assert max(middle(each.parts["prioritize"] for each in found).values(), default=0.0) < ROOM


@pytest.mark.parametrize("plugins", [1, 3])
def test_all_variants_answer_alike_and_their_parts_are_no_more_than_the_whole(plugins: int, tmp_path: Path) -> None:
    names = [name for name in WAYS if name not in {"upstream", "wasmer"}]
    with started(tmp_path, HEADROOM, *names, plugins=plugins) as (variants, workload):
        assert warm_up(variants, workload) == {}
        rounds = {name: play(each, map(workload.cycle, range(CYCLES))) for name, each in variants.items()}
    for name, found in rounds.items():
        assert [metric for metric, samples in found.samples.items() if not samples] == UNASKED.get(name, [])
        for metric in found.samples.keys() - UNASKED.get(name, []):
            samples = found.samples[metric]
            told = {part: value for part, value in found.parts[metric].items() if part != "transport"}
            assert min(told.values()) > 0, (name, metric, told)
            assert sum(told.values()) <= float(np.mean(samples)) + 0.1, (name, metric, told)
            assert all(sample > 0 for sample in samples)
        assert len(found.samples["filter"]) == len(found.samples["cycle"]) == len(found.at) == CYCLES
        assert list(found.parts["cycle"]) == IN_PROCESS.get(name, list(PARTS))


UNASKED = {"kwx-top1": ["prioritize"], "goextender-top1": ["prioritize"]}
"""kube-scheduler has nobody score the only node that is left."""
IN_PROCESS = {"native": ["guest"], "wasmtime": ["map", "guest"]}


ASKED = encode_pod(objects.requesting(1, "7920m", "64Mi", {}))
"""A pod that asks for all that node 10 has before its tenth update, and for more than node 0 ever has."""
NAMES = [objects.node_name(10), objects.node_name(0)]


def test_an_update_of_a_node_counts_in_process(tmp_path: Path) -> None:
    with started(tmp_path, HEADROOM, "native", "wasmtime") as (variants, workload):
        for each in variants.values():
            assert rejected_of(each, Cycle(ASKED, names=NAMES)) == {NAMES[1]}
            each.subject.update(node_list([workload.update(NODES + 10)]))
            assert rejected_of(each, Cycle(ASKED, names=NAMES)) == {*NAMES}


def test_no_names_are_no_nodes(tmp_path: Path) -> None:
    with started(tmp_path, HEADROOM, "native", "wasmtime") as (variants, _):
        for each in variants.values():
            assert each.subject.ask(Cycle(ASKED, names=[]), answer=True).answer == Answer()


def test_answers_are_compared() -> None:
    first = Answer("", {"a": Status(2, "full"), "b": Status(3, "elsewhere")}, {"c": 1})
    assert difference(first, Answer("", {"b": Status(3, "elsewhere"), "a": Status(2, "full")}, {"c": 1})) == ""
    assert difference(first, Answer("", {"a": Status(2, "full")}, {"c": 1})) == (
        "filter differs for 1 node, as b: Status(code=3, reason='elsewhere') there, None here"
    )
    assert difference(first, Answer("", first.rejected, {"c": 2, "d": 0})) == (
        "prioritize differs for 2 nodes, as c: 1 there, 2 here"
    )


ALL = Answer("", {"a": Status(2, "full")}, {"b": 5, "c": 9, "d": 9, "e": 1})


@pytest.mark.parametrize(
    ("top", "told", "expected"),
    [
        pytest.param(0, {"c": 9}, {"b": 5, "c": 9, "d": 9, "e": 1}, id="all"),
        pytest.param(1, {"c": 0}, {"c": 0}, id="the first of equal ones"),
        pytest.param(1, {"d": 0}, {"d": 0}, id="the second of equal ones"),
        pytest.param(1, {"b": 0}, {"c": 0}, id="a worse one"),
        pytest.param(3, {"d": 9, "c": 9, "b": 5}, {"b": 5, "c": 9, "d": 9}, id="three"),
        pytest.param(3, {"d": 9, "e": 1}, {"b": 5, "c": 9, "d": 9}, id="too few"),
        pytest.param(9, {}, ALL.scores, id="more than there are"),
    ],
)
def test_the_best_nodes_are_those_of_the_highest_scores(
    top: int, told: Mapping[str, int], expected: Mapping[str, int]
) -> None:
    """The only one has the score of nobody."""
    assert best(ALL, Answer(scores={**told}), top) == Answer("", ALL.rejected, {**expected})


class Told(Subject):
    """A variant that answers the same about each pod."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def ask(self, cycle: Cycle, *, answer: bool = False) -> Reply:
        del cycle
        return Reply(Took(0.0), answer=self._answer if answer else None)


@pytest.mark.parametrize(
    ("answers", "different"),
    [
        pytest.param({"one": (1, {"c": 0}), "all": (0, ALL.scores), "five": (5, ALL.scores)}, {}, id="alike"),
        pytest.param(
            {"one": (1, {"b": 0}), "all": (0, ALL.scores)},
            {"one": "it does not answer as all: in cycle 0, prioritize differs for 2 nodes, as b: None there, 0 here"},
            id="not the best",
        ),
        pytest.param({"one": (1, {"b": 0}), "other": (1, {"c": 0})}, {}, id="nobody tells which are the best"),
    ],
)
def test_variants_that_answer_the_best_nodes_are_compared_with_one_that_answers_all(
    answers: Mapping[str, tuple[int, dict[str, int]]], different: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.plugin.rounds.WARM_UP_SECONDS", 0)
    started = {
        name: Started(Told(Answer("", ALL.rejected, scores)), top=top) for name, (top, scores) in answers.items()
    }
    assert warm_up(started, Synthetic(3)) == different


def new_run() -> Run:
    return Run(
        level="plugin",
        command="kwx bench plugin",
        preset="quick",
        begun="2026-01-01T00:00:00Z",
        machine=Machine(cpu="", cores=2, memory=1, system=""),
        versions={},
        variants=[way.variant for way in WAYS.values()],
    )


def measured(run: Run, specs: list[CaseSpec], means: Means) -> tuple[Run, int]:
    """The run, and how often it was to be saved. What is saved can be loaded."""
    saved: list[bytes] = []
    with Meter(1) as meter:
        measure(run, specs, means, meter, lambda: saved.append(msgspec.json.encode(run)))
    if saved:
        assert msgspec.json.decode(saved[-1], type=Run) == run
    return run, len(saved)


class Core:
    """What fake variants run on: its clock, and the one that ran last."""

    def __init__(self) -> None:
        self.now = 0.0
        self.last: Fake | None = None


class Fake(Subject):
    """A variant whose time depends on the kind of pod; the first cycle after another variant's takes much longer."""

    def __init__(self, seconds: float, core: Core) -> None:
        self._seconds = seconds
        self._core = core

    def ask(self, cycle: Cycle, *, answer: bool = False) -> Reply:
        del answer
        kind = 0.4 if b"example.com/zone" in cycle.pod else 0.7 if b"example.com/instance-type" in cycle.pod else 1.0
        cold = 10.0 if self._core.last not in (None, self) else 0.0
        took = kind * self._seconds + cold
        self._core.last = self
        self._core.now += took
        return Reply(Took(took, {"guest": took}))


@pytest.mark.parametrize("slow", [1, 3, 5, 7, 9, 11, 12])
@pytest.mark.parametrize("turns", [(Turn(),), (Quiet(), Turn())], ids=["alone", "with quiet"])
def test_slow_variants_are_asked_about_the_same_mix_as_quick_ones(
    turns: tuple[Turn, ...], slow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, core, workload = 2 * PERIOD, Core(), Synthetic(3)
    monkeypatch.setattr("bench.plugin.rounds.time", SimpleNamespace(monotonic=lambda: core.now))
    case = Case(name="3", title="3 nodes", nodes=3, rounds=rounds)
    started = {"quick": Started(Fake(1e-3, core)), "slow": Started(Fake(1.0, core))}
    for at in range(rounds):
        take_turns(at, started, {"quick": MOST, "slow": slow}, workload, turns, Ledger(case))
    for metric in {f"filter{turn.suffix}" for turn in turns}:
        quick, found = (
            next(each for each in case.series if (each.variant, each.metric) == (name, metric)) for name in started
        )
        assert {len(samples) for samples in quick.rounds} == {MOST}
        assert {len(samples) for samples in found.rounds} == {slow}
        assert ratio(found, quick).value == pytest.approx(1000)
        assert quantile(found, 0.5).value == pytest.approx(1000 * quantile(quick, 0.5).value)
        assert parts(found)["guest"] == pytest.approx(1000 * parts(quick)["guest"])


def test_no_two_turns_have_a_pod_in_common() -> None:
    first = [first_pod(turn) for turn in range(2 * PERIOD)]
    assert min(first) >= WARM_UP + MOST
    assert {after - before for before, after in pairwise(first)} == {1 + MOST}
    assert {effort.rounds % PERIOD for effort in EFFORTS.values()} == {0}


@pytest.mark.parametrize(("seconds", "cycles"), [(1e-6, 96), (0.0025, 48), (0.0125, 9), (0.06, 1), (0.1, 1), (10.0, 1)])
def test_as_many_cycles_are_in_a_round_as_fit_into_its_time(
    seconds: float, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Core()
    monkeypatch.setattr("bench.plugin.rounds.time", SimpleNamespace(monotonic=lambda: core.now))
    assert how_many(Started(Fake(seconds, core)), Synthetic(3), 0.1) == cycles


EFFORT = Effort(rounds=2, seconds=0.02, starts=1, most_whole=NODES - 1)


def shape(case: Case) -> dict[tuple[str, str], int]:
    """The rounds of each series."""
    return {(each.variant, each.metric): len(each.rounds) for each in case.series}


def test_a_run_goes_on_where_it_was() -> None:
    spec = CaseSpec("20", "20 nodes", NODES)
    means = Means(HEADROOM, ["native", "wasmtime", "upstream", "kwx-whole"], EFFORT)
    run, saved = measured(new_run(), [spec], means._replace(effort=EFFORT._replace(rounds=1)))
    (case,) = run.cases
    each = {(variant, metric): 1 for variant in ("native", "wasmtime") for metric in ("filter", "prioritize", "cycle")}
    assert (saved, shape(case)) == (1, each)
    assert case.left_out == {
        "upstream": "give a checkout of kube-scheduler-wasm-extension with --upstream CHECKOUT",
        "kwx-whole": "requests with whole nodes are measured with up to 19 nodes here",
    }
    first = [list(series.rounds[0]) for series in case.series]
    case = msgspec.structs.replace(case, rounds=3)
    run.cases[:] = [case]
    run, saved = measured(run, [spec], means)
    assert (saved, shape(case)) == (2, dict.fromkeys(each, 3))
    assert [series.rounds[0] for series in case.series] == first
    assert [(each.case, each.round) for each in run.conditions] == [("20", 0), ("20", 1), ("20", 2)]
    assert measured(run, [spec], means)[1] == 0


def test_what_was_left_out_stays_left_out_when_a_run_goes_on(tmp_path: Path) -> None:
    spec = CaseSpec("20", "20 nodes", NODES)
    means = Means(HEADROOM, ["native", "wasmer"], EFFORT, wasmer=Path("/bin/false"))
    run, _ = measured(new_run(), [spec], means._replace(effort=EFFORT._replace(rounds=1)))
    run.cases[:] = [msgspec.structs.replace(run.cases[0], rounds=2)]
    left_out = dict(run.cases[0].left_out)
    run, _ = measured(run, [spec], means._replace(wasmer=interpreter_that_says(tmp_path, own())))
    assert {variant for variant, _ in shape(run.cases[0])} == {"native"}
    assert (run.cases[0].done, run.cases[0].left_out) == (2, left_out)


def test_a_module_without_score_has_no_best_node(tmp_path: Path) -> None:
    guest = module(tmp_path, SPINS)._replace(scores=False)
    with starting(Setup(tmp_path, guest, Synthetic(NODES), ExitStack()), ["kwx-top1", "kwx-top5"]) as (found, left_out):
        assert (found, {*left_out.values()}) == ({}, {"the module has no Score, so that no node is the best"})
        assert [*left_out] == ["kwx-top1", "kwx-top5"]


def test_an_extender_that_answers_the_best_node_starts_as_others_do() -> None:
    spec = CaseSpec("20", "20 nodes", NODES, kind="cold")
    run, _ = measured(new_run(), [spec], Means(HEADROOM, ["native", "kwx-top1", "goextender-top1"], EFFORT))
    assert {variant for variant, _ in shape(run.cases[0])} == {"native"}
    why = "it starts as the one that answers all nodes"
    assert run.cases[0].left_out == {"kwx-top1": why, "goextender-top1": why}


@pytest.mark.parametrize("kind", ["rounds", "cold"])
def test_what_was_measured_must_go_on(kind: Kind) -> None:
    spec = CaseSpec("20", "20 nodes", NODES, kind=kind)
    means = Means(HEADROOM, ["native", "wasmtime"], EFFORT)
    run, _ = measured(new_run(), [spec], means._replace(effort=EFFORT._replace(rounds=1)))
    run.cases[:] = [msgspec.structs.replace(run.cases[0], rounds=2)]
    with pytest.raises(RunError) as caught:
        measured(run, [spec], means._replace(guest=HEADROOM._replace(has_peers=False)))
    assert str(caught.value) == (
        "20 nodes: what was measured in the first rounds cannot go on: native: it has the policy headroom only, not"
        " that of this module; mend that, or choose another folder to begin anew"
    )
    assert run.cases[0].left_out == {}


def test_nodes_change_in_turns_with_quiet() -> None:
    spec = CaseSpec("churn", "changes", NODES, updates=100)
    run, _ = measured(new_run(), [spec], Means(HEADROOM, ["wasmtime", "kwx", "goextender"], EFFORT))
    metrics = [f"{metric}{suffix}" for metric in ("filter", "prioritize", "cycle") for suffix in ("", " quiet")]
    assert shape(run.cases[0]) == {
        (variant, metric): 2 for variant in ("wasmtime", "kwx", "goextender") for metric in metrics
    }
    assert run.cases[0].settings == {
        "plugins": 1,
        "nodeBytes": 4_000,
        "updatesPerSecond": 100,
        "swapsPerMinute": 0,
    }


def test_recorded_traffic_is_played_with_the_changes_of_its_nodes(tmp_path: Path) -> None:
    """Node 10 changes before the second of three pods, and is as it was when the first one comes again."""
    workload = Synthetic(NODES)
    changes = {NAMES[0]: workload.update(NODES + 10), "gone": b""}
    cycles = [recording.Cycle(at / 10, "uid", "shop/web", ASKED, NAMES, changes if at == 1 else {}) for at in range(3)]
    played = Recorded(recording.Recording("default", "2026-01-01T00:00:00Z", workload.nodes, cycles, 0, None))
    setup = Setup(tmp_path, HEADROOM, played, ExitStack())
    with starting(setup, ["wasmtime", "kwx", "kwx-whole", "goextender"]) as (variants, _):
        turn = Replay(setup, played)
        for each in variants.values():
            for first, expected in ((0, [{NAMES[1]}, {*NAMES}, {*NAMES}, {NAMES[1]}]), (2, [{*NAMES}, {NAMES[1]}])):
                with turn.around(each, first):
                    for at, rejected in enumerate(expected, first):
                        cycle = played.cycle(at)
                        turn.before(each.subject, cycle)
                        comes_true(lambda: rejected_of(each, cycle) == rejected, lambda: None, 10.0)  # noqa: B023
                        assert rejected_of(each, cycle) == rejected, (each.subject.name, first, at)


def rejected_of(each: Started, cycle: Cycle) -> set[str]:
    answer = each.subject.ask(cycle, answer=True).answer
    assert answer is not None
    return set(answer.rejected)


def test_a_module_is_swapped_while_it_is_measured() -> None:
    spec = CaseSpec("swaps", "swaps", NODES, kind="swaps")
    run, _ = measured(new_run(), [spec], Means(HEADROOM, ["native", "kwx"], EFFORT))
    case = run.cases[0]
    metrics = [f"{metric}{suffix}" for metric in ("filter", "prioritize", "cycle") for suffix in ("", " quiet")]
    assert shape(case) == {("kwx", metric): 2 for metric in metrics}
    assert case.left_out == {"native": "only our extender swaps modules while it serves"}
    (timeline,) = case.timelines
    swapped = next(each for each in case.series if each.metric == "cycle")
    assert timeline.values == [value for samples in swapped.rounds for value in samples]
    assert len(timeline.marks) == 4
    assert timeline.seconds == sorted(timeline.seconds)
    assert timeline.marks[0] < timeline.marks[-1] < timeline.seconds[-1]


def test_starts_are_measured_with_and_without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = []

    def again(setup: Setup, folder: Path, cache: Path) -> Setup:
        filled.append(any(cache.rglob("*")))
        return fresh(setup, folder, cache)

    fresh = Setup.again
    monkeypatch.setattr(Setup, "again", again)
    spec = CaseSpec("cold", "cold", NODES, kind="cold")
    run, _ = measured(new_run(), [spec], Means(HEADROOM, ["native", "wasmtime", "kwx", "upstream"], EFFORT))
    case = run.cases[0]
    variants = ("native", "wasmtime", "kwx")
    assert shape(case) == {(variant, metric): 1 for variant in variants for metric in ("first", "first cached")}
    assert filled == [False, False, False, True, False, True, False, False]
    assert list(case.left_out) == ["upstream"]


def test_a_case_that_no_variant_can_be_measured_in_says_why() -> None:
    run, saved = measured(new_run(), [CaseSpec("20", "20 nodes", NODES)], Means(HEADROOM, ["kwx-whole"], EFFORT))
    assert (run.cases[0].series, saved) == ([], 0)
    assert run.cases[0].left_out == {"kwx-whole": "requests with whole nodes are measured with up to 19 nodes here"}


def test_an_interpreter_without_wasmer_is_left_out() -> None:
    means = Means(HEADROOM, ["native", "wasmer"], EFFORT, wasmer=Path("/bin/false"))
    run, _ = measured(new_run(), [CaseSpec("20", "20 nodes", NODES)], means)
    assert {variant for variant, _ in shape(run.cases[0])} == {"native"}
    assert run.cases[0].left_out == {
        "wasmer": "/bin/false has no kube-wasm-extender[wasmer] of this release, install it there: status 1"
    }


def interpreter_that_says(folder: Path, source: str) -> Path:
    """An interpreter that has wasmer, and our code in the state of a digest."""
    file = folder / "python"
    file.write_text(f"""#!/bin/sh\necho '{{"python": "3.10.1", "wasmer": "1.1.0", "source": "{source}"}}'\n""")
    file.chmod(0o755)
    return file


def test_a_run_tells_what_wasmer_runs_in(tmp_path: Path) -> None:
    python = interpreter_that_says(tmp_path, own())
    assert interpreter.versions(python) == {"wasmer": "1.1.0", "python (wasmer)": "3.10.1"}
    assert interpreter.versions(Path("/bin/false")) == interpreter.versions(None) == {}


def test_wasmer_beside_other_code_of_ours_is_refused(tmp_path: Path) -> None:
    python = interpreter_that_says(tmp_path, "0123456789ab")
    with pytest.raises(InterpreterError) as caught:
        look(python)
    assert str(caught.value) == (
        f"{python} has another kube-wasm-extender than the one that measures, install the same there:"
        f" its code is 0123456789ab, not {own()}"
    )


def test_an_interpreter_tells_what_it_runs(tmp_path: Path) -> None:
    (tmp_path / "wasmer.py").touch()
    (tmp_path / "wasmer_compiler_cranelift.py").touch()
    packed = tmp_path / "wasmer-1.2.3.dist-info"
    packed.mkdir()
    (packed / "METADATA").write_text("Metadata-Version: 2.1\nName: wasmer\nVersion: 1.2.3\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert look(python) == Interpreter(platform.python_version(), "1.2.3", own())


def test_a_module_with_a_stamp_is_another_one_that_does_the_same() -> None:
    wasm = HEADROOM.file.read_bytes()
    engine = wasmtime.Engine()
    first, other = (wasmtime.Module(engine, each) for each in (wasm, stamped(wasm, b"other")))
    assert stamped(wasm, b"other") != wasm
    assert [each.name for each in other.exports] == [each.name for each in first.exports]


RANDOM = """
    (module
      (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "score") (result i64)
        (drop (call $random (i32.const 0) (i32.const 1)))
        (i64.shl (i64.extend_i32_u (i32.rem_u (i32.load8_u (i32.const 0)) (i32.const 100))) (i64.const 32))))"""


def test_variants_that_answer_differently_are_not_compared(tmp_path: Path) -> None:
    spec = CaseSpec("20", "20 nodes", NODES)
    guest = module(tmp_path, RANDOM)
    run, _ = measured(new_run(), [spec], Means(guest, ["wasmtime", "kwx"], EFFORT))
    assert {variant for variant, _ in shape(run.cases[0])} == {"wasmtime"}
    assert (
        run.cases[0].left_out["kwx"].startswith("it does not answer as wasmtime: in cycle 0, prioritize differs for ")
    )
    with pytest.raises(DifferentAnswersError, match=r"^kwx: it does not answer as wasmtime: in cycle 0, prioritize"):
        measured(new_run(), [spec], Means(guest._replace(has_peers=True), ["wasmtime", "kwx"], EFFORT))


def test_a_cycle_that_fails_says_why(tmp_path: Path) -> None:
    guest = module(tmp_path, '(module (memory (export "memory") 1) (func (export "filter") (result i32) unreachable))')
    with started(tmp_path, guest, "wasmtime", "kwx-whole") as (variants, workload):
        for each in variants.values():
            with pytest.raises(SubjectError) as caught:
                each.subject.ask(workload.cycle(0))
            assert str(caught.value).startswith(f"the variant {each.subject.name} failed: ")
            assert "unreachable" in str(caught.value)


def test_a_subject_that_ends_says_what_it_wrote() -> None:
    command = ["/bin/sh", "-c", "echo no nodes >&2; exit 3"]
    with Subject("broken", command) as subject, pytest.raises(SubjectError) as caught:
        subject.ready()
    assert str(caught.value) == "broken ended with status 3: no nodes"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--quick", "--full"], "--quick and --full exclude each other"),
        (["--cases", "500,nope"], f"no case is named 'nope'; there are: {', '.join(CASES)}"),
        (["--variants", "java"], f"no variant is named 'java'; there are: {', '.join(WAYS)}"),
    ],
)
def test_what_cannot_be_measured_is_said(options: list[str], message: str) -> None:
    found = CliRunner().invoke(cli.app, ["plugin", *options])
    assert found.exit_code != 0
    assert message in " ".join(found.output.replace("│", " ").split())
