"""A figure of matplotlib as SVG: the same bytes each time, text as text, ink in the colour of the text around it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

INK: Final = "#010203"
"""A colour that stands for the colour of text until the SVG is written."""

WIDTH: Final = 8.0
"""Inches of 72 units of the SVG."""

STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 11.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
    "lines.linewidth": 2.0,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 11.0,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
}
FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
GROUND: Final = (
    ".kwx-plot{color:#1f2328;background:#fff}"
    "@media screen and (prefers-color-scheme:dark){.kwx-plot{color:#e6edf3;background:#0d1117}}"
    ".kwx-plot text{font-variant-numeric:tabular-nums}"
)
"""The colours of text and ground where a plot stands alone, as in a README; a page has its own."""

NOT_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML cannot have, not even escaped: https://www.w3.org/TR/xml/#charsets."""


class Plot(NamedTuple):
    """A plot for people."""

    name: str
    """The name of the plot's file without its suffix: lower case, digits and dashes."""
    title: str
    reading: str
    """How to read it, in a sentence or two."""
    svg: str
    wide: bool = False
    """Whether it takes the whole width of a page."""


def draw(
    name: str, title: str, reading: str, height: float, paint: Callable[[Figure], None], *, wide: bool = False
) -> Plot:
    """A plot of what `paint` puts on a figure of a height in inches."""
    name = re.sub(r"[^a-z0-9]+", "-", name.lower())
    # Ids are hashed with a salt: it keeps those of plots apart that stand on one page.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        # Whoever shows the SVG chooses the font, so what matplotlib's own lacks does not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawn = Figure(figsize=(WIDTH * (2 if wide else 1), height), layout="constrained")
        FigureCanvasSVG(drawn)
        paint(drawn)
        text = StringIO()
        drawn.savefig(
            text, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    return Plot(name, title, reading, _finished(text.getvalue(), name, title, reading), wide)


def _finished(svg: str, name: str, title: str, reading: str) -> str:
    """The SVG element alone, for a page or a file, with a title and a description for those who do not see it."""
    svg = svg[svg.index("<svg") :].strip()
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r"font: ([^\"]*?)'DejaVu Sans'", rf"font: \1{FONT}", svg)
    opening, rest = svg.split(">", 1)
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', opening)[0]
    whole = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" class="kwx-plot" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{name}-title {name}-reading">\n<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-reading">{escape(reading)}</desc>\n<style>{GROUND}</style>{rest}\n'
    )
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", whole)


def logarithmic(axes: Axes, which: str) -> None:
    """Makes an axis (`x` or `y`) logarithmic, with labels that people write."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set_xscale("log") if which == "x" else axes.set_yscale("log")
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    near = high / low < 30
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if near else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axis.set_minor_locator(NullLocator() if near else LogLocator(subs=range(2, 10)))
    axis.set_minor_formatter(NullFormatter())


def tick(value: float) -> str:
    """The label of a tick: a round figure."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.3g}"


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Places at least a gap apart, in the same order, each as near as may be to where it was."""
    order = sorted(range(len(places)), key=places.__getitem__)
    groups: list[tuple[float, list[int]]] = []
    for at in order:
        groups.append((places[at], [at]))
        while len(groups) > 1:
            (low, below), (high, above) = groups[-2:]
            if high - low >= gap * (len(below) + len(above)) / 2:
                break
            together = below + above
            middle = (low * len(below) + high * len(above)) / len(together)
            groups[-2:] = [(middle, together)]
    apart = [0.0] * len(places)
    for middle, members in groups:
        for rank, at in enumerate(members):
            apart[at] = middle + gap * (rank - (len(members) - 1) / 2)
    return apart
