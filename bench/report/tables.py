"""The figures of a run as tables, for a page and for Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

from bench.report.results import OURS, PEERS, Comparison, Figures, Results, Verdict, quantiles
from bench.report.words import bounds, capital, count, factor, figure, label, measured, quoted
from bench.run import HISTOGRAMS, PARTS, PERCENTILES, Case, Condition, Run, Variant
from bench.statistics import Estimate

NAMED: Final = 3
"""Cases that a cell lists by name; of more cases it has the range."""

VERDICTS: Final[dict[Verdict, str]] = {
    "worse": "ours loses",
    "better": "ours wins",
    "alike": "no difference shown",
    "open": "too little to tell",
}


class Cell(NamedTuple):
    """The text of a cell, and whether it is good or bad news for our extender."""

    text: str
    verdict: Verdict | None = None
    option: str = ""
    """What to type after `--variants` for the variant that the text names."""


class Group(NamedTuple):
    """Rows that belong together; each begins with its subject."""

    label: str
    rows: list[list[Cell]]


class Table(NamedTuple):
    """A table for people."""

    title: str
    note: str
    head: list[str]
    groups: list[Group]


def sides(results: Results) -> Table | None:
    """Where our extender loses and wins; None if it was not measured beside anything."""
    groups = [
        Group(_weighed(results, cases[0], metric, q), rows)
        for metric, cases in results.weighed().items()
        for q in quantiles(metric)
        if (rows := _sides(results, cases, metric, q))
    ]
    return Table("Where ours loses and wins", SIDES_NOTE, ["", *VERDICTS.values()], groups) if groups else None


SIDES_NOTE: Final = (
    "How many times the other's figure ours is, by case. No difference shown: the interval of 95% reaches 1. "
    "Too little to tell: rounds or samples are too few for an interval, so there is no ratio."
)


def _weighed(results: Results, case: Case, metric: str, q: float) -> str:
    """A quantile of a metric, and which of two figures is the better one."""
    percentile = f"p{q * 100:.0f}" if len(quantiles(metric)) > 1 else ""
    what = ", ".join(filter(None, (measured(metric), "mean" if metric in HISTOGRAMS else percentile)))
    return f"{capital(what)}: {results.all(case, metric)[0].series.better} is better"


def _sides(results: Results, cases: Sequence[Case], metric: str, q: float) -> list[list[Cell]]:
    """A row for each of our variants beside each other variant; a p99 is left out if none has an interval."""
    found: dict[tuple[str, str], list[Comparison]] = {}
    for case, variant in product(cases, OURS):
        for each in results.beside(case, variant, metric, q):
            found.setdefault((variant, each.base.name), []).append(each)
    return [_side(each) for each in found.values() if q == 0.5 or any(one.verdict != "open" for one in each)]


def _side(compared: Sequence[Comparison]) -> list[Cell]:
    one = compared[0]
    cells = [Cell(f"{quoted(one.variant)} beside {quoted(one.base)}")]
    for verdict in VERDICTS:
        found = [each for each in compared if each.verdict == verdict]
        if not found:
            cells.append(Cell(""))
        elif len(found) <= NAMED:
            cells.append(Cell("; ".join(map(_case, found)), verdict))
        else:
            ratios = [each.ratio.value for each in found]
            spread = "" if verdict == "open" else f": {factor(min(ratios))} to {factor(max(ratios))}"
            cells.append(Cell(f"{len(found)} of {count(len(compared), 'case')}{spread}", verdict))
    return cells


def _case(compared: Comparison) -> str:
    title = compared.case.title
    return title if compared.verdict == "open" else f"{title}: {factor(compared.ratio.value)}"


def samples(results: Results, metric: str) -> Table:
    """The percentiles of a metric, its ratios, and how they were come by. It must have been measured somewhere."""
    cases = [(case, found) for case in results.run.cases if (found := results.all(case, metric))]
    rows = [
        (case, [{name: column(results, case, each) for name, column in COLUMNS.items()} for each in found])
        for case, found in cases
    ]
    head, groups = _grouped(COLUMNS, rows)
    first = cases[0][1][0]
    note = f"{capital(first.series.better)} is better.{_beside_whom(results, metric, rows)}"
    note += UNSETTLED if any(_unsettled(each) for _, found in cases for each in found) else ""
    note += NOTES.get(metric.partition(" ")[0], "")
    return Table(f"{capital(measured(metric))}, {first.unit}", note, head, groups)


Row = Mapping[str, Cell]
"""Cells by their columns."""


def _grouped(columns: Iterable[str], rows: Sequence[tuple[Case, Sequence[Row]]]) -> tuple[list[str], list[Group]]:
    """The head and the groups of a table with those columns that are not empty."""
    used = [name for name in columns if any(row[name].text for _, group in rows for row in group)]
    return used, [Group(case.title, [[row[name] for name in used] for row in group]) for case, group in rows]


def _beside_whom(results: Results, metric: str, rows: Sequence[tuple[Case, Sequence[Row]]]) -> str:
    """The in-process variant that ratios compare with; empty without such ratios."""
    case = next((case for case, group in rows for row in group if row["beside in-process"].text), None)
    base = results.base(case, metric) if case else None
    return f" Beside in-process: beside {quoted(base)}." if base else ""


UNSETTLED: Final = " p99 without interval: too few samples."

NOTES: Final[Mapping[str, str]] = {
    "first": " In-process it is loading the plugin and the first cycle; of an extender it is from the start of its "
    "process until it is ready, and the first cycle: these do not compare.",
    "cpu": " The harness is no part of what scheduling takes, and of no sum.",
    "memory": " The harness is no part of what scheduling takes, and of no sum.",
}
"""Notes on metrics, by the first words of their names."""


def _beside_base(results: Results, case: Case, each: Figures) -> Cell:
    base = results.base(case, each.series.metric)
    compared = results.compare(case, each.variant.name, base.name, each.series.metric) if base else None
    return ratio(compared, ours=each.variant.ours)


def _beside_go(results: Results, case: Case, each: Figures) -> Cell:
    name = each.variant.name
    return ratio(results.compare(case, name, PEERS.get(name, ""), each.series.metric), ours=True)


def _several(each: Figures) -> bool:
    """Whether a round has more than one sample."""
    return len(each.samples) > each.rounds


def _unsettled(each: Figures) -> bool:
    """Whether rounds are enough for an interval, but samples too few for that of the p99."""
    return _several(each) and bool(interval(each.p50)) and not interval(each.p99)


COLUMNS: Final[dict[str, Callable[[Results, Case, Figures], Cell]]] = {
    "variant": lambda _, __, each: Cell(label(each.variant), option=each.variant.name),
    "p50": lambda _, __, each: Cell(figure(each.p50.value)),
    "its interval": lambda _, __, each: Cell(interval(each.p50)),
    "p90": lambda _, __, each: Cell(figure(each.p90.value) if _several(each) else ""),
    "p99": lambda _, __, each: Cell(figure(each.p99.value) if _several(each) else ""),
    "interval of p99": lambda _, __, each: Cell(interval(each.p99)),
    "beside in-process": _beside_base,
    "beside Go extender": _beside_go,
    "outliers": lambda _, __, each: Cell(f"{each.outliers:,} of {len(each.samples):,}"),
    "rounds": lambda _, __, each: Cell(f"{each.rounds:,}"),
}
"""The columns of the tables of figures; empty ones are left out."""


def span(results: Results, metric: str) -> Table | None:
    """The table of one of HISTOGRAMS, from kube-scheduler's own metrics; None if it was not measured."""
    rows = [
        (case, group)
        for case in results.run.cases
        if (group := [found for variant in results.run.variants if (found := _span(results, case, variant, metric))])
    ]
    if not rows:
        return None
    head, groups = _grouped(["variant", *PERCENTILES, *MEANS], rows)
    means = " Means are exact." if "mean" in head else ""
    note = f"Lower is better. {SPANS[metric]} {BUCKETS}{means}{_beside_whom(results, metric, rows)}"
    return Table(f"{capital(measured(metric))}, ms", note, head, groups)


MEANS: Final[Mapping[str, str]] = {
    "mean": "p50",
    **{name: name for name in ("its interval", "beside in-process", "beside Go extender", "rounds")},
}
"""Columns of means, and the one of COLUMNS that each is: a round has one mean, the median of these is shown."""

BUCKETS: Final = (
    "Percentiles are of kube-scheduler's histogram, whose buckets double (1, 2, 4, 8, 16 ms): one shown as 14.7 may be "
    "anything from 8 to 16, so they have neither intervals nor ratios."
)

SPANS: Final[Mapping[str, str]] = {
    "attempt": "An attempt is scheduling and binding.",
    "algorithm": "Until a node is chosen, without binding: under a steady load the difference to a scheduler without "
    "extender is what the extender adds. In a batch the pods of the warm-up are among them.",
}
"""A sentence on what each of HISTOGRAMS measures."""


def _span(results: Results, case: Case, variant: Variant, metric: str) -> Row:
    """The row of a variant; empty if nothing of the metric was measured."""
    values = {name: results.coarse(case, variant.name, f"{metric} {name}") for name in PERCENTILES}
    percentiles = {name: Cell("" if value is None else figure(value)) for name, value in values.items()}
    mean = results.of(case, variant.name, metric)
    means = {name: COLUMNS[column](results, case, mean) if mean else Cell("") for name, column in MEANS.items()}
    row = {**percentiles, **means}
    named = {"variant": Cell(label(variant), option=variant.name)}
    return named | row if any(cell.text for cell in row.values()) else {}


def interval(estimate: Estimate) -> str:
    """An interval as `0.59 to 0.62`; empty if there is none."""
    found = math.isfinite(estimate.low + estimate.high)
    return f"{figure(estimate.low)} to {figure(estimate.high)}" if found else ""


def ratio(comparison: Comparison | None, *, ours: bool) -> Cell:
    """A ratio as `0.83 (0.80 to 0.86)`; empty if too little was compared. Only ours has a verdict."""
    if comparison is None or comparison.verdict == "open":
        return Cell("")
    text = f"{factor(comparison.ratio.value)} ({bounds(comparison.ratio)})"
    return Cell(text, comparison.verdict if ours else None)


def parts(results: Results, metric: str) -> Table | None:
    """The means of what the time of a verb is made of; None where no variant can tell."""
    cases = [(case, found) for case in results.run.cases if (found := results.divided(case, metric))]
    used = [part for part in PARTS if any(part in each.parts for _, found in cases for each in found)]
    groups = [Group(case.title, [_parts(each, used) for each in found]) for case, found in cases]
    head = ["variant", *(PARTS[part] for part in used), "together"]
    note = "Means. Where a plugin is called in-process and its time cannot be divided, there is the whole alone."
    return Table(f"What it is made of: {measured(metric)}, ms", note, head, groups) if groups else None


def _parts(each: Figures, used: Sequence[str]) -> list[Cell]:
    cells = [figure(each.parts[part]) if part in each.parts else "" for part in used]
    return [Cell(label(each.variant)), *map(Cell, cells), Cell(figure(sum(each.parts.values())))]


def left_out(run: Run) -> Table | None:
    """Variants that were not measured, where, and why; None if all were."""
    titles = {variant.name: label(variant) for variant in run.variants}
    where: dict[tuple[str, str], list[str]] = {}
    for case in run.cases:
        for name, reason in case.left_out.items():
            where.setdefault((titles.get(name, name), reason), []).append(case.title)
    alike: dict[tuple[str, str], list[str]] = {}
    for (variant, reason), cases in where.items():
        alike.setdefault((_cases(run, cases), reason), []).append(variant)
    rows = [[Cell("; ".join(variants)), Cell(cases), Cell(reason)] for (cases, reason), variants in alike.items()]
    return Table("What was left out", "", ["variant", "in", "why"], [Group("", rows)]) if rows else None


def _cases(run: Run, titles: Sequence[str]) -> str:
    """Named one by one, if they are few."""
    if len(titles) <= NAMED:
        return "; ".join(titles)
    return f"{len(titles)} of {count(len(run.cases), 'case')}"


def about(run: Run) -> Table:
    """The table about the run itself: what was measured, where, and when."""
    told = {
        "command": run.command,
        "preset": run.preset,
        "workload": run.workload,
        "module": run.module,
        "machine": machine(run),
        "versions": versions(run),
        "begun": run.begun,
        "ended": run.ended,
    }
    rows = [[Cell(key), Cell(value)] for key, value in told.items() if value]
    return Table("What was measured, and where", "", ["", ""], [Group("", rows)])


def machine(run: Run) -> str:
    """The machine of a run, as `AMD EPYC 7B13, 2 cores, 8.3 GB, Linux 6.1 x86_64`."""
    found = run.machine
    return f"{found.cpu}, {count(found.cores, 'core')}, {found.memory / 1e9:.1f} GB, {found.system}"


def versions(run: Run) -> str:
    """The versions of a run, as `kwx 0.1.0, python 3.11.7`."""
    return ", ".join(f"{name} {version}" for name, version in run.versions.items())


class Look(NamedTuple):
    """A column of the table of conditions."""

    what: str
    of: Callable[[Condition], float]
    least: float = 0.0
    """The smallest value that can be observed."""

    def text(self, value: float) -> str:
        """A value of the column, as `0.31` or `below 0.1`."""
        return figure(value) if value >= self.least else f"below {self.least:g}"


LOOKS: Final = (
    Look("load: processes that ran or waited for a core", lambda each: each.load),
    Look("a fixed piece of work, ms", lambda each: each.yardstick / 1000),
    Look("time that the hypervisor gave to others, %", lambda each: each.steal * 100),
    # It is what is left of two sums of ticks, most of which are the harness's own.
    Look("cores that other programs took from the harness", lambda each: each.others, 0.1),
)


def conditions(run: Run) -> Table | None:
    """The conditions of the machine between rounds; None if they were not observed."""
    if not run.conditions:
        return None
    rows = []
    for look in LOOKS:
        values = [look.of(each) for each in run.conditions]
        shown = map(look.text, (min(values), statistics.median(values), max(values)))
        rows.append([Cell(look.what), *map(Cell, shown)])
    note = f"Looked at {len(run.conditions):,} times, between rounds."
    return Table("What the machine was like", note, ["", "least", "median", "most"], [Group("", rows)])
