"""A quantile of a metric against nodes, a line for each variant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.report.plots.canvas import Plot, draw, logarithmic, spread, tick
from bench.report.plots.palette import look
from bench.report.results import Results, quantiles
from bench.report.words import capital, label, measured
from bench.run import Case, Variant

HEIGHT: Final = 5.0
WHAT: Final = {verb: f"a pod's {verb}" for verb in ("cycle", "filter", "prioritize")}
"""Metrics of a pod whose names do not say so, as titles call them."""
MARGIN: Final = 1.6
"""Times that an axis reaches beyond what is on it."""
LINE_OF_TEXT: Final = 0.043
"""How far labels are apart at least, as a part of the axis."""


def growth(results: Results, metric: str, q: float) -> Plot:
    """A plot of the cases that differ in nodes alone."""
    name, cases = f"p{q * 100:.0f}", results.scale(metric)
    which = "the median" if q == 0.5 else "one in a hundred takes longer"
    every = [each for case in cases for each in results.all(case, metric)]
    bars = " Bars on the points are intervals of 95%." if any(math.isfinite(each.at(q).low) for each in every) else ""
    return draw(
        f"{metric}-nodes-{name}",
        f"{capital(WHAT.get(metric, measured(metric)))} against nodes, {name}",
        f"{capital(every[0].series.better)} is better ({name}: {which}). Both scales are logarithmic: equal distances "
        f"are equal ratios.{bars}",
        HEIGHT,
        partial(_paint, results, metric, q, cases),
    )


def _paint(results: Results, metric: str, q: float, cases: Sequence[Case], figure: Figure) -> None:
    axes = figure.subplots()
    ends: list[tuple[Variant, float, float]] = []
    for variant in results.run.variants:
        found = [(case.nodes, results.of(case, variant.name, metric)) for case in cases]
        points = [(nodes, figures.at(q)) for nodes, figures in found if figures and figures.at(q).value > 0]
        if not points:
            continue
        nodes, values = [at for at, _ in points], [each.value for _, each in points]
        colour, dashes, marker = look(variant)
        low = [each.value - each.low if math.isfinite(each.low) else 0 for _, each in points]
        high = [each.high - each.value if math.isfinite(each.high) else 0 for _, each in points]
        axes.plot(nodes, values, color=colour, linestyle=dashes, marker=marker)
        axes.errorbar(nodes, values, yerr=(low, high), fmt="none", ecolor=colour, elinewidth=1.2)
        ends.append((variant, nodes[-1], values[-1]))
    logarithmic(axes, "x")
    logarithmic(axes, "y")
    shown = [case.nodes for case in cases]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(True)
    axes.set_xlabel("nodes")
    axes.set_ylabel(f"{results.all(cases[0], metric)[0].unit}, {measured(metric)}")
    axes.set_ylim(*_limits(results, metric, cases))
    _label(axes, ends)


def _limits(results: Results, metric: str, cases: Sequence[Case]) -> tuple[float, float]:
    """The limits of the axis for all percentiles, whose plots stand side by side."""
    every = [each for case in cases for each in results.all(case, metric)]
    values = [value for each in every for q in quantiles(metric) if (value := each.at(q).value) > 0]
    return min(values) / MARGIN, max(values) * MARGIN


def _label(axes: Axes, ends: Sequence[tuple[Variant, float, float]]) -> None:
    """Names each line at the height of its end, right of the plot."""
    low, high = (math.log(bound) for bound in axes.get_ylim())
    heights = [(math.log(value) - low) / (high - low) for _, _, value in ends]
    for (variant, nodes, value), height in zip(ends, spread(heights, LINE_OF_TEXT), strict=True):
        axes.annotate(
            label(variant),
            (nodes, value),
            xytext=(1.06, height),
            textcoords=axes.transAxes,
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": look(variant).colour,
                "lw": 0.7,
                "alpha": 0.55,
                "shrinkB": 4,
                "shrinkA": 2,
            },
        )
