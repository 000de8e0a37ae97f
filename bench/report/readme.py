"""A run as Markdown: what a README or a terminal shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.conditions import noise
from bench.report import tables
from bench.report.findings import findings, too_few, unfinished
from bench.report.results import PEERS, Results
from bench.report.tables import Cell, Group, Table
from bench.report.words import capital, figure, label, measured
from bench.run import Case

SPECIAL: Final = {"\\": "\\\\", "&": "&amp;", "<": "&lt;", "|": "\\|", "`": "\\`", "*": "\\*", "_": "\\_", "[": "\\["}
"""What is more than text in Markdown."""


def markdown(results: Results) -> str:
    """The answer, tables of medians, and what they depend on."""
    run = results.run
    found, quiet = findings(results), noise(run)
    blocks = [f"**{_escaped(found.answer)}**", _escaped(unfinished(run))]
    blocks.append("\n".join(f"- {_escaped(each.topic)}: {_escaped(each.text)}" for each in found.more))
    blocks.append(_escaped(" ".join([f"The machine was {quiet.verdict}.", *(f"{each}." for each in quiet.reasons)])))
    blocks.append(_escaped(too_few(run)))
    blocks += [_titled(table) for table in (*medians(results), *beside_go(results))]
    out = tables.left_out(run)
    blocks += [_titled(out)] if out else []
    blocks.append(_titled(tables.about(run)))
    return "\n\n".join(filter(None, blocks)) + "\n"


def medians(results: Results) -> Iterator[Table]:
    """A row for each case, a column for each variant: the median, and how many times that of what is in-process."""
    for metric, cases in results.by_metric().items():
        variants = list(
            {each.variant.name: each.variant for case in cases for each in results.all(case, metric)}.values()
        )
        rows = [[Cell(case.title), *(_median(results, case, each.name, metric) for each in variants)] for case in cases]
        unit, base = results.all(cases[0], metric)[0].unit, results.base(cases[0], metric)
        note = "Medians."
        if base:
            note = f"Medians, and how many times that of “{label(base)}” they are, with the interval of 95%."
        title = f"{capital(measured(metric))}, {unit}"
        yield Table(title, note, ["", *map(label, variants)], [Group("", rows)])


def _median(results: Results, case: Case, variant: str, metric: str) -> Cell:
    figures, base = results.of(case, variant, metric), results.base(case, metric)
    if not figures:
        return Cell("")
    compared = results.compare(case, variant, base.name, metric) if base else None
    beside = tables.ratio(compared, ours=False).text
    return Cell(f"{figure(figures.p50.value)}; {beside}" if beside else figure(figures.p50.value))


def beside_go(results: Results) -> Iterator[Table]:
    """A row for each case: how many times the figures of the extender in Go ours are."""
    for metric, cases in results.by_metric().items():
        rows: dict[str, dict[str, Cell]] = {}
        for case in cases:
            for variant, peer in PEERS.items():
                for q in tables.quantiles(metric):
                    if compared := results.compare(case, variant, peer, metric, q):
                        head = f"{label(compared.variant)}, p{q * 100:.0f}"
                        rows.setdefault(case.title, {})[head] = tables.ratio(compared, ours=True)
        if rows:
            heads = list(dict.fromkeys(head for row in rows.values() for head in row))
            cells = [[Cell(title), *(row.get(head, Cell("")) for head in heads)] for title, row in rows.items()]
            title = f"{capital(measured(metric))}, beside the extender in Go"
            note = "How many times that of the one in Go ours is, asked in the same way, with the interval of 95%."
            yield Table(title, note, ["", *heads], [Group("", cells)])


def _titled(table: Table) -> str:
    note = f" {_escaped(table.note)}" if table.note else ""
    return f"**{_escaped(table.title)}.**{note}\n\n{_rows(table)}"


def _rows(table: Table) -> str:
    head = [*map(Cell, table.head)]
    rows = [row for group in table.groups for row in group.rows]
    lines = [[_escaped(cell.text) for cell in row] for row in (head, *rows)]
    lines.insert(1, ["---"] * len(head))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """A text of others: it is neither markup nor a new cell or line."""
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))
