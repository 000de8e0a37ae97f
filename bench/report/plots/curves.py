"""How samples are distributed."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.report.plots.canvas import INK, Plot, draw, logarithmic
from bench.report.plots.palette import look
from bench.report.results import Results
from bench.report.words import label, measured
from bench.run import Case

STEPS: Final = np.concatenate([np.linspace(0, 0.98, 99), np.linspace(0.981, 1, 20)])
"""The part of the samples at each point of a curve."""


def distribution(results: Results, case: Case, metric: str) -> Plot:
    """The distribution of a metric in a case, a curve for each variant."""
    what = "until a pod is bound" if metric == "pod" else f"a {metric} takes"
    return draw(
        f"{metric}-distribution-{case.name}",
        f"How long {what}, {case.title}",
        "Further left is better. A curve says which part of the samples took no longer; where it bends to the right "
        "near the top, some took much longer than most.",
        4.4,
        partial(_paint, results, case, metric),
    )


def _paint(results: Results, case: Case, metric: str, figure: Figure) -> None:
    axes = figure.subplots()
    for each in sorted(results.all(case, metric), key=lambda each: each.p50.value):
        colour, dashes, _ = look(each.variant)
        axes.plot(np.quantile(each.samples, STEPS), STEPS, color=colour, linestyle=dashes, label=label(each.variant))
    logarithmic(axes, "x")
    axes.set_yticks([0, 0.25, 0.5, 0.75, 0.9, 0.99])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.set_ylim(0, 1)
    axes.grid(True)
    axes.set_xlabel(f"ms, {measured(metric)}")
    axes.set_ylabel("of the samples")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        labelcolor=INK,
        title="the quickest first",
        alignment="left",
    )
