"""The figures of a run as tables, for a page and for Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

from bench.report.results import OURS, PEERS, Comparison, Figures, Results, Verdict
from bench.report.words import bounds, capital, count, factor, figure, label, measured, quoted
from bench.run import PARTS, Case, Run
from bench.statistics import Estimate

NAMED: Final = 3
"""Cases that a cell names one by one; of more it has the range."""

VERDICTS: Final[dict[Verdict, str]] = {
    "worse": "ours loses",
    "better": "ours wins",
    "alike": "no difference shown",
    "open": "too little to tell",
}


class Cell(NamedTuple):
    """A text, and whether it is good or bad news for ours."""

    text: str
    verdict: Verdict | None = None
    option: str = ""
    """What to type after `--variants` for the variant that the text names."""


class Group(NamedTuple):
    """Rows that belong together; each begins with what it is about."""

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
    compared: dict[tuple[str, str, str, float], list[Comparison]] = {}
    for metric, cases in results.by_metric().items():
        for case, variant, q in product(cases, OURS, quantiles(metric)):
            for each in results.beside(case, variant, metric, q):
                compared.setdefault((variant, each.base.name, metric, q), []).append(each)
    rows = [
        _sides(metric, q, each)
        for (_, _, metric, q), each in compared.items()
        if q == 0.5 or any(one.verdict != "open" for one in each)
    ]
    if not rows:
        return None
    readings = [
        reading for more, reading in READINGS.items() if any((key[2] == "throughput") == more for key in compared)
    ]
    note = " ".join([*readings, *EXPLAINED])
    return Table("Where ours loses and wins", note, ["", *VERDICTS.values()], [Group("", rows)])


READINGS: Final[Mapping[bool, str]] = {
    True: "How many times as many pods are bound with ours, by case; above 1 ours is quicker.",
    False: "How many times as long ours takes, by case; below 1 ours is quicker.",
}
"""Of ratios, by whether they are of throughputs."""

EXPLAINED: Final = (
    "No difference shown: the interval of 95% reaches 1.",
    "Too little to tell: rounds or samples are too few for an interval, so there is no ratio.",
)


def quantiles(metric: str) -> Sequence[float]:
    """Those that are looked at: a throughput has a sample a round."""
    return (0.5,) if metric == "throughput" else (0.5, 0.99)


def _sides(metric: str, q: float, compared: Sequence[Comparison]) -> list[Cell]:
    one = compared[0]
    what = metric if len(quantiles(metric)) == 1 else f"{measured(metric)}, p{q * 100:.0f}"
    cells = [Cell(f"{capital(what)}: {quoted(one.variant)} beside {quoted(one.base)}")]
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
        (case.title, [{name: column(results, case, each) for name, column in COLUMNS.items()} for each in found])
        for case, found in cases
    ]
    used = [name for name in COLUMNS if any(row[name].text for _, group in rows for row in group)]
    groups = [Group(title, [[row[name] for name in used] for row in group]) for title, group in rows]
    first = cases[0][1][0]
    note = f"{'Lower' if first.series.better == 'lower' else 'Higher'} is better."
    base = results.base(cases[0][0], metric)
    note += f" Beside in-process: beside {quoted(base)}." if base and "beside in-process" in used else ""
    note += UNSETTLED if any(_unsettled(each) for _, found in cases for each in found) else ""
    note += NOTES.get(metric.partition(" ")[0], "")
    return Table(f"{capital(measured(metric))}, {first.unit}", note, used, groups)


UNSETTLED: Final = " p99 without interval: too few samples."

NOTES: Final[Mapping[str, str]] = {
    "first": " In-process it is loading the plugin and the first cycle; of an extender it is from the start of its "
    "process until it is ready, and the first cycle: these do not compare.",
    "attempt": " From the histogram of kube-scheduler, whose buckets double (1, 2, 4 ms …): within a bucket they are "
    "interpolated. An attempt is scheduling and binding; in a batch those of the warm-up are among them.",
    "algorithm": " From the histogram of kube-scheduler, as attempts are: until a node is chosen, without binding. "
    "Under a steady load the difference to a scheduler without extender is what the extender adds.",
    "cpu": " The harness is no part of what scheduling takes, and of no sum.",
    "memory": " The harness is no part of what scheduling takes, and of no sum.",
}
"""What else there is to know of metrics, by their first words."""


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
"""Of the tables of figures; those that are empty are left out."""


def interval(estimate: Estimate) -> str:
    """As `0.59 to 0.62`; empty where there is none."""
    found = math.isfinite(estimate.low + estimate.high)
    return f"{figure(estimate.low)} to {figure(estimate.high)}" if found else ""


def ratio(comparison: Comparison | None, *, ours: bool) -> Cell:
    """As `0.83 (0.80 to 0.86)`; empty where nothing was compared, or too little. Only what is ours has a verdict."""
    if comparison is None or comparison.verdict == "open":
        return Cell("")
    text = f"{factor(comparison.ratio.value)} ({bounds(comparison.ratio)})"
    return Cell(text, comparison.verdict if ours else None)


def parts(results: Results, metric: str) -> Table | None:
    """The means of what the time of a verb is made of; None where no variant can tell."""
    groups = []
    for case in results.run.cases:
        if figures := results.divided(case, metric):
            groups.append(Group(case.title, [_parts(each) for each in figures]))
    head = ["variant", *PARTS.values(), "together"]
    note = "Means. Where a plugin is called in-process and its time cannot be divided, there is the whole alone."
    return Table(f"What it is made of: {measured(metric)}, ms", note, head, groups) if groups else None


def _parts(each: Figures) -> list[Cell]:
    cells = [figure(each.parts[part]) if part in each.parts else "" for part in PARTS]
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
    """What was measured, where, and when."""
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
    """As `AMD EPYC 7B13, 2 cores, 8.3 GB, Linux 6.1 x86_64`."""
    found = run.machine
    return f"{found.cpu}, {count(found.cores, 'core')}, {found.memory / 1e9:.1f} GB, {found.system}"


def versions(run: Run) -> str:
    """As `kwx 0.1.0, python 3.11.7`."""
    return ", ".join(f"{name} {version}" for name, version in run.versions.items())


CONDITIONS: Final[dict[str, Callable[[Run], list[float]]]] = {
    "load: processes that ran or waited for a core": lambda run: [each.load for each in run.conditions],
    "a fixed piece of work, ms": lambda run: [each.yardstick / 1000 for each in run.conditions],
    "time that the hypervisor gave to others, %": lambda run: [each.steal * 100 for each in run.conditions],
    "cores that other programs used": lambda run: [each.others for each in run.conditions],
}


def conditions(run: Run) -> Table | None:
    """What the machine was like between rounds; None if nobody looked."""
    if not run.conditions:
        return None
    rows = []
    for what, values in CONDITIONS.items():
        found = values(run)
        rows.append([Cell(what), *(Cell(figure(each)) for each in (min(found), statistics.median(found), max(found)))])
    note = f"Looked at {len(run.conditions):,} times, between rounds."
    return Table("What the machine was like", note, ["", "least", "median", "most"], [Group("", rows)])
