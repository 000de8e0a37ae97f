"""The figures of a run, each computed once, as sentences, tables and plots need them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Final, Literal, NamedTuple

from bench import statistics
from bench.report.words import BEST, SHOWN, STARTS, UNDIVIDED, difference
from bench.run import QUIET, Case, Run, Series, Variant, is_coarse
from bench.statistics import Estimate

MAIN: Final = ("cycle", "throughput", "pod", "gang", "filter", "prioritize")
"""Metrics that a case can be about; the first that was measured in it is taken."""

ASIDE: Final = ("algorithm", "cpu kube-scheduler", "cpu extender", "memory extender", *STARTS)
"""Further metrics by which our extender may win or lose in a case."""

BASES: Final = ("stock", "native", "gang-native", "gang-coscheduling", "wasmtime", "upstream", "wasmer")
"""Variants without an extender that others are compared with; the first that was measured is taken."""

OURS: Final = ("kwx-top1", "kwx", "kwx-top5", "kwx-whole", "gang-kwx", "gang-kwx-native")
"""Our extender in each way of asking it; what a run says is about the first of these that was measured."""
PEERS: Final = {"kwx-top1": "goextender-top1", "kwx": "goextender", "kwx-whole": "goextender-whole"}
"""The extender in Go that is asked in the same way as each of ours."""
COMPILED: Final[Mapping[str, Sequence[str]]] = {
    BEST: ("native", "native-noscores"),
    "gang-kwx": ("gang-native", "gang-coscheduling"),
}
"""Compiled-in plugins that our extenders which decide alone are also compared with, by variant."""

HARNESS: Final = "harness"
"""The process that stands for whoever creates pods: what it takes is no part of what scheduling takes."""

TYPICAL: Final = 500
"""Nodes of the case that the first sentence is about, or the next to it."""

Verdict = Literal["better", "worse", "alike", "open"]
"""`alike` where the interval has room for no difference, `open` where there is no interval."""


def quantiles(metric: str) -> Sequence[float]:
    """The quantiles of a metric that are shown; a metric with one sample a round has no p99."""
    return (0.5,) if metric in {"throughput", *ASIDE} else (0.5, 0.99)


@dataclass(frozen=True)
class Figures:
    """The figures of a series, in the unit in which they are shown."""

    series: Series
    variant: Variant
    unit: str
    p50: Estimate
    p90: Estimate
    p99: Estimate
    outliers: int

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.series.rounds)

    @cached_property
    def middles(self) -> list[float]:
        """The median of each round in which something was measured."""
        scale, _ = SHOWN[self.series.unit]
        return [median(samples) * scale for samples in statistics.measured(self.series)]

    @cached_property
    def samples(self) -> list[float]:
        """The samples of all rounds, sorted."""
        scale, _ = SHOWN[self.series.unit]
        return sorted(sample * scale for samples in self.series.rounds for sample in samples)

    @cached_property
    def parts(self) -> dict[str, float]:
        """The mean of each part; of what has but one, the whole as UNDIVIDED."""
        scale, _ = SHOWN[self.series.unit]
        means = {part: mean * scale for part, mean in statistics.parts(self.series).items()}
        return means if len(means) != 1 else {UNDIVIDED: sum(means.values())}

    def at(self, q: float) -> Estimate:
        """One of the quantiles: 0.5, 0.9 or 0.99."""
        return {0.5: self.p50, 0.9: self.p90, 0.99: self.p99}[q]


class Comparison(NamedTuple):
    """How many times the figure of the base a variant's is, in one case; shown only with an interval.

    Without one it says nothing, and as a median of few rounds' ratios it may contradict the medians beside it.
    """

    case: Case
    variant: Variant
    base: Variant
    metric: str
    ratio: Estimate
    verdict: Verdict


class Change(NamedTuple):
    """A case in which something goes on, or is otherwise, beside what was measured without."""

    what: str
    """How the case differs, as in `3 plugins`."""
    metric: str
    after: Case
    plain: str
    """The metric without: in a round each of the same case, or in another case."""
    before: Case

    @property
    def together(self) -> bool:
        """Whether both were measured in turns."""
        return self.before is self.after


class Results:
    """The figures of a run; cases without any sample are none."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._figures: dict[tuple[str, str, str], Figures] = {}
        self._coarse: dict[tuple[str, str, str], float] = {}
        variants = {each.name: each for each in run.variants}
        for case in run.cases:
            for series in case.series:
                key = (case.name, series.variant, series.metric)
                if series.variant not in variants or not any(series.rounds):
                    continue
                if is_coarse(series.metric):
                    self._coarse[key] = _middle(series)
                else:
                    self._figures[key] = _figures(series, variants[series.variant])
        self._ratios: dict[tuple[str, str, str, str, float], Estimate] = {}

    def of(self, case: Case, variant: str, metric: str) -> Figures | None:
        """The figures of a metric of a variant in a case, if it was measured."""
        return self._figures.get((case.name, variant, metric))

    def coarse(self, case: Case, variant: str, metric: str) -> float | None:
        """A percentile of buckets, if it was measured: there is no more to say of it than that."""
        return self._coarse.get((case.name, variant, metric))

    def all(self, case: Case, metric: str) -> list[Figures]:
        """The figures of each variant, in the run's order."""
        found = (self.of(case, variant.name, metric) for variant in self.run.variants)
        return [each for each in found if each]

    def divided(self, case: Case, metric: str) -> list[Figures]:
        """The figures of each variant that has parts; none where no variant can tell parts apart."""
        found = [each for each in self.all(case, metric) if each.parts]
        return found if any(UNDIVIDED not in each.parts for each in found) else []

    def metrics(self, case: Case) -> list[str]:
        """The metrics of a case, in the order of the run."""
        return list(dict.fromkeys(metric for name, _, metric in self._figures if name == case.name))

    def main(self, case: Case) -> str | None:
        """The metric that a case is about; None if it is about none of MAIN."""
        measured = self.metrics(case)
        if case.settings.get("load") == "steady" and "pod" in measured:
            return "pod"
        return next((metric for metric in MAIN if metric in measured), None)

    def by_metric(self) -> dict[str, list[Case]]:
        """The cases that are about each of MAIN."""
        found: dict[str, list[Case]] = {}
        for case in self.run.cases:
            if metric := self.main(case):
                found.setdefault(metric, []).append(case)
        return found

    def weighed(self) -> dict[str, list[Case]]:
        """The cases in which ours loses or wins by a metric: those that are about it, all that have one of ASIDE."""
        cases = {metric: [case for case in self.run.cases if metric in self.metrics(case)] for metric in ASIDE}
        return self.by_metric() | {metric: found for metric, found in cases.items() if found}

    def base(self, case: Case, metric: str) -> Variant | None:
        """What others are compared with in a case; nothing for starts, which begin at different things."""
        if metric in STARTS:
            return None
        return next((found.variant for name in BASES if (found := self.of(case, name, metric))), None)

    def ours(self, case: Case, metric: str) -> list[Figures]:
        """The figures of our extender, in each way of asking it."""
        return [found for name in OURS if (found := self.of(case, name, metric))]

    def compare(self, case: Case, variant: str, base: str, metric: str, q: float = 0.5) -> Comparison | None:
        """How a variant compares with another, if both were measured."""
        one, other = self.of(case, variant, metric), self.of(case, base, metric)
        if one is None or other is None or variant == base:
            return None
        key = (case.name, variant, base, metric, q)
        if key not in self._ratios:
            self._ratios[key] = statistics.ratio(one.series, other.series, q)
        ratio = self._ratios[key]
        return Comparison(case, one.variant, other.variant, metric, ratio, _verdict(ratio, one.series.better))

    def beside(self, case: Case, variant: str, metric: str, q: float = 0.5) -> list[Comparison]:
        """How a variant compares with what is in-process, and with the extender in Go."""
        base = self.base(case, metric)
        compiled = COMPILED.get(variant, ()) if base else ()
        names = dict.fromkeys([base.name if base else "", *compiled, PEERS.get(variant, "")])
        return [found for name in names if (found := self.compare(case, variant, name, metric, q))]

    def scale(self, metric: str) -> list[Case]:
        """The cases that differ in nodes alone, with rising nodes: those with the settings that most cases have.

        Those of gangs differ in members instead, and are in the order in which they were measured.
        """
        cases = self.by_metric().get(metric, [])
        if metric == "gang":
            return cases
        cases = [case for case in cases if metric + QUIET not in self.metrics(case)] or cases
        usual = Counter(_settings(case) for case in cases).most_common(1)
        return sorted((case for case in cases if _settings(case) == usual[0][0]), key=lambda case: case.nodes)

    def alike(self) -> list[Case]:
        """The cases in which pods are alike, so that kube-scheduler may batch them, with rising nodes."""
        cases = (case for case in self.run.cases if case.settings.get("alike") and self.main(case))
        return sorted(cases, key=lambda case: case.nodes)

    def changes(self, metric: str) -> list[Change]:
        """What else than the nodes differs in a case from those of `scale`."""
        plain = {case.nodes: case for case in self.scale(metric)}
        changes = []
        for case in self.by_metric().get(metric, []):
            what = difference(next(iter(plain.values())), case)
            if metric + QUIET in self.metrics(case):
                changes.append(Change(what, metric, case, metric + QUIET, case))
            elif case.nodes in plain and case not in plain.values():
                changes.append(Change(what, metric, case, metric, plain[case.nodes]))
        return changes

    def pairs(self, change: Change) -> list[tuple[Figures, Figures]]:
        """The figures of each variant before and after."""
        before = self.all(change.before, change.plain)
        return [(each, found) for each in before if (found := self.of(change.after, each.variant.name, change.metric))]

    def processes(self, case: Case, metric: str) -> list[str]:
        """The processes whose `cpu` or `memory` was measured, without the harness."""
        names = [each.removeprefix(f"{metric} ") for each in self.metrics(case) if each.startswith(f"{metric} ")]
        return [name for name in names if name != HARNESS]

    def unasked(self, metric: str) -> bool:
        """Whether rounds of a metric were measured, and none of them has a sample."""
        series = [each for case in self.run.cases for each in case.series if each.metric == metric and each.rounds]
        return bool(series) and not any(any(each.rounds) for each in series)

    def typical(self, metric: str) -> Case | None:
        """The case that the first sentence is about."""
        return min(self.scale(metric), key=lambda case: abs(math.log(max(case.nodes, 1) / TYPICAL)), default=None)


def _figures(series: Series, variant: Variant) -> Figures:
    scale, unit = SHOWN[series.unit]
    p50, p90, p99 = (Estimate(*(bound * scale for bound in statistics.quantile(series, q))) for q in (0.5, 0.9, 0.99))
    return Figures(series, variant, unit, p50, p90, p99, statistics.outliers(series))


def _middle(series: Series) -> float:
    """The median of all samples."""
    scale, _ = SHOWN[series.unit]
    return median(sample for samples in series.rounds for sample in samples) * scale


def _settings(case: Case) -> tuple[tuple[str, int | float | str | bool], ...]:
    return tuple(sorted(case.settings.items()))


def _verdict(ratio: Estimate, better: Literal["lower", "higher"]) -> Verdict:
    if ratio.low > 1:
        return "worse" if better == "lower" else "better"
    if ratio.high < 1:
        return "better" if better == "lower" else "worse"
    return "open" if math.isnan(ratio.low + ratio.high) else "alike"
