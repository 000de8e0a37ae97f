"""What is told as a change: of runs that are alike, of one that is slower, and of one on a slower machine."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.console import Console

from bench.compare import Change, Comparison, compare, summary, table
from bench.run import Case, Condition, Machine, Run, RunError, Series, Unit, Variant

VARIANTS = [
    Variant(name="kwx", title="kwx", kind="extender", wasm=True, ours=True),
    Variant(name="kwx-whole", title="kwx-whole", kind="extender", wasm=True, ours=True),
    Variant(name="goextender", title="goextender", kind="extender", wasm=False, ours=False),
    Variant(name="native", title="native", kind="in-process", wasm=False, ours=False),
    Variant(name="upstream", title="upstream", kind="in-process", wasm=True, ours=False),
]
MEDIANS = {"kwx": 300.0, "kwx-whole": 2000.0, "goextender": 500.0, "native": 40.0}
MACHINE = Machine(cpu="cpu A", cores=2, memory=1 << 30, system="Linux 6.1 x86_64")


def run(cases: list[Case], **fields: Any) -> Run:
    given: dict[str, Any] = {
        "level": "plugin",
        "command": "kwx bench plugin",
        "preset": "default",
        "begun": "2026-01-01T00:00:00Z",
        "ended": "2026-01-01T00:10:00Z",
        "machine": MACHINE,
        "versions": {"kwx": "1", "go": "1.26"},
        "variants": VARIANTS,
    }
    return Run(**given | fields, cases=cases)


def case(name: str = "500", nodes: int = 500, series: list[Series] | None = None, **settings: int) -> Case:
    return Case(name=name, title=name, nodes=nodes, settings=dict(settings), rounds=20, series=series or [])


def one(variant: str, values: list[float], metric: str = "filter", unit: Unit = "us", better: str = "lower") -> Series:
    return msgspec.convert(
        {"variant": variant, "metric": metric, "unit": unit, "better": better, "rounds": [[each] for each in values]},
        Series,
    )


def synthetic(
    seed: int,
    times: Mapping[str, float] | None = None,
    *,
    between: float = 0.0,
    names: Sequence[str] = ("100", "500"),
    rounds: int = 20,
    samples: int = 40,
) -> Run:
    """A run of two cases: rounds are slow or fast as a whole, and each variant has its own luck in each run."""
    random = np.random.default_rng(seed)
    cases = []
    for name in names:
        found = []
        of_rounds = random.normal(0, 0.1, (rounds, 1))
        for variant, median in MEDIANS.items():
            luck = random.normal(0, between)
            for metric in ("filter", "prioritize"):
                logs = of_rounds + random.normal(0, 0.01, (rounds, 1)) + random.normal(0, 0.1, (rounds, samples))
                values = median * (times or {}).get(variant, 1.0) * np.exp(luck + logs)
                found.append(Series(variant=variant, metric=metric, unit="us", better="lower", rounds=values.tolist()))
        cases.append(case(name, series=found))
    return run(cases)


def only_by(found: Run, *variants: str) -> Run:
    """A run of some variants only."""
    cases = [
        msgspec.structs.replace(each, series=[series for series in each.series if series.variant in variants])
        for each in found.cases
    ]
    return msgspec.structs.replace(found, cases=cases)


TWO_CASES = ("100", "500")
SIX_CASES = ("100", "500", "1000", "2000", "5000", "15000")
SEEDS = pytest.mark.parametrize(
    "seeds", [pytest.param(5, id="short"), pytest.param(20, id="full", marks=pytest.mark.nightly)]
)


def verdicts(comparison: Comparison) -> set[tuple[str, str]]:
    return {(change.variant, change.verdict) for change in comparison.changes if change.figure == "median"}


@pytest.mark.parametrize(
    ("between", "names", "comparisons"),
    [
        pytest.param(0.0, TWO_CASES, 40, id="but for rounds"),
        pytest.param(0.0, TWO_CASES, 200, id="but for rounds-full", marks=pytest.mark.nightly),
        pytest.param(0.05, SIX_CASES, 20, id="but for luck"),
        pytest.param(0.05, SIX_CASES, 40, id="but for luck-full", marks=pytest.mark.nightly),
    ],
)
def test_runs_that_are_alike_have_not_changed(between: float, names: Sequence[str], comparisons: int) -> None:
    """Nor if each variant has its own luck in each run, which no round of that run tells."""
    wrong = 0
    for seed in range(comparisons):
        before, after = (
            synthetic(2 * seed + at, between=between, names=names, rounds=10, samples=10) for at in range(2)
        )
        wrong += any(change.verdict in ("worse", "better") for change in compare(before, after).changes)
    assert wrong <= 0.05 * comparisons


def test_nothing_is_told_of_a_run_that_was_too_noisy() -> None:
    quiet, slower = synthetic(1), synthetic(2, {"kwx": 2.0})
    assert ("kwx", "worse") in verdicts(compare(quiet, slower))
    busy = Condition(seconds=0, case="100", round=0, load=2, yardstick=100, steal=0, others=2)
    found = compare(quiet, msgspec.structs.replace(slower, conditions=[busy]))
    assert {verdict for _, verdict in verdicts(found)} == {"unclear"}
    assert found.unclear
    assert not found.worse


@SEEDS
def test_most_of_what_is_alike_is_said_to_be(seeds: int) -> None:
    found = [compare(synthetic(2 * seed), synthetic(2 * seed + 1)) for seed in range(seeds)]
    told = [change.verdict for each in found for change in each.changes if change.figure == "median"]
    assert told.count("no change") >= 0.8 * len(told)
    assert all(verdict in ("no change", "unclear") for verdict in told)


@SEEDS
def test_what_is_slower_is_found(seeds: int) -> None:
    for seed in range(seeds):
        found = compare(synthetic(2 * seed), synthetic(2 * seed + 1, {"kwx": 1.10}))
        assert {verdict for variant, verdict in verdicts(found) if variant == "kwx"} == {"worse"}, seed
        assert found.worse
        back = compare(synthetic(2 * seed + 1, {"kwx": 1.10}), synthetic(2 * seed))
        assert {verdict for variant, verdict in verdicts(back) if variant == "kwx"} == {"better"}, seed
        assert not back.worse


@SEEDS
def test_a_slower_machine_is_no_change(seeds: int) -> None:
    for seed in range(seeds):
        found = compare(synthetic(2 * seed), synthetic(2 * seed + 1, dict.fromkeys(MEDIANS, 1.3)))
        assert {verdict for _, verdict in verdicts(found)} <= {"no change", "unclear"}, seed
        assert not found.worse
        assert all(1.15 < change.controls < 1.45 for change in found.changes)
        assert all(0.9 < change.ratio < 1.1 for change in found.changes if change.figure == "median")
        (remark,) = found.remarks
        assert remark.startswith("the controls (goextender, native) took 1.")


@pytest.mark.parametrize(
    "measured", [("kwx", "kwx-whole"), ("kwx", "kwx-whole", "native")], ids=["no control", "one control"]
)
@SEEDS
def test_a_slower_machine_is_no_change_with_few_controls(seeds: int, measured: Sequence[str]) -> None:
    """Nor if each variant has its own luck in each run."""
    for seed in range(seeds):
        before = synthetic(2 * seed, between=0.03)
        after = synthetic(2 * seed + 1, dict.fromkeys(MEDIANS, 1.08), between=0.03)
        assert compare(only_by(before, *measured), only_by(after, *measured)).unclear, seed


def test_what_is_far_slower_is_found_beside_one_control() -> None:
    before, after = (only_by(each, "kwx", "native") for each in (synthetic(1), synthetic(2, {"kwx": 2.0})))
    assert verdicts(compare(before, after)) == {("kwx", "worse")}


def test_what_is_slower_on_a_slower_machine_is_found() -> None:
    found = compare(synthetic(1), synthetic(2, {**dict.fromkeys(MEDIANS, 1.3), "kwx": 1.3 * 1.2}))
    assert {variant for variant, verdict in verdicts(found) if verdict == "worse"} == {"kwx"}


STEADY = [100.0] * 6
SLOWER = [120.0] * 6
TWICE = [200.0] * 6
FEW = [100.0] * 3


def only(found: Comparison) -> Change:
    (change,) = found.changes
    return change


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param([one("kwx", STEADY)], [one("kwx", SLOWER)], "worse", id="time"),
        pytest.param([one("kwx", SLOWER)], [one("kwx", STEADY)], "better", id="less time"),
        pytest.param(
            [one("kwx", STEADY, "throughput", "1/s", "higher")],
            [one("kwx", SLOWER, "throughput", "1/s", "higher")],
            "better",
            id="throughput",
        ),
        pytest.param(
            [one("kwx", SLOWER, "throughput", "1/s", "higher")],
            [one("kwx", STEADY, "throughput", "1/s", "higher")],
            "worse",
            id="less throughput",
        ),
        pytest.param([one("kwx", STEADY)], [one("kwx", [104.9] * 6)], "no change", id="less than the threshold"),
        pytest.param([one("kwx", STEADY)], [one("kwx", [105.1] * 6)], "worse", id="more than the threshold"),
        pytest.param([one("kwx", FEW)], [one("kwx", [200.0] * 3)], "unclear", id="too few rounds"),
        pytest.param([one("kwx", [0.0] * 6)], [one("kwx", STEADY)], "unclear", id="0"),
        pytest.param([one("kwx", [1.0, 500.0] * 3)], [one("kwx", [2.0, 900.0] * 3)], "unclear", id="far apart"),
    ],
)
def test_verdicts(before: list[Series], after: list[Series], expected: str) -> None:
    """Beside two controls that did not move."""
    earlier, later = (run([case(series=[*each, *controls(STEADY, each[0].metric)])]) for each in (before, after))
    assert only(compare(earlier, later)).verdict == expected


def controls(values: list[float], metric: str = "filter") -> list[Series]:
    return [one(variant, values, metric) for variant in ("native", "goextender")]


@pytest.mark.parametrize(
    ("before", "ours", "others", "expected"),
    [
        pytest.param(controls(STEADY), SLOWER, controls(SLOWER), "no change", id="as two controls"),
        pytest.param(controls(STEADY), STEADY, controls(SLOWER), "better", id="unlike two controls"),
        pytest.param([one("native", STEADY)], SLOWER, [one("native", SLOWER)], "unclear", id="as one control"),
        pytest.param(
            [one("native", STEADY)], SLOWER, [one("native", STEADY)], "unclear", id="a bit unlike one control"
        ),
        pytest.param([one("native", STEADY)], TWICE, [one("native", STEADY)], "worse", id="unlike one control"),
        pytest.param([], TWICE, [], "unclear", id="no control"),
        pytest.param(
            controls(STEADY, "pod"), TWICE, controls(STEADY, "pod"), "unclear", id="controls by another metric"
        ),
        pytest.param([one("native", [0.0] * 6)], TWICE, [one("native", STEADY)], "unclear", id="a control of 0"),
    ],
)
def test_verdicts_beside_controls(before: list[Series], ours: list[float], others: list[Series], expected: str) -> None:
    """Of what took 100 before."""
    runs = run([case(series=[one("kwx", STEADY), *before])]), run([case(series=[one("kwx", ours), *others])])
    assert only(compare(*runs)).verdict == expected


def test_percentiles_of_buckets_are_left_out() -> None:
    metrics = ("attempt", "attempt p50", "algorithm p99")
    cases = [case(series=[one(variant, STEADY, each) for variant in ("kwx", "native") for each in metrics])]
    assert [change.metric for change in compare(run(cases), run(cases)).changes] == ["attempt"]


def test_the_threshold_is_what_is_given() -> None:
    before, after = (run([case(series=[one("kwx", each), *controls(STEADY)])]) for each in (STEADY, SLOWER))
    assert [only(compare(before, after, each)).verdict for each in (0.19, 0.21)] == ["worse", "no change"]


CONTROLS = ("native", "goextender")


def test_another_build_of_a_module_is_compared_but_not_by_what_others_make_of_it() -> None:
    cases = [case(series=[one(variant, STEADY) for variant in ("kwx", *CONTROLS, "upstream")])]
    upstream = [case(series=[one(variant, STEADY) for variant in ("kwx", "upstream")])]
    found = compare(run(cases, module="sha256:1 a.wasm"), run(cases, module="sha256:2 a.wasm"))
    assert [change.variant for change in found.changes] == ["kwx"]
    assert found.remarks == ["the modules differ: sha256:1 a.wasm before, sha256:2 a.wasm after"]
    assert compare(run(cases), run(cases)).remarks == []
    assert not math.isnan(only(compare(run(upstream), run(upstream))).controls)
    assert math.isnan(only(compare(run(upstream), run(upstream, module="sha256:2 a.wasm"))).controls)


def test_another_configuration_of_a_module_is_another_module() -> None:
    cases = [case(series=[one(variant, STEADY) for variant in ("kwx", *CONTROLS, "upstream")])]
    found = compare(run(cases), run(cases, command='kwx bench plugin --guest-config \'{"zone": "a"}\''))
    assert found.remarks == [
        'the commands differ: `kwx bench plugin` before, `kwx bench plugin --guest-config \'{"zone": "a"}\'` after'
    ]
    upstream = [case(series=[one(variant, STEADY) for variant in ("kwx", "upstream")])]
    assert math.isnan(only(compare(run(upstream), run(upstream, command="kwx bench plugin --arg a"))).controls)


def test_what_only_one_run_has_is_not_compared() -> None:
    before = run([case(series=[one("kwx", STEADY), one("kwx-whole", STEADY)])])
    after = run([case(series=[one("kwx", STEADY), one("kwx", STEADY, "cycle")])])
    assert [(change.variant, change.metric) for change in compare(before, after).changes] == [("kwx", "filter")]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        pytest.param(
            run([]),
            run([], level="scheduler"),
            "the runs have different levels, 'plugin' and 'scheduler': compare runs of one command",
            id="levels",
        ),
        pytest.param(
            run([], workload="synthetic pods"),
            run([], workload="recorded requests"),
            "the runs have different workloads, 'synthetic pods' and 'recorded requests': ask the same in both",
            id="workloads",
        ),
        pytest.param(
            run([case("100"), case("500")]),
            run([]),
            "the runs have no case with the same settings in common, but 100, 500 and none: "
            "give --cases the same names in both",
            id="cases",
        ),
        pytest.param(
            run([case("500", nodes=500)]),
            run([case("500", nodes=501)]),
            "the runs have no case with the same settings in common, but 500 and 500: "
            "give --cases the same names in both",
            id="settings",
        ),
        pytest.param(
            run([case(series=[one("kwx", STEADY)])]),
            run([case(series=[one("native", STEADY)])]),
            "the runs have no variant of this project in common: compare runs of the same variants",
            id="figures",
        ),
        pytest.param(
            run([case(series=[one("native", STEADY)])]),
            run([case(series=[one("native", STEADY)])]),
            "the runs have no variant of this project in common: compare runs of the same variants",
            id="controls only",
        ),
    ],
)
def test_runs_that_cannot_be_compared(before: Run, after: Run, message: str) -> None:
    with pytest.raises(RunError) as caught:
        compare(before, after)
    assert str(caught.value) == message


BOTH = [one("kwx", STEADY), one("native", STEADY)]


def test_how_runs_differ_is_said() -> None:
    busy = Condition(seconds=1, case="500", round=0, load=2, yardstick=2000, steal=0, others=1)
    before = run([case(series=BOTH), case("100", plugins=1), case("5000")], conditions=[busy])
    after = run(
        [case(series=[one("kwx", [130.0] * 6), one("native", [130.0] * 6)]), case("100", plugins=2)],
        ended="",
        machine=msgspec.structs.replace(MACHINE, cpu="cpu B"),
        versions={"kwx": "2", "python": "3.11"},
    )
    assert summary(compare(before, after)) == [
        "Of 1 figures 0 are worse and 0 better by 5% or more, "
        "0 have not changed by as much, 1 are unclear: more rounds or a quieter machine may tell.",
        "The machines differ: cpu cpu A before, cpu B after.",
        "Versions differ: go 1.26 before, none after.",
        "Versions differ: kwx 1 before, 2 after.",
        "Versions differ: python none before, 3.11 after.",
        "The case 100 is not compared: nodes 500, plugins 1 before, nodes 500, plugins 2 after.",
        "The case 5000 is not compared: nodes 500 before, not there after.",
        "There is one control for filter, so noise between runs is taken for 5% and only large changes are told: "
        "measure a second one as well, as native and goextender.",
        "The controls (native) took 1.30 times as long after: "
        "that is the machine or what they are built with, and is taken out of the changes.",
        "Nothing is told, since the run before is too noisy: 1 of 1 checks between rounds found other programs using "
        "up to 50% of the harness's cores: "
        "stop them, or run again.",
        "The run after is not finished: continue it.",
    ]


def test_what_is_missing_is_said() -> None:
    found = compare(run([case(series=[one("kwx", FEW)])]), run([case(series=[one("kwx", FEW)])]))
    assert summary(found) == [
        "Of 1 figures 0 are worse and 0 better by 5% or more, 0 have not changed by as much, 1 are unclear.",
        "No change is told of any figure, for no control, a variant that this project does not run, was measured there "
        "in both runs, and a slower machine would look the same: measure one as well, or, of a module of your own, "
        "each build twice, in turns; what moves between two runs of one build is the machine.",
        "Too few rounds for intervals in 500: it takes 5 in both runs.",
    ]


def test_figures_without_a_control_are_named() -> None:
    measured = run([case(series=[*BOTH, one("kwx", STEADY, "cycle"), one("kwx", STEADY, "pod")])])
    assert compare(measured, measured).remarks == [
        "no change is told of cycle in 500, pod in 500, for no control, a variant that this project does not run, was "
        "measured there in both runs, and a slower machine would look the same",
        "there is one control for filter, so noise between runs is taken for 5% and only large changes are told: "
        "measure a second one as well, as native and goextender",
    ]


def test_the_table() -> None:
    """What has no control is told if it moved as far, and at the end."""
    lone = ("cycle", STEADY, SLOWER), ("pod", STEADY, [104.0] * 6), ("first", [0.0] * 6, STEADY)
    before = [one("kwx", earlier, metric) for metric, earlier, _ in lone]
    after = [one("kwx", later, metric) for metric, _, later in lone]
    before += [one("kwx-whole", STEADY), one("kwx", STEADY), *controls(STEADY)]
    after += [one("kwx-whole", [60.0] * 6), one("kwx", [180.0] * 6), *controls(SLOWER)]
    console = Console(file=io.StringIO(), width=120)
    console.print(table(compare(run([case(series=before)]), run([case(series=after)]))))
    assert isinstance(console.file, io.StringIO)
    head, rule, *rows = [line.strip("| ") for line in console.file.getvalue().splitlines() if line.strip()]
    assert set(rule) == {"|", "-"}
    assert [[cell.strip() for cell in row.split("|")] for row in (head, *rows)] == [
        ["case", "variant", "metric", "before", "after", "controls", "change", "interval", "verdict"],
        ["500", "kwx", "filter median", "100 us", "180 us", "+20.0%", "+50.0%", "+50.0% to +50.0%", "worse"],
        ["500", "kwx-whole", "filter median", "100 us", "60 us", "+20.0%", "-50.0%", "-50.0% to -50.0%", "better"],
        ["500", "kwx", "cycle median", "100 us", "120 us", "none", "+20.0%", "none", "unclear"],
    ]


def test_json_has_no_numbers_that_json_lacks() -> None:
    found = compare(run([case(series=[one("kwx", FEW)])]), run([case(series=[one("kwx", SLOWER)])]))
    (change,) = msgspec.json.decode(msgspec.json.encode(found))["changes"]
    assert change == {
        "case": "500",
        "variant": "kwx",
        "metric": "filter",
        "figure": "median",
        "unit": "us",
        "before": 100.0,
        "after": 120.0,
        "controls": None,
        "ratio": pytest.approx(1.2),
        "low": None,
        "high": None,
        "verdict": "unclear",
    }
