"""A run as Markdown: what a README or a terminal shows. The page has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.conditions import noise
from bench.report import tables
from bench.report.findings import chief, findings, given_up, subject_of, too_few, transport, unfinished
from bench.report.results import PEERS, Figures, Results
from bench.report.tables import Cell, Group, Table
from bench.report.words import capital, count, factor, figure, label, measured, quoted, rough
from bench.run import Case, Run

SPECIAL: Final = {"\\": "\\\\", "&": "&amp;", "<": "&lt;", "|": "\\|", "`": "\\`", "*": "\\*", "_": "\\_", "[": "\\["}
"""Characters with a meaning in Markdown, and how they are escaped."""


def markdown(results: Results) -> str:
    """The answer, a table of medians, and what they depend on. A warning comes first if the run is too noisy."""
    run = results.run
    verdict, answer = noise(run).verdict, _escaped(findings(results).whole_answer)
    noisy = f"**The machine was {verdict}**{': do not rely on these figures' * (verdict == 'too noisy')}."
    blocks = [noisy, answer] if verdict == "too noisy" else [f"**{answer}**", noisy if verdict == "noisy" else ""]
    blocks += [_escaped(unfinished(run)), _escaped(too_few(run))]
    table = medians(results)
    blocks += [_titled(table)] if table else []
    blocks.append(_escaped(_made(run)))
    return "\n\n".join(filter(None, blocks)) + "\n"


def costs(results: Results) -> str:
    """What an extender costs, in short: medians by variant and number of nodes, and how sure they are of ours."""
    found = subject_of(results)
    if found is None:
        return _escaped(findings(results).whole_answer)
    metric, typical = found
    told = chief(results, typical, metric)
    caveat = _escaped(" ".join(filter(None, (given_up(told[0]), transport(told[0])))))
    blocks = (caveat, _by_nodes(results, typical, metric), _beside(results, typical, metric, told))
    return "\n\n".join(filter(None, blocks))


def _by_nodes(results: Results, typical: Case, metric: str) -> str:
    """The medians of each variant, and what they depend on."""
    cases, base = results.scale(metric), results.base(typical, metric)
    head = [
        f"{measured(metric)}, {results.all(typical, metric)[0].unit}",
        *(count(case.nodes, "node") for case in cases),
    ]
    rows = [
        [Cell(label(variant)), *(_cost(results, case, variant.name, metric) for case in cases)]
        for variant in results.run.variants
        if variant.name not in ASIDE
    ]
    table = Table("", "", head, [Group("", [row for row in rows if any(cell.text for cell in row[1:])])])
    ratios = f"In brackets: how many times that of {quoted(base)}." if base and metric == "throughput" else ""
    noisy = (
        "The machine was too noisy: compare ratios, not figures." if noise(results.run).verdict == "too noisy" else ""
    )
    return "\n\n".join(filter(None, (_rows(table), _escaped(" ".join(filter(None, (ratios, noisy)))))))


def _beside(results: Results, case: Case, metric: str, told: Sequence[Figures]) -> str:
    """How ours compares in one case, how sure that is, and how far rounds are apart; empty where there is no other."""
    ours, *others = told
    if not others:
        return ""
    head = [f"at {count(case.nodes, 'node')}", "lowest and highest round", "ours divided by it", "verdict"]
    rows = [[Cell(label(ours.variant)), Cell(_range(ours)), Cell(""), Cell("")]]
    for each in others:
        compared = results.compare(case, ours.variant.name, each.variant.name, metric)
        verdict = tables.VERDICTS[compared.verdict] if compared else ""
        rows.append([Cell(label(each.variant)), Cell(_range(each)), tables.ratio(compared, ours=True), Cell(verdict)])
    better = f"{capital(ours.series.better)} is better."
    return f"{_rows(Table('', '', head, [Group('', rows)]))}\n\n{better} {SURE}"


SURE: Final = (
    "The ratio is the median of the ratios in the same rounds, with its interval of 95%. Where the interval reaches 1, "
    "no difference is shown, which does not mean that there is none."
)


def _range(figures: Figures) -> str:
    """As `258 to 468 pods/s`."""
    return f"{rough(min(figures.middles))} to {rough(max(figures.middles))} {figures.unit}"


ASIDE: Final = ("upstream", "wasmtime", "wasmer")
"""Variants that say what a runtime costs, and not what an extender does."""


def _cost(results: Results, case: Case, variant: str, metric: str) -> Cell:
    """A median, and of a throughput the ratio; empty if it was not measured."""
    figures, base = results.of(case, variant, metric), results.base(case, metric)
    compared = results.compare(case, variant, base.name, metric) if base and metric == "throughput" else None
    beside = f" ({factor(compared.ratio.value)})" if compared and compared.verdict != "open" else ""
    return Cell(f"{rough(figures.p50.value)}{beside}" if figures else "")


def medians(results: Results) -> Table | None:
    """The medians that the answer is about, a row for each variant and number of nodes; None if there is no answer."""
    found = subject_of(results)
    if found is None:
        return None
    metric, typical = found
    cases = results.scale(metric)
    rows = [_row(results, case, each) for case in cases for each in results.all(case, metric)]
    used = [at for at in range(len(HEAD)) if any(row[at].text for row in rows)]
    base = results.base(typical, metric)
    note = "Medians."
    if base and any(each.text for row in rows for each in row[3:]):
        beside = f"those of {quoted(base)} and of the Go extender asked in the same way"
        note = f"Medians, and how many times {beside} they are, with intervals of 95%."
    title = f"{capital(measured(metric))}, {results.all(typical, metric)[0].unit}"
    return Table(title, note, [HEAD[at] for at in used], [Group("", [[row[at] for at in used] for row in rows])])


HEAD: Final = ("case", "variant", "p50", "beside in-process", "beside Go extender")


def _row(results: Results, case: Case, each: Figures) -> list[Cell]:
    metric, name = each.series.metric, each.variant.name
    base = results.base(case, metric)
    compared = [
        results.compare(case, name, other, metric) for other in (base.name if base else "", PEERS.get(name, ""))
    ]
    ratios = [tables.ratio(found, ours=each.variant.ours) for found in compared]
    return [Cell(case.title), Cell(label(each.variant)), Cell(figure(each.p50.value)), *ratios]


def _made(run: Run) -> str:
    """A line on the machine, the versions and the command that made the figures."""
    return f"{tables.machine(run)}; {tables.versions(run)}. Measured by: {run.command}"


def _titled(table: Table) -> str:
    return f"**{_escaped(table.title)}.** {_escaped(table.note)}\n\n{_rows(table)}"


def _rows(table: Table) -> str:
    head = [*map(Cell, table.head)]
    rows = [row for group in table.groups for row in group.rows]
    lines = [[_escaped(cell.text) for cell in row] for row in (head, *rows)]
    lines.insert(1, ["---"] * len(head))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """A text in which nothing is markup, or begins a new cell or line."""
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))
