"""Samples over time, and when modules were swapped."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from bench.report.plots.canvas import INK, Plot, draw
from bench.report.plots.palette import look
from bench.report.words import SHOWN, count, label
from bench.run import Case, Timeline, Variant

WINDOWS: Final = 150


def timeline(case: Case, line: Timeline, variant: Variant) -> Plot:
    """The median, the p99 and the longest of each of WINDOWS windows."""
    return draw(
        f"{line.metric}-timeline-{case.name}-{variant.name}",
        f"While modules are swapped: {label(variant)}, {case.title}",
        f"Lower is better. {count(len(line.values), 'sample')} in windows of {_window(line):.2g} s: the line is the "
        "median, the band reaches to the p99, crosses are the longest of each window. "
        f"Upright lines: {count(len(line.marks), 'swap')}.",
        3.4,
        partial(_paint, line, variant),
        wide=True,
    )


def _window(line: Timeline) -> float:
    """The seconds of a window."""
    return (max(line.seconds) - min(line.seconds)) / WINDOWS or 1.0


def _paint(line: Timeline, variant: Variant, figure: Figure) -> None:
    axes = figure.subplots()
    scale, unit = SHOWN[line.unit]
    seconds, values = np.array(line.seconds), np.array(line.values) * scale
    window = _window(line)
    at = np.minimum((seconds - seconds.min()) // window, WINDOWS - 1)
    used = np.unique(at)
    p50, p99, longest = np.array([np.quantile(values[at == each], (0.5, 0.99, 1)) for each in used]).T
    middle = seconds.min() + (used + 0.5) * window
    for mark in line.marks:
        axes.axvline(mark, color=INK, linewidth=0.9, alpha=0.45)
    axes.fill_between(middle, p50, p99, color=look(variant).colour, alpha=0.3, linewidth=0)
    axes.plot(middle, p50, color=look(variant).colour)
    axes.plot(middle, longest, color=look(variant).colour, marker="x", markersize=3.5, linestyle="none", alpha=0.8)
    axes.set_ylim(0, None)
    axes.set_xlim(seconds.min(), seconds.min() + WINDOWS * window)
    axes.grid(True, axis="y")
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"{unit}, {line.metric}")
