"""What figures are made of: a bar for each variant, a colour for each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

TOO_FAR: Final = 4.0
"""Times that a bar may be longer than the one before it; else it begins a panel with a scale of its own."""


class Bar(NamedTuple):
    """What one variant's figure is made of."""

    variant: Variant
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """Of all parts."""
        return sum(self.parts.values())


def breakdown(results: Results, case: Case, metric: str) -> Plot | None:
    """Where the time of a verb goes; None where no variant can tell."""
    bars = [Bar(each.variant, each.parts) for each in results.divided(case, metric)]
    colours = {part: (text, PART_COLOURS[part]) for part, text in PARTS.items()}
    title = f"Where the time of a {metric} goes" if metric != "extender" else capital(measured(metric))
    return _stacks(
        f"{metric}-parts-{case.name}",
        f"{title}, {case.title}",
        "Lower is better. Means, the quickest on top; the figure is the whole.",
        bars,
        {**colours, UNDIVIDED: ("in-process, undivided", NEUTRAL)},
        "ms",
    )


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
    """Each with its name and colour, in the order of PROCESS_COLOURS, others behind."""
    order = sorted(processes, key=lambda name: list(PROCESS_COLOURS).index(name) if name in PROCESS_COLOURS else 99)
    return {each: (each, PROCESS_COLOURS.get(each, UNKNOWN.colour)) for each in order}


def _stacks(
    name: str, title: str, reading: str, bars: Sequence[Bar], colours: Mapping[str, tuple[str, str]], unit: str
) -> Plot | None:
    panels = _panels(bar for bar in bars if bar.total > 0)
    if not panels:
        return None
    if len(panels) > 1:
        reading += " Each panel has a scale of its own."
    used = {part: colours[part] for part in colours if any(bar.parts.get(part) for bar in bars)}
    height = 0.9 + 0.29 * len(bars) + 0.45 * len(panels) + 0.22 * ((len(used) + 1) // 2)
    return draw(name, title, reading, height, partial(_paint, panels, used, unit))


def _panels(bars: Iterable[Bar]) -> list[list[Bar]]:
    """The bars, the shortest first, those of about the same length together."""
    panels: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: bar.total):
        if panels and bar.total <= TOO_FAR * panels[-1][-1].total:
            panels[-1].append(bar)
        else:
            panels.append([bar])
    return panels


def _paint(panels: Sequence[Sequence[Bar]], colours: Mapping[str, tuple[str, str]], unit: str, drawn: Figure) -> None:
    every = drawn.subplots(len(panels), squeeze=False, height_ratios=[len(panel) + 0.6 for panel in panels])[:, 0]
    for axes, panel in zip(every, panels, strict=True):
        for row, bar in enumerate(panel):
            left = 0.0
            for part, (_, colour) in colours.items():
                axes.barh(row, bar.parts.get(part, 0), left=left, color=colour, height=0.62)
                left += bar.parts.get(part, 0)
            axes.annotate(f"{figure(left)} {unit}", (left, row), (5, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(panel)), [label(bar.variant) for bar in panel])
        axes.set_ylim(len(panel) - 0.5, -0.5)
        axes.set_xlim(0, 1.16 * panel[-1].total)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=(1, 2, 2.5, 5, 10)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        axes.tick_params("y", length=0)
        axes.grid(True, axis="x")
    every[-1].set_xlabel(unit)
    patches = [Patch(color=colour, label=text) for text, colour in colours.values()]
    drawn.legend(handles=patches, loc="outside upper left", ncols=2, labelcolor=INK, handlelength=1, handleheight=1)
