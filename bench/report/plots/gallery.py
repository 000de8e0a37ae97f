"""Which plots a run has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bench.report.plots import bars, curves, dots, growth, stacks, times
from bench.report.plots.canvas import Plot
from bench.report.results import Results, quantiles
from bench.report.words import STARTS
from bench.run import Case, Level

LARGE: Final = 5000
"""Nodes of the second case that is looked at more closely, or the next to it."""


def gallery(results: Results) -> list[Plot]:
    """The plots that a run's figures make, in the order in which they are looked at."""
    return [plot for plot in GALLERIES[results.run.level](results) if plot]


def _plugin(results: Results) -> Iterator[Plot | None]:
    metric = next((each for each in ("cycle", "filter", "prioritize") if results.scale(each)), "")
    yield from _growth(results, metric)
    close = _close(results, metric)
    for case in close:
        yield from stacks.breakdown(results, case, metric)
    yield dots.beside_base(results, metric)
    yield dots.beside_go(results, metric)
    for case in close:
        yield curves.distribution(results, case, metric)
    for change in results.changes(metric):
        yield dots.change(results, change)
    for case in results.run.cases:
        if STARTS.keys() & set(results.metrics(case)):
            yield bars.start(results, case)
    for case in results.run.cases:
        for line in case.timelines:
            if line.values:
                yield times.timeline(case, line, results.run.variant(line.variant))


def _growth(results: Results, metric: str) -> Iterator[Plot]:
    """A metric against nodes, where there is more than one number of them."""
    if len(results.scale(metric)) > 1:
        for q in quantiles(metric):
            yield growth.growth(results, metric, q)


def _close(results: Results, metric: str) -> list[Case]:
    """The cases that are looked at more closely: a typical one, and a large one if there is."""
    cases, typical = results.scale(metric), results.typical(metric)
    large = [case for case in cases if typical and typical.nodes < case.nodes <= LARGE]
    return ([typical] if typical else []) + large[-1:]


def _scheduler(results: Results) -> Iterator[Plot | None]:
    batches, steady = results.scale("throughput"), results.scale("pod")
    if batches:
        yield bars.throughput(results, batches)
    yield from _growth(results, "throughput")
    yield dots.beside_base(results, "throughput")
    yield dots.beside_go(results, "throughput")
    alike = [case for case in results.alike() if case not in batches]
    if alike:
        yield bars.throughput(results, alike, "throughput-alike", "Pods bound a second, of those that are alike")
    yield from _growth(results, "pod")
    for case in steady:
        yield curves.distribution(results, case, "pod")
    yield dots.beside_go(results, "pod")
    for case in batches or steady:
        yield from stacks.breakdown(results, case, "extender")
        yield stacks.usage(results, case, "cpu", "ms")
        yield stacks.usage(results, case, "memory", "MB")


def _gangs(results: Results) -> Iterator[Plot | None]:
    cases = results.scale("gang")
    if cases:
        yield bars.gangs(results, cases)
    for case in cases:
        yield stacks.usage(results, case, "cpu", "ms")


GALLERIES: Final[Mapping[Level, Callable[[Results], Iterator[Plot | None]]]] = {
    "plugin": _plugin,
    "scheduler": _scheduler,
    "gangs": _gangs,
}
