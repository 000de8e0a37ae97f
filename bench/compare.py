"""Two runs of the same cases: what has changed, as far as can be told from noise.

Two runs never have the same machine: it is warmer, a neighbour is busier, memory lies elsewhere. So what counts is how
a variant moved beside the controls: the variants in the same case, by the same metric, that this project does not run.
A change is told if

- it is surely not chance: by Student's t of its logarithm, whose standard error is that of rounds drawn anew, and so
  that of twenty comparisons of runs that are alike no more than one tells any change at all (Holm, 1979); and
- it is as large as the threshold: what is smaller matters to nobody, and comes with any new build.

What controls moved apart from each other, beyond what their rounds tell, is noise between runs: it is part of each
standard error. Without a control nothing is told: a change cannot be told from another machine.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text
from scipy import special

from bench.conditions import Noise, noise
from bench.run import Case, Run, RunError, Series, Unit, is_coarse
from bench.statistics import (
    FEWEST_ROUNDS,
    Floats,
    logarithms,
    measured,
    resampled,
    settled,
    standard_error,
    student,
)
from extender.telemetry.printable import printable

THRESHOLD: Final = 0.05
FALSE_CHANGES: Final = 0.05
"""The share of comparisons that may report a change where there is none."""

Figure = Literal["median", "p99"]
FIGURES: Final[Mapping[Figure, float]] = {"median": 0.5, "p99": 0.99}

Verdict = Literal["worse", "better", "no change", "unclear"]

HEAD: Final = ("case", "variant", "metric", "before", "after", "controls", "change", "interval", "verdict")


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A figure of a variant, and how it changed between the runs."""

    case: str
    variant: str
    metric: str
    figure: Figure
    unit: Unit
    before: float
    after: float
    controls: float
    """How many times their figure before the controls had after: what the machine did; null without controls."""
    ratio: float
    """After divided by before, and by `controls` if there are any; null if one is 0."""
    low: float
    high: float
    """The ratio's interval of 95%; null where there is none."""
    verdict: Verdict


class Comparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The changes from one run to another."""

    threshold: float
    """The smallest relative change that is reported."""
    between_runs: dict[str, float]
    """How much figures differ from run to run beyond what rounds tell, by metric: a relative standard deviation.

    It is BETWEEN_RUNS where no case has two controls that would tell.
    """
    changes: list[Change]
    """The changes of each variant that this project runs, reported or not."""
    remarks: list[str]
    """Sentences: how the runs differ, and what was left out."""

    @property
    def worse(self) -> bool:
        """Whether anything has surely become worse."""
        return any(each.verdict == "worse" for each in self.changes)

    @property
    def unclear(self) -> bool:
        """Whether nothing can be told."""
        return all(each.verdict == "unclear" for each in self.changes)


class _Move(NamedTuple):
    """How a figure moved from one run to the other."""

    case: str
    series: Series
    """The series in the second run."""
    figure: Figure
    control: bool
    before: float
    after: float
    log: float
    """The logarithm of after divided by before; nan if one of them is 0."""
    drawn: Floats
    """The same logarithm for rounds drawn anew in each run."""
    rounds: int
    """Rounds of the run that has fewer; 0 if they are too few for an interval."""

    @property
    def group(self) -> tuple[str, str]:
        """Case and metric: figures with the same two have the same controls."""
        return self.case, self.series.metric


class _Controls(NamedTuple):
    """How the controls of a case moved by a metric."""

    logs: Floats
    drawn: Floats
    """The draws of each control, in rows."""

    @property
    def log(self) -> float:
        """The mean logarithm of all controls; nan without any."""
        return float(np.median(self.logs)) if len(self.logs) else math.nan

    @property
    def together(self) -> Floats:
        """The mean over all controls, for each draw."""
        return np.asarray(np.median(self.drawn, axis=0))


def compare(before: Run, after: Run, threshold: float = THRESHOLD) -> Comparison:
    """Tells what has changed by at least a threshold, a part of the figure.

    Raises RunError if the runs are not of the same things.
    """
    pairs = _common(before, after)
    alike = (before.module, before.command) == (after.module, after.command)
    moves = [move for pair in pairs for move in _moves(after, *pair, alike=alike)]
    ours = [move for move in moves if not move.control]
    if not ours:
        raise RunError("the runs have no variant of this project in common: compare runs of the same variants")
    controls = _controls(moves)
    between = {
        metric: _between([each for (_, of), each in controls.items() if of == metric])
        for metric in dict.fromkeys(move.series.metric for move in moves)
    }
    measures = [_measure(move, controls[move.group], between[move.series.metric]) for move in ours]
    told = _told([measure.chance for measure in measures])
    noises = noise(before), noise(after)
    lost = any(each.verdict == TOO_NOISY for each in noises)
    return Comparison(
        threshold=threshold,
        between_runs={metric: math.sqrt(each.variance) for metric, each in between.items()},
        changes=[
            _change(
                move,
                controls[move.group],
                measure,
                "unclear" if lost else _verdict(move.series, measure, sure, threshold),
            )
            for move, measure, sure in zip(ours, measures, told, strict=True)
        ],
        remarks=[
            *_differences(before, after, pairs),
            *_of_controls(moves, controls, between, threshold),
            *_quality((before, after), noises, moves),
        ],
    )


def _common(before: Run, after: Run) -> list[tuple[Case, Case]]:
    """The cases that both runs have. Raises RunError."""
    for what, mend in (
        ("level", "compare runs of one command"),
        ("workload", "ask the same in both"),
    ):
        first, second = getattr(before, what), getattr(after, what)
        if first != second:
            raise RunError(f"the runs have different {what}s, {first!r} and {second!r}: {mend}")
    cases = {case.name: case for case in before.cases}
    pairs = [(cases[case.name], case) for case in after.cases if case.name in cases]
    pairs = [pair for pair in pairs if _setup(pair[0]) == _setup(pair[1])]
    if not pairs:
        names = [", ".join(case.name for case in run.cases) or "none" for run in (before, after)]
        raise RunError(
            f"the runs have no case with the same settings in common, but {names[0]} and {names[1]}: "
            "give --cases the same names in both"
        )
    return pairs


def _setup(case: Case) -> dict[str, object]:
    return {"nodes": case.nodes, **case.settings}


def _moves(run: Run, before: Case, after: Case, *, alike: bool) -> Iterator[_Move]:
    """How the figures of a case moved that both have. A p99 is one where both runs have samples enough for it.

    What others run is a control, but for the module if that or the command, which configures it, is not `alike`: what
    they make of it is left out then. So are percentiles of buckets, which jump from one bucket to the next.
    """
    earlier = {(series.variant, series.metric): series for series in before.series}
    for series in after.series:
        variant = run.variant(series.variant)
        if is_coarse(series.metric) or (variant.wasm and not (variant.ours or alike)):
            continue
        first = earlier.get((series.variant, series.metric))
        rounds = [measured(each) for each in (first, series) if each is not None]
        if len(rounds) < 2 or not all(rounds):
            continue
        for figure, q in FIGURES.items():
            enough = all(settled(each, q) for each in rounds)
            if not enough and figure != "median":
                continue
            values = [float(np.quantile(np.concatenate(each), q)) for each in rounds]
            drawn = [resampled(each, q, stream) for stream, each in enumerate(rounds)]
            logs = logarithms(values)
            yield _Move(
                after.name,
                series,
                figure,
                not variant.ours,
                values[0],
                values[1],
                float(logs[1] - logs[0]),
                drawn[1] - drawn[0],
                min(map(len, rounds)) if enough else 0,
            )


def _controls(moves: Iterable[_Move]) -> dict[tuple[str, str], _Controls]:
    """The controls of each case and metric, of medians alone: p99s would add more noise than they remove."""
    groups: defaultdict[tuple[str, str], list[_Move]] = defaultdict(list)
    for move in moves:
        members = groups[move.group]
        if move.control and move.figure == "median" and not math.isnan(move.log):
            members.append(move)
    return {
        group: _Controls(np.array([each.log for each in members]), np.array([each.drawn for each in members]))
        for group, members in groups.items()
    }


class _Noise(NamedTuple):
    """Noise that adds to the standard error of a figure."""

    variance: float
    freedom: int
    """Degrees of freedom: how many independent values the noise is known from."""


BETWEEN_RUNS: Final = 0.05
"""The noise between runs that is assumed where controls cannot tell."""
ASSUMED: Final = _Noise(BETWEEN_RUNS**2, 4)
"""The assumed noise, as uncertain as an estimate from five runs."""


def _between(groups: Sequence[_Controls]) -> _Noise:
    """What logarithms of controls of one case moved apart, less what their rounds explain.

    As the between-study variance of a meta-analysis: Hedges and Olkin, Statistical Methods for Meta-Analysis (1985).
    ASSUMED with fewer than two controls in every case.
    """
    several = [group for group in groups if len(group.logs) > 1]
    if not several:
        return ASSUMED
    freedom = sum(len(group.logs) - 1 for group in several)
    apart = sum(_squares(group.logs[:, np.newaxis]) for group in several) / freedom
    explained = sum(_squares(group.drawn - group.logs[:, np.newaxis]) for group in several) / freedom
    return _Noise(max(0.0, float(np.mean(apart) - np.nanmean(explained))), freedom)


def _squares(rows: Floats) -> Floats:
    """The sum of squared distances from each column's mean."""
    return np.asarray(((rows - rows.mean(axis=0)) ** 2).sum(axis=0))


class _Measure(NamedTuple):
    """How far something moved beside its controls, in logarithms; nan where nothing can be said."""

    log: float
    reach: float
    """Half the width of the interval."""
    chance: float
    """Probability of a move at least as large by chance."""


def _measure(move: _Move, controls: _Controls, between: _Noise) -> _Measure:
    """Degrees of freedom are those of both parts of the error together, by Welch and Satterthwaite."""
    if not len(controls.logs):
        return _Measure(move.log, math.nan, math.nan)
    log = move.log - controls.log
    if not move.rounds:
        return _Measure(log, math.nan, math.nan)
    rounds = _Noise(standard_error(move.drawn - controls.together, move.rounds) ** 2, move.rounds - 1)
    # What differs from run to run is in what moved, and in each of its controls.
    runs = between._replace(variance=between.variance * (1 + 1 / len(controls.logs)))
    variance = rounds.variance + runs.variance
    if variance == 0:
        return _Measure(log, 0.0, float(log == 0))
    freedom = variance**2 / sum(part.variance**2 / part.freedom for part in (rounds, runs))
    error = math.sqrt(variance)
    return _Measure(log, student(freedom) * error, 2 * float(special.stdtr(freedom, -abs(log) / error)))


def _told(chances: Sequence[float]) -> list[bool]:
    """Which moves are significant, if FALSE_CHANGES of the comparisons may have any false one: Holm (1979)."""
    known = sorted(chance for chance in chances if not math.isnan(chance))
    fits = (chance * (len(known) - at) <= FALSE_CHANGES for at, chance in enumerate(known))
    rejected = sum(takewhile(bool, fits))
    return [rejected > 0 and chance <= known[rejected - 1] for chance in chances]


def _verdict(series: Series, measure: _Measure, sure: bool, threshold: float) -> Verdict:
    least = math.log1p(threshold)
    if sure and abs(measure.log) >= least:
        return "worse" if (measure.log > 0) == (series.better == "lower") else "better"
    return "no change" if abs(measure.log) + measure.reach <= least else "unclear"


def _change(move: _Move, controls: _Controls, measure: _Measure, verdict: Verdict) -> Change:
    series = move.series
    low, high = (math.exp(measure.log + reach) for reach in (-measure.reach, measure.reach))
    return Change(
        case=move.case,
        variant=series.variant,
        metric=series.metric,
        figure=move.figure,
        unit=series.unit,
        before=move.before,
        after=move.after,
        controls=math.exp(controls.log),
        ratio=math.exp(measure.log),
        low=low,
        high=high,
        verdict=verdict,
    )


def _differences(before: Run, after: Run, pairs: Sequence[tuple[Case, Case]]) -> Iterator[str]:
    """How the runs differ, and which cases are left out."""
    for what in msgspec.structs.fields(before.machine):
        first, second = (getattr(run.machine, what.name) for run in (before, after))
        if first != second:
            yield f"the machines differ: {what.name} {first!s} before, {second!s} after"
    for name in sorted(before.versions.keys() | after.versions.keys()):
        first, second = (run.versions.get(name, "none") for run in (before, after))
        if first != second:
            yield f"versions differ: {name} {first} before, {second} after"
    if before.command != after.command:
        yield f"the commands differ: `{before.command}` before, `{after.command}` after"
    if before.module != after.module:
        yield f"the modules differ: {before.module} before, {after.module} after"
    compared = {case.name for case, _ in pairs}
    for name in dict.fromkeys(case.name for run in (before, after) for case in run.cases if case.name not in compared):
        setups = [next((_setup(case) for case in run.cases if case.name == name), None) for run in (before, after)]
        yield f"the case {name} is not compared: " + " before, ".join(map(_described, setups)) + " after"


def _described(setup: Mapping[str, object] | None) -> str:
    return "not there" if setup is None else ", ".join(f"{name} {value}" for name, value in setup.items())


GET_CONTROLS: Final = (
    ": measure one as well, or, of a module of your own, each build twice, in turns; what moves between two runs of "
    "one build is the machine"
)


def _of_controls(
    moves: Iterable[_Move],
    controls: Mapping[tuple[str, str], _Controls],
    between: Mapping[str, _Noise],
    threshold: float,
) -> Iterator[str]:
    """Sentences on what the controls say of the machine, and on cases without controls."""
    names = ", ".join(dict.fromkeys(move.series.variant for move in moves if move.control))
    times = [
        controls[move.group].log
        for move in moves
        if move.control and move.figure == "median" and move.series.unit in ("us", "ms") and not math.isnan(move.log)
    ]
    lone = [f"{metric} in {case}" for (case, metric), each in controls.items() if not len(each.logs)]
    if lone:
        alone = len(lone) == len(controls)
        yield (
            f"no change is told of {'any figure' if alone else ', '.join(lone)}, for no control, a variant that this "
            "project does not run, was measured there in both runs, and a slower machine would look the same"
            f"{GET_CONTROLS if alone else ''}"
        )
    controlled = {metric for (_, metric), each in controls.items() if len(each.logs)}
    single = [metric for metric, noise in between.items() if noise is ASSUMED and metric in controlled]
    if single:
        yield (
            f"there is one control for {', '.join(single)}, so noise between runs is taken for {BETWEEN_RUNS:.0%} and "
            "only large changes are told: measure a second one as well, as native and goextender"
        )
    if times and abs(statistics.median(times)) >= math.log1p(threshold):
        yield (
            f"the controls ({names}) took {math.exp(statistics.median(times)):.2f} times as long after: "
            "that is the machine or what they are built with, and is taken out of the changes"
        )


TOO_NOISY: Final = "too noisy"
"""The verdict on a run from which no change is told."""


def _quality(runs: Sequence[Run], noises: Sequence[Noise], moves: Iterable[_Move]) -> Iterator[str]:
    """Sentences on why the runs cannot be trusted."""
    for name, run, (verdict, reasons) in zip(("before", "after"), runs, noises, strict=True):
        if verdict == TOO_NOISY:
            yield f"nothing is told, since the run {name} is too noisy: {'; '.join(reasons)}"
        elif reasons:
            yield f"the run {name} is {verdict}: {'; '.join(reasons)}"
        if not run.ended:
            yield f"the run {name} is not finished: continue it"
    few = Counter(move.case for move in moves if not move.rounds)
    if few:
        yield f"too few rounds for intervals in {', '.join(few)}: it takes {FEWEST_ROUNDS} in both runs"


def summary(comparison: Comparison) -> list[str]:
    """The result of a comparison in sentences."""
    counts = Counter(change.verdict for change in comparison.changes)
    wide = any(change.verdict == "unclear" and not math.isnan(change.low) for change in comparison.changes)
    return [
        f"Of {len(comparison.changes)} figures {counts['worse']} are worse and {counts['better']} better by "
        f"{comparison.threshold:.0%} or more, {counts['no change']} have not changed by as much, "
        f"{counts['unclear']} are unclear{': more rounds or a quieter machine may tell' if wide else ''}.",
        *(f"{remark[:1].upper()}{remark[1:]}." for remark in comparison.remarks),
    ]


def table(comparison: Comparison) -> Table:
    """What has changed, as a table that is Markdown too; a change is what is left without that of the controls.

    What moved as far where there are none stands at its end: it may be the machine.
    """
    shown = Table(*HEAD, box=box.MARKDOWN)
    changes = comparison.changes
    lone = [each for each in changes if math.isnan(each.controls) and _is_far(each.ratio, comparison.threshold)]
    told = [each for verdict in ("worse", "better") for each in changes if each.verdict == verdict]
    for change in (*told, *lone):
        shown.add_row(*(Text(printable(cell)) for cell in _cells(change)))
    return shown


def _is_far(ratio: float, threshold: float) -> bool:
    return ratio > 0 and abs(math.log(ratio)) >= math.log1p(threshold)


def _cells(change: Change) -> tuple[str, ...]:
    return (
        change.case,
        change.variant,
        f"{change.metric} {change.figure}",
        f"{change.before:.4g} {change.unit}",
        f"{change.after:.4g} {change.unit}",
        _part(change.controls),
        _part(change.ratio),
        "none" if math.isnan(change.low) else f"{_part(change.low)} to {_part(change.high)}",
        change.verdict,
    )


def _part(ratio: float) -> str:
    """A ratio as what is more or less, if there is one."""
    return "none" if math.isnan(ratio) else f"{ratio - 1:+.1%}"
