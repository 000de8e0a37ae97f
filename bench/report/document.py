"""A run as a program reads it: `run.json` with its figures."""

from __future__ import annotations

from typing import Any

import msgspec

from bench.report.results import Comparison, Figures, Results, Verdict, quantiles
from bench.run import Better, Case
from bench.statistics import Estimate


class Interval(msgspec.Struct, frozen=True):
    """A figure, and the interval of 95% around it; null bounds where rounds or samples are too few for one."""

    value: float
    low: float | None
    high: float | None


class Ratio(msgspec.Struct, frozen=True, rename="camel"):
    """How many times the figure of another variant this one is."""

    variant: str
    """The variant in the denominator."""
    quantile: float
    """Which quantile is compared: 0.5 or 0.99."""
    ratio: Interval | None
    """None without an interval: it would say nothing, and might contradict the medians."""
    verdict: Verdict
    """`alike` where the interval reaches 1, `open` where there is none."""


class Figure(msgspec.Struct, frozen=True, rename="camel"):
    """The figures of a variant in a metric of a case."""

    case: str
    nodes: int
    metric: str
    variant: str
    unit: str
    """The unit of the figures. All times are in milliseconds."""
    better: Better
    rounds: int
    p50: Interval
    p90: Interval
    p99: Interval
    outliers: int
    beside: list[Ratio]
    """The ratios to the in-process variant and to the extender in Go, as far as both were measured."""


def document(results: Results) -> dict[str, Any]:
    """The run's keys, and `figures`."""
    found = [
        _figure(results, case, each)
        for case in results.run.cases
        for metric in results.metrics(case)
        for each in results.all(case, metric)
    ]
    run: dict[str, Any] = msgspec.to_builtins(results.run)
    return run | {"figures": found}


def _figure(results: Results, case: Case, found: Figures) -> Figure:
    metric = found.series.metric
    compared = [
        _ratio(each, q) for q in quantiles(metric) for each in results.beside(case, found.variant.name, metric, q)
    ]
    return Figure(
        case=case.name,
        nodes=case.nodes,
        metric=metric,
        variant=found.variant.name,
        unit=found.unit,
        better=found.series.better,
        rounds=found.rounds,
        p50=_interval(found.p50),
        p90=_interval(found.p90),
        p99=_interval(found.p99),
        outliers=found.outliers,
        beside=compared,
    )


def _ratio(compared: Comparison, q: float) -> Ratio:
    ratio = None if compared.verdict == "open" else _interval(compared.ratio)
    return Ratio(compared.base.name, q, ratio, compared.verdict)


def _interval(estimate: Estimate) -> Interval:
    """An interval with None in the place of nan, which JSON lacks."""
    return Interval(*estimate)
