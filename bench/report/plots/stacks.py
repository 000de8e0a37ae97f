"""The parts of figures: a bar for each variant, a colour for each part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bench.report.plots.canvas import INK, Plot, draw, tick
from bench.report.plots.palette import NEUTRAL, PART_COLOURS, PROCESS_COLOURS, UNKNOWN
from bench.report.results import Results
from bench.report.words import UNDIVIDED, capital, figure, label, measured
from bench.run import PARTS, Case, Variant

WIDEST: Final = ("kwx", "kwx-whole")
"""Our extenders to whose scale plots are, asked by names and with whole nodes."""
MAX_LENGTH: Final = 1.6
"""Times that a bar may be longer than the one that a plot is about; a longer one is cut there."""


class Bar(NamedTuple):
    """The parts of one variant's figure."""

    variant: Variant
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(self.parts.values())


def breakdown(results: Results, case: Case, metric: str) -> Iterator[Plot]:
    """Where the time of a verb goes, a plot to the scale of each extender of ours; none where no variant can tell."""
    bars = {each.variant.name: Bar(each.variant, each.parts) for each in results.divided(case, metric)}
    colours = {part: (text, PART_COLOURS[part]) for part, text in PARTS.items()}
    title = f"Where the time of a {metric} goes" if metric != "extender" else capital(measured(metric))
    about = [bars[name].total for name in WIDEST if name in bars] or [
        max((bar.total for bar in bars.values()), default=0)
    ]
    for total, which, ending in zip(about, ("", ", whole nodes"), ("", "-whole"), strict=False):
        plot = _stacks(
            f"{metric}-parts-{case.name}{ending}",
            f"{title}, {case.title}{which}",
            "Lower is better. Means, the quickest on top; the figure is the whole.",
            list(bars.values()),
            {**colours, UNDIVIDED: ("in-process, undivided", NEUTRAL)},
            "ms",
            MAX_LENGTH * total,
        )
        if plot:
            yield plot


def usage(results: Results, case: Case, metric: str, unit: str) -> Plot | None:
    """What each process takes: `cpu` or `memory`."""
    bars = []
    for variant in results.run.variants:
        found = {
            process: results.of(case, variant.name, f"{metric} {process}")
            for process in results.processes(case, metric)
        }
        parts = {process: each.p50.value for process, each in found.items() if each}
        bars += [Bar(variant, parts)] if parts else []
    title, reading = {
        "cpu": (
            "Processor time a pod",
            "Lower is better. Medians of the rounds; the figure is of all processes together but the harness.",
        ),
        "memory": (
            "Memory",
            "Lower is better. The peak of each process, median of the rounds; they need not be at the same time. "
            "The harness is left out.",
        ),
    }[metric]
    colours = _coloured(results.processes(case, metric))
    return _stacks(f"{metric}-{case.name}", f"{title}, {case.title}", reading, bars, colours, unit)


def _coloured(processes: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """The name and the colour of each process, in the order of PROCESS_COLOURS, others last."""
    order = sorted(processes, key=lambda name: list(PROCESS_COLOURS).index(name) if name in PROCESS_COLOURS else 99)
    return {each: (each, PROCESS_COLOURS.get(each, UNKNOWN.colour)) for each in order}


def _stacks(
    name: str,
    title: str,
    reading: str,
    bars: Sequence[Bar],
    colours: Mapping[str, tuple[str, str]],
    unit: str,
    limit: float = math.inf,
) -> Plot | None:
    """A plot of bars on one scale; bars longer than `limit` are cut there."""
    shown = sorted((bar for bar in bars if bar.total > 0), key=lambda bar: bar.total)
    if not shown:
        return None
    if shown[-1].total > limit:
        reading += " A bar with an arrow goes on beyond the scale."
    used = {part: colours[part] for part in colours if any(bar.parts.get(part) for bar in shown)}
    height = 1.35 + 0.29 * len(shown) + 0.22 * ((len(used) + 1) // 2)
    return draw(name, title, reading, height, partial(_paint, shown, used, unit, limit))


def _paint(bars: Sequence[Bar], colours: Mapping[str, tuple[str, str]], unit: str, limit: float, drawn: Figure) -> None:
    axes = drawn.subplots()
    for row, bar in enumerate(bars):
        left = 0.0
        for part, (_, colour) in colours.items():
            width = min(bar.parts.get(part, 0), limit - left)
            axes.barh(row, width, left=left, color=colour, height=0.62)
            left += width
        arrow = "→ " if bar.total > limit else ""
        axes.annotate(
            f"{arrow}{figure(bar.total)} {unit}", (left, row), (5, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(range(len(bars)), [label(bar.variant) for bar in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, 1.2 * min(bars[-1].total, limit))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=(1, 2, 2.5, 5, 10)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axes.tick_params("y", length=0)
    axes.grid(True, axis="x")
    axes.set_xlabel(unit)
    patches = [Patch(color=colour, label=text) for text, colour in colours.values()]
    drawn.legend(handles=patches, loc="outside upper left", ncols=2, labelcolor=INK, handlelength=1, handleheight=1)
