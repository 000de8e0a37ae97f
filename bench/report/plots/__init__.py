"""The plots of a run, as SVG that is legible on light and on dark ground."""

from bench.report.plots.canvas import Plot
from bench.report.plots.gallery import gallery

__all__ = ["Plot", "gallery"]
