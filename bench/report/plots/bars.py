"""Figures that are looked at one by one: a bar for each variant, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bench.report.plots.canvas import INK, Plot, draw, tick
from bench.report.plots.palette import look
from bench.report.results import Figures, Results
from bench.report.words import STARTS, figure, label
from bench.run import Case


class Panel(NamedTuple):
    """A group of bars on one axis."""

    label: str
    bars: Sequence[Figures]


def throughput(
    results: Results, cases: Sequence[Case], name: str = "throughput", title: str = "Pods bound a second"
) -> Plot:
    """Pods a second for each number of nodes."""
    panels = [Panel(case.title, results.all(case, "throughput")) for case in cases]
    return _bars(name, title, "Higher is better.", panels)


def gangs(results: Results, cases: Sequence[Case]) -> Plot:
    """How long gangs of each size take."""
    panels = [Panel(case.title, results.all(case, "gang")) for case in cases]
    return _bars("gangs", "From a gang's last member created until all are bound", "Lower is better.", panels)


def start(results: Results, case: Case) -> Plot:
    """The time from a start to the first answer, with extenders and in-process plugins in panels of their own."""
    panels = [
        Panel(f"{kind}, {cached}", bars)
        for kind in ("extender", "in-process")
        for metric, cached in STARTS.items()
        if (bars := [each for each in results.all(case, metric) if each.variant.kind == kind])
    ]
    reading = (
        "Lower is better. Of an extender it is from the start of its process until it is ready, and the first cycle; "
        "in-process it is loading the plugin and the first cycle."
    )
    return _bars(f"start-{case.name}", f"Cold start: {case.title}", reading, panels)


def _bars(name: str, title: str, reading: str, panels: Sequence[Panel]) -> Plot:
    intervals = [math.isfinite(each.p50.low) for panel in panels for each in panel.bars]
    reading += " Thin lines are intervals of 95%." if any(intervals) else " No intervals: too few rounds."
    height = 0.5 + sum(0.6 + 0.3 * len(panel.bars) for panel in panels)
    return draw(name, title, reading, height, partial(_paint, panels))


def _paint(panels: Sequence[Panel], drawn: Figure) -> None:
    every = drawn.subplots(
        len(panels), squeeze=False, sharex=True, height_ratios=[len(panel.bars) + 0.6 for panel in panels]
    )[:, 0]
    for axes, panel in zip(every, panels, strict=True):
        for row, each in enumerate(panel.bars):
            value, low, high = each.p50
            axes.barh(
                row,
                value,
                color=look(each.variant).colour,
                height=0.62,
                alpha=0.55 if look(each.variant).dashes == "--" else 1,
            )
            if math.isfinite(low + high):
                axes.plot([low, high], [row, row], color=INK, linewidth=1.2)
            end = high if math.isfinite(high) else value
            axes.annotate(figure(value), (end, row), (6, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(panel.bars)), [label(each.variant) for each in panel.bars])
        axes.set_ylim(len(panel.bars) - 0.5, -0.5)
        axes.set_title(panel.label, loc="left", fontsize=11.5)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 2.5, 5, 10)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        axes.tick_params("y", length=0)
        axes.grid(True, axis="x")
    every[-1].set_xlim(0, every[-1].get_xlim()[1] * 1.06)
    every[-1].set_xlabel(panels[0].bars[0].unit)
