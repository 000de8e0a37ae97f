"""Gangs are placed by each of the schedulers that are measured, and what was measured becomes a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import conditions, report
from bench.cli import GANG
from bench.gangs import command
from bench.gangs.command import Options, PlanError
from bench.gangs.load import LABELLED, NATIVE
from bench.gangs.measure import Plan, measure, steps
from bench.gangs.variants import WAYS
from bench.progress import Meter
from bench.report.findings import findings
from bench.report.results import Results
from bench.run import Case, Run

SIZES = (2, 5)
NODES = 4


def run_of(variants: Sequence[str]) -> Run:
    return Run(
        level="gangs",
        command="kwx bench gangs",
        preset="quick",
        begun="2026-01-02T03:04:05Z",
        machine=conditions.machine(),
        versions={},
        variants=[WAYS[name].variant for name in variants],
    )


def place_gangs(variants: Sequence[str], folder: Path) -> Run:
    """A run of one round."""
    run, plan = run_of(variants), Plan(NODES, SIZES, variants, rounds=1, gangs=2, policy=GANG)
    with Meter(steps(run, plan)) as meter:
        measure(run, plan, meter, lambda: run.save(folder))
    return run


@pytest.mark.timeout(600)  # The first time the control plane is built.
@pytest.mark.parametrize(
    "variant",
    [
        "gang-native",
        "gang-kwx",
        "gang-kwx-native",
        pytest.param("gang-coscheduling", marks=[pytest.mark.nightly, pytest.mark.timeout(1800)]),
    ],
)
def test_gangs_are_placed(variant: str, tmp_path: Path) -> None:
    run = place_gangs([variant], tmp_path)
    assert [(case.name, case.done) for case in run.cases] == [(f"{size}", 1) for size in SIZES]
    for case in run.cases:
        found = {series.metric: series.rounds for series in case.series}
        extender = {"cpu extender"} if WAYS[variant].is_extended else set()
        cpu = {f"cpu {each}" for each in ("kube-scheduler", "kube-apiserver", "etcd", "harness")}
        assert found.keys() == {"gang", "gang from first"} | cpu | extender
        assert [len(samples) for rounds in found.values() for samples in rounds] == [2] * len(found)
        last, first = found["gang"][0], found["gang from first"][0]
        assert all(0 <= one < other for one, other in zip(last, first, strict=True))
    assert steps(run, Plan(NODES, SIZES, [variant], rounds=3, gangs=2, policy=GANG)) == 2


@pytest.mark.parametrize("kind", [LABELLED, NATIVE])
def test_members_name_their_group(kind: object) -> None:
    gang = kind.gang("ring", 3)  # type: ignore[attr-defined]
    assert gang.members == ["ring-0", "ring-1", "ring-2"]
    assert all(name.encode() in pod and b"ring" in pod for name, pod in zip(gang.members, gang.pods, strict=True))


def test_a_plan_has_the_variants_that_were_asked_for_in_the_order_of_reports() -> None:
    options = Options("quick", "kwx bench gangs --quick", GANG, ["gang-kwx", "gang-native"])
    assert command.plan(options) == Plan(100, (8, 64, 256), ["gang-native", "gang-kwx"], 5, 1, GANG)
    assert command.plan(options._replace(variants=())).variants == list(WAYS)
    with pytest.raises(
        PlanError,
        match=r"^no variants: kwx; there are gang-native, gang-coscheduling, gang-kwx, gang-kwx-native$",
    ):
        command.plan(options._replace(variants=["kwx"]))


MILLISECONDS = {"gang-native": 100.0, "gang-coscheduling": 80.0, "gang-kwx": 150.0}
"""Of a gang of 8; one of 64 takes ten times as long."""


def test_a_report_says_how_long_gangs_of_each_size_take(tmp_path: Path) -> None:
    run = run_of([*MILLISECONDS])
    for size, times in ((8, 1), (64, 10)):
        case = Case(name=f"{size}", title=f"{size} members", nodes=100, settings={"members": size}, rounds=6)
        for at in range(6):
            for name, milliseconds in MILLISECONDS.items():
                case.add(name, "gang", "ms", [milliseconds * times + at, milliseconds * times + at + 1])
                case.add(name, "cpu kube-scheduler", "ms", [1.0, 2.0])
        run.cases.append(case)
    assert findings(Results(run)).answer == (
        "A gang of 8 members is bound 153 ms after its last member was created with our extender with the policy gang"
        " (“policy gang over HTTP”): 1.49 times (1.47 to 1.50) as long as with “kube-scheduler's own gang scheduling”,"
        " and 1.84 times (1.81 to 1.87) as long as with “coscheduling compiled in”."
    )
    written = {file.name for file in report.write(run, tmp_path)}
    assert written == {"report.html", "report.md", "gangs.svg", "cpu-8.svg", "cpu-64.svg"}
    assert "| 64 members | policy gang over HTTP (ours) | 1,503 | 1.50 " in (tmp_path / "report.md").read_text()
