"""Ratios and changes: a point for each, with its interval, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.report.plots.canvas import INK, Plot, draw, logarithmic
from bench.report.plots.palette import GREY, Look, look
from bench.report.results import PEERS, Change, Comparison, Figures, Results, quantiles
from bench.report.words import bounds, capital, count, factor, label, measured, times
from bench.statistics import ratio

ROW: Final = 0.24
"""Inches that a point takes."""


class Dot(NamedTuple):
    """A ratio as a point with its interval; a hollow point is a p99."""

    label: str
    look: Look
    comparison: Comparison
    hollow: bool = False


class Row(NamedTuple):
    """The points of one case."""

    label: str
    dots: Sequence[Dot]


def beside_base(results: Results, metric: str) -> Plot | None:
    """How each variant compares with what is in-process, for each number of nodes."""
    rows = []
    called = ""
    for case in results.scale(metric):
        base = results.base(case, metric)
        if base is None:
            continue
        called = label(base)
        compared = [results.compare(case, each.name, base.name, metric) for each in results.run.variants]
        dots = [Dot(label(each.variant), look(each.variant), each) for each in compared if each and bounds(each.ratio)]
        rows.append(Row(count(case.nodes, "node"), dots))
    title = f"{capital(measured(metric))}, as a multiple of: {called}"
    return _ratios(
        f"{metric}-ratio-base",
        title,
        "How many times that of the other the median is, in the same rounds",
        rows,
        metric,
    )


def beside_go(results: Results, metric: str) -> Plot | None:
    """How our extender compares with the one in Go, in each case."""
    rows = []
    for case in results.by_metric().get(metric, []):
        dots = [
            Dot(f"{label(compared.variant)}: p{q * 100:.0f}", look(compared.variant), compared, q != 0.5)
            for ours, peer in PEERS.items()
            for q in quantiles(metric)
            if (compared := results.compare(case, ours, peer, metric, q)) and bounds(compared.ratio)
        ]
        rows.append(Row(case.title, dots))
    title = f"{capital(measured(metric))}, as a multiple of the Go extender's"
    return _ratios(
        f"{metric}-ratio-go", title, "How many times that of the one in Go ours is, asked in the same way", rows, metric
    )


def _ratios(name: str, title: str, what: str, rows: Sequence[Row], metric: str) -> Plot | None:
    rows = [row for row in rows if row.dots]
    if not rows:
        return None
    more = metric == "throughput"
    reading = (
        f"{what}: right of 1 is {'better' if more else 'worse'}. Bars and brackets are intervals of 95%: where one "
        "does not reach 1, a difference is shown."
    )
    labels = len({dot.label for row in rows for dot in row.dots})
    height = 1.2 + ROW * sum(len(row.dots) for row in rows) + 0.16 * len(rows) + 0.21 * ((labels + 1) // 2)
    sides = ("fewer", "more") if more else ("quicker", "slower")
    return draw(name, title, reading, height, partial(_paint_ratios, rows, sides))


def _paint_ratios(rows: Sequence[Row], sides: tuple[str, str], figure: Figure) -> None:
    axes = figure.subplots()
    place, ticks, legend = 0.0, [], dict[str, Line2D]()
    for row in rows:
        ticks.append(place + (len(row.dots) - 1) / 2)
        for dot in row.dots:
            _point(axes, dot, place)
            legend.setdefault(dot.label, _sample(dot))
            place += 1
        place += 0.7
        if row is not rows[-1]:
            axes.axhline(place - 0.85, color=INK, alpha=0.15, linewidth=0.6)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_yticks(ticks, [row.label for row in rows])
    axes.set_ylim(place - 0.7, -0.9)
    ratios = [dot.comparison.ratio for row in rows for dot in row.dots]
    reached = [1.0, *(bound for ratio in ratios for bound in ratio)]
    axes.set_xlim(min(reached) / 1.25, max(reached) * 1.25)
    logarithmic(axes, "x")
    axes.tick_params("y", length=0)
    axes.grid(True, axis="x")
    for text, offset, end in (
        (f"{sides[0]} \N{BLACK LEFT-POINTING SMALL TRIANGLE}", -6, "right"),
        (f"\N{BLACK RIGHT-POINTING SMALL TRIANGLE} {sides[1]}", 6, "left"),
    ):
        axes.annotate(text, (1, 1), (offset, 3), ("data", "axes fraction"), "offset points", ha=end, va="bottom")
    axes.set_xlabel("times the other's")
    figure.legend(handles=list(legend.values()), loc="outside upper left", ncols=2, labelcolor=INK)


def _point(axes: Axes, dot: Dot, place: float) -> None:
    """A point with its interval, and both in figures right of the plot."""
    ratio, colour = dot.comparison.ratio, dot.look.colour
    axes.plot([ratio.low, ratio.high], [place, place], color=colour, linewidth=1.6)
    fill = "none" if dot.hollow else colour
    axes.plot([ratio.value], [place], marker=dot.look.marker, color=colour, markerfacecolor=fill)
    text = f"{factor(ratio.value)} ({bounds(ratio)})"
    axes.annotate(text, (1, place), (8, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=10)


def _sample(dot: Dot) -> Line2D:
    fill, marker = "none" if dot.hollow else dot.look.colour, dot.look.marker
    return Line2D([], [], color=dot.look.colour, marker=marker, markerfacecolor=fill, linestyle="none", label=dot.label)


def change(results: Results, found: Change) -> Plot | None:
    """A plot of how each variant changes with the activity or the setting of a case."""
    pairs = results.pairs(found)
    if not pairs:
        return None
    turns = "in turns" if found.together else "in another case"
    return draw(
        f"{found.metric}-{found.after.name}",
        f"What changes with {found.what}, {count(found.after.nodes, 'node')}",
        f"Lower is better. Grey points are without, measured {turns}, coloured ones with {found.what}; hollow points "
        "and dotted lines are p99. The figure says how many times as long the median is.",
        1.0 + 0.5 * len(pairs),
        partial(_paint_change, pairs, together=found.together),
    )


def _paint_change(pairs: Sequence[tuple[Figures, Figures]], figure: Figure, *, together: bool) -> None:
    axes = figure.subplots()
    for row, (before, after) in enumerate(pairs):
        colour, _, marker = look(after.variant)
        for q, place in ((0.5, row - 0.13), (0.99, row + 0.2)):
            a, b = before.at(q).value, after.at(q).value
            fill, dashes = (colour, "-") if q == 0.5 else ("none", ":")
            axes.plot([a, b], [place, place], color=colour, linewidth=1.6, linestyle=dashes)
            axes.plot([a], [place], marker="o", color=GREY, markerfacecolor=GREY if q == 0.5 else "none")
            axes.plot([b], [place], marker=marker, color=colour, markerfacecolor=fill)
        # Rounds are pairs only where both were measured in turns.
        paired = ratio(after.series, before.series)
        beside = times(paired) if together and bounds(paired) else f"{factor(_quotient(before, after))} times"
        axes.annotate(beside, (1, row), (8, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=10)
    axes.set_yticks(range(len(pairs)), [label(before.variant) for before, _ in pairs])
    axes.set_ylim(len(pairs) - 0.5, -0.5)
    figures = [each for pair in pairs for each in pair]
    axes.set_xlim(min(each.p50.value for each in figures) * 0.7, max(each.p99.value for each in figures) * 1.4)
    logarithmic(axes, "x")
    axes.tick_params("y", length=0)
    axes.grid(True, axis="x")
    axes.set_xlabel("ms")


def _quotient(before: Figures, after: Figures) -> float:
    return after.p50.value / before.p50.value if before.p50.value else math.nan
