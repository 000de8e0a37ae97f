"""A run as an HTML page without external resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bench.conditions import noise
from bench.report import tables
from bench.report.findings import findings, too_few, unfinished
from bench.report.results import Results
from bench.report.tables import Table
from bench.run import HISTOGRAMS

if TYPE_CHECKING:
    from bench.report.plots import Plot

TITLES: Final = {
    "plugin": "What an extender costs: one pod's cycle",
    "scheduler": "What an extender costs: the whole scheduler",
    "gangs": "How long a gang takes until all of it is bound",
}

SUBJECTS: Final = {
    "plugin": "A cycle is all that kube-scheduler asks about one pod: filter, then prioritize of the nodes that passed."
    " Each line is one way to run the same policy.",
    "scheduler": "A scheduler binds pods to nodes, one after the other. Each colour is one way to give the same"
    " scheduler the same policy.",
    "gangs": "A gang is a group of pods that are bound together or not at all. Each colour is one way to have that.",
}
"""What the answer and its picture are about."""


def page(results: Results, plots: Sequence[Plot]) -> str:
    """The page."""
    run = results.run
    return (
        _templates()
        .get_template("report.html")
        .render(
            run=run,
            title=TITLES[run.level],
            subject=SUBJECTS[run.level],
            findings=findings(results),
            noise=noise(run),
            unfinished=unfinished(run),
            too_few=too_few(run),
            sides=tables.sides(results),
            left_out=tables.left_out(run),
            plots=[(plot, Markup(plot.svg)) for plot in plots],
            main=list(_main(results)),
            more=list(_more(results)),
            about=tables.about(run),
            conditions=tables.conditions(run),
        )
    )


def _main(results: Results) -> Iterator[Table]:
    for metric in results.by_metric():
        yield tables.samples(results, metric)


def _more(results: Results) -> Iterator[Table]:
    """The tables of metrics that no case is about."""
    main = results.by_metric()
    metrics = dict.fromkeys(metric for case in results.run.cases for metric in results.metrics(case))
    for metric in dict.fromkeys([*main, *metrics]):
        found = tables.parts(results, metric)
        if found:
            yield found
    for metric in HISTOGRAMS:
        found = tables.span(results, metric)
        if found:
            yield found
    for metric in metrics:
        if metric not in {*main, *HISTOGRAMS}:
            yield tables.samples(results, metric)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("bench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
