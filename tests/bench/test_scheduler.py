"""Schedulers are measured on a real control plane: small loads, everything but the times asserted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

import psutil
import pytest

from bench import conditions
from bench.cli import HEADROOM
from bench.controlplane import ControlPlane, ControlPlaneError
from bench.progress import Meter
from bench.run import Case, Run
from bench.scheduler.errors import MeasureError
from bench.scheduler.measure import measure, prepare, rounds, steps
from bench.scheduler.plan import VARIANTS, Load, Plan
from bench.scheduler.round import Ground
from bench.scheduler.usage import Usage
from bench.scheduler.variants import Setup, build_programs
from tests.patience import Beside

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

ROOT: Final = Path(__file__).parents[2]
GUEST: Final = ROOT / HEADROOM
BATCH: Final = Load("batch", 40, 10)
STEADY: Final = Load("steady", 25, 5, 10)
NODES: Final = 20
PARTS: Final = {"decode", "map", "guest", "encode"}
ALGORITHM: Final = {"algorithm", *(f"algorithm p{q}" for q in (50, 90, 99))}
ATTEMPT: Final = {"attempt", *(f"attempt p{q}" for q in (50, 90, 99))}
CPU: Final = {f"cpu {name}" for name in ("kube-scheduler", "kube-apiserver", "etcd", "harness")}


def a_plan(variants: Sequence[str], *loads: Load) -> Plan:
    return Plan([NODES], variants, loads, GUEST)


def begun(plan: Plan) -> Run:
    return Run(
        level="scheduler",
        command="kwx bench scheduler",
        preset="quick",
        begun="2026-01-01T00:00:00Z",
        machine=conditions.machine(),
        versions={},
        variants=[VARIANTS[name] for name in plan.variants],
    )


def go_on(run: Run, plan: Plan, save: Callable[[], None] = lambda: None) -> None:
    with Meter(steps(run, plan)) as meter:
        measure(run, plan, meter, save)


def measured(plan: Plan, ground: Ground) -> Run:
    """A run whose control plane is not its own."""
    run = begun(plan)
    with Meter(steps(run, plan)) as meter:
        assert len(list(rounds(run, plan, ground, meter))) == sum(load.rounds for load in plan.loads)
    return run


def metrics(case: Case) -> dict[str, set[str]]:
    """Those that there are, by variant."""
    return {
        variant: {each.metric for each in case.series if each.variant == variant}
        for variant in dict.fromkeys(each.variant for each in case.series)
    }


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """A control plane with nodes, for runs that do not start one."""
    programs = build_programs(list(VARIANTS), None)
    with ControlPlane() as control_plane:
        yield prepare(NODES, Setup(control_plane, GUEST, programs))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Plan]:
    """A run that was stopped after one round of the first of its cases, as it is in its folder."""
    folder = tmp_path_factory.mktemp("run")
    plan = a_plan(["stock", "kwx"], *(replace(load, rounds=2) for load in (BATCH, STEADY)))
    run = begun(plan)

    def stop() -> None:
        run.save(folder)
        raise KeyboardInterrupt

    before = children()
    with pytest.raises(KeyboardInterrupt):
        go_on(run, plan, stop)
    assert children() == before
    return Run.load(folder), plan


@pytest.fixture(scope="module")
def done(stopped: tuple[Run, Plan]) -> Run:
    """The same run, gone on with."""
    run, plan = stopped
    saved: list[list[int]] = []
    before = children()
    go_on(run, plan, lambda: saved.append([case.done for case in run.cases]))
    assert saved == [[2, 0], [2, 1], [2, 2]]
    assert children() == before
    return run


def test_a_run_that_is_stopped_has_the_rounds_that_were_measured(stopped: tuple[Run, Plan]) -> None:
    run, plan = stopped
    assert [(case.name, case.done) for case in run.cases] == [("20-batch", 1), ("20-steady", 0)]
    assert [(each.case, each.round) for each in run.conditions] == [("20-batch", 0)]
    assert steps(run, plan) == 6


def test_a_run_that_goes_on_measures_the_rest(done: Run) -> None:
    batch, steady = done.cases
    assert (batch.title, batch.nodes, batch.rounds, batch.left_out) == ("20 nodes, 30 pods at once", 20, 2, {})
    assert batch.settings == {"load": "batch", "pods": 30, "warmUp": 10}
    assert (steady.title, steady.nodes, steady.rounds) == ("20 nodes, 20 pods, 10 a second", 20, 2)
    assert steady.settings == {"load": "steady", "pods": 20, "warmUp": 5, "podsPerSecond": 10}
    looks = [("20-batch", 0), ("20-batch", 1), ("20-steady", 0), ("20-steady", 1)]
    assert [(each.case, each.round) for each in done.conditions] == looks


@pytest.mark.parametrize(("at", "own"), [(0, {"throughput"}), (1, {"pod", *ATTEMPT})], ids=["batch", "steady"])
def test_each_variant_has_each_metric(done: Run, at: int, own: set[str]) -> None:
    stock = {*own, "memory kube-scheduler", *ALGORITHM, *CPU}
    assert metrics(done.cases[at]) == {
        "stock": stock,
        "kwx": {*stock, "extender", "cpu extender", "memory extender"},
    }


def test_units_and_what_is_better_go_with_the_metric(done: Run) -> None:
    found = {each.metric: (each.unit, each.better) for case in done.cases for each in case.series}
    assert found.pop("throughput") == ("1/s", "higher")
    assert {found.pop(name) for name in list(found) if name.startswith("memory")} == {("MB", "lower")}
    assert set(found.values()) == {("ms", "lower")}


def test_each_round_has_one_sample_but_those_of_pods_one_each(done: Run) -> None:
    for series in chain.from_iterable(case.series for case in done.cases):
        assert list(map(len, series.rounds)) == ([20, 20] if series.metric == "pod" else [1, 1]), series.metric
        assert min(chain.from_iterable(series.rounds)) >= 0
        # A process may take less than a tick of the clock, all else takes its time.
        assert series.metric.startswith("cpu") or min(chain.from_iterable(series.rounds)) > 0, series.metric


def test_the_time_of_the_extender_has_its_parts(done: Run) -> None:
    spent = [each for case in done.cases for each in case.series if each.parts]
    assert [(each.variant, each.metric) for each in spent] == [("kwx", "extender")] * 2
    for series in spent:
        assert {part: len(values) for part, values in series.parts.items()} == dict.fromkeys(PARTS, 2)
        assert min(chain.from_iterable(series.parts.values())) > 0


EXTENDERS: Final = ["kwx-top1", "goextender-top1", "kwx-top5", "goextender", "kwx-whole", "goextender-whole"]


def test_every_variant_places_pods_as_the_policy_says(ground: Ground) -> None:
    """A round is refused otherwise."""
    plan = a_plan(["native", "native-noscores", *EXTENDERS], BATCH)
    found = measured(plan, ground).cases[0].series
    assert [each.variant for each in found if each.metric == "throughput"] == plan.variants
    with_extender = [each for each in found if each.metric == "extender"]
    assert [each.variant for each in with_extender] == EXTENDERS
    assert all(each.parts.keys() == PARTS for each in with_extender)


def test_pods_that_are_alike_are_batched_without_an_extender_alone(ground: Ground) -> None:
    """Each takes a node, so that the nodes would not do if a pod were without a port of its own."""
    plan = a_plan(["stock", "stock-unbatched", "native", "goextender"], Load("batch", NODES, 4, alike=True))
    case = measured(plan, ground).cases[0]
    assert (case.name, case.title) == ("20-alike", "20 nodes, 16 pods at once that are alike, one a node")
    assert case.settings == {"load": "batch", "pods": 16, "warmUp": 4, "alike": True}
    batched = {each.variant: each.rounds[0][0] > 0 for each in case.series if each.metric == "batched"}
    assert batched == {"stock": True, "stock-unbatched": False, "native": True, "goextender": False}
    assert {(each.unit, each.better) for each in case.series if each.metric == "batched"} == {("%", "higher")}


def test_a_policy_without_effect_is_an_error_and_no_figure(ground: Ground) -> None:
    """The module is another one: it puts pods anywhere."""
    module = ROOT / "extender" / "examples" / "nodenumber.wasm"
    with pytest.raises(MeasureError, match=r"^pod web-\w+-\d+ was put (into zone|on) .* ha(s|ve) no effect$"):
        measured(a_plan(["kwx"], BATCH), ground._replace(setup=replace(ground.setup, module=module)))


@pytest.mark.parametrize(
    ("program", "log"),
    [("kube-scheduler", r"kube-scheduler-\d+ ended with status -9:\n"), ("serve", r"kwx ended with status -9:\n{")],
)
def test_a_part_that_dies_is_an_error_with_its_log(program: str, log: str, ground: Ground) -> None:
    with pytest.raises(ControlPlaneError, match=f"^{log}"), killed(program):
        measured(a_plan(["kwx"], Load("steady", 500, 5, 50)), ground)


@pytest.mark.parametrize(
    ("program", "log"),
    [("kube-scheduler", r"kube-scheduler-\d+ ended with status -9:\n"), ("serve", r"kwx ended with status -9:\n{")],
)
def test_a_part_that_dies_before_it_says_how_far_it_is(
    program: str, log: str, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deadly(Usage):
        def look(self) -> None:
            super().look()
            next(each for each in children() if program in words(each)).kill()

    monkeypatch.setattr("bench.scheduler.round.Usage", Deadly)
    with pytest.raises(ControlPlaneError, match=f"^{log}"):
        measured(a_plan(["kwx"], BATCH), ground)


def test_pods_that_cannot_come_at_their_rate_are_none_of_the_schedulers_doing(ground: Ground) -> None:
    """Nobody creates as many over one connection: the variant is left out, and says why."""
    case = measured(a_plan(["stock"], Load("steady", 200, 20, 100_000)), ground).cases[0]
    assert (case.series, list(case.left_out)) == ([], ["stock"])
    assert case.left_out["stock"].startswith("the API server took pods more slowly than 100000 a second: ")


@contextmanager
def killed(command: str) -> Iterator[None]:
    """The child whose command has this program or word is killed, half a second after there is a scheduler."""
    is_over = threading.Event()

    def kill() -> None:
        while not is_over.wait(0.5):
            found = {word: each for each in children() for word in words(each)}
            if "kube-scheduler" in found:
                is_over.wait(0.5)
                found[command].kill()
                return

    beside = Beside(kill)
    try:
        yield
    finally:
        is_over.set()
        beside.end()


def words(process: psutil.Process) -> list[str]:
    """Those of its command, of paths the last part; none if it is gone."""
    with suppress(psutil.Error):
        return [Path(word).name for word in process.cmdline()]
    return []
