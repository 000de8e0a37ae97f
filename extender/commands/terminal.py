"""Tables and lines that commands write for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from extender.telemetry.printable import printable, printable_lines

SMALL: Final = 256 * 1024
"""Bytes of a module that is compiled in less than a second."""

MORE: Final = "and {} more; --output json shows them all"

GAP: Final = 2
"""Spaces between two columns."""

MIN_TEXT_WIDTH: Final = 24
"""Characters of a line that the last column of a table has at least, however narrow the terminal is."""


class Table(NamedTuple):
    """Rows of cells. The last column may have text of any length; the others have names, numbers and words."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[str] = ()
    """Headings of columns that are set to the right."""
    styles: Mapping[str, str] = {}
    """Styles of cells on a terminal, by the text of the cell."""


Part = Text | Table
"""A part of what a command shows: a line, or a table."""


def show(parts: Iterable[Part], *, stderr: bool = False) -> None:
    """Writes parts to standard output, or to standard error, without cutting anything off.

    On a terminal, text that is too long for the last column of a table continues on further lines; lines that are still
    wider than the terminal wrap. Elsewhere nothing wraps, since programs read lines.
    """
    console = Console(stderr=stderr)
    for part in parts:
        for line in _lines(part, console) if isinstance(part, Table) else [part]:
            console.print(line, soft_wrap=True)


def _lines(table: Table, console: Console) -> Iterator[Text]:
    heads = [Text(heading, "bold") for heading in table.headings]
    rows = [heads, *([_cell(cell, table.styles) for cell in row] for row in table.rows)]
    widths = [max(line.cell_len for cell in column for line in cell.split()) for column in zip(*rows, strict=True)]
    if console.is_terminal:
        left = console.width - sum(width + GAP for width in widths[:-1])
        widths[-1] = min(widths[-1], max(left, MIN_TEXT_WIDTH))
    for row in rows:
        *names, text = row
        cells = [*(cell.split() for cell in names), text.wrap(console, widths[-1])]
        for parts in zip_longest(*cells, fillvalue=Text()):
            line = Text()
            for part, width, heading in zip(parts, widths, table.headings, strict=True):
                space = " " * (width - part.cell_len)
                line.append_text(Text(space) + part if heading in table.numbers else part + Text(space))
                line.append(" " * GAP)
            line.rstrip()
            yield line


def _cell(text: str, styles: Mapping[str, str]) -> Text:
    """The text of a cell, in which nothing but line breaks moves the cursor of a terminal."""
    return Text(printable_lines(text), styles.get(text, ""))


def cut(items: Sequence[str], most: int) -> list[str]:
    """The first items, and how many more there are."""
    more = [MORE.format(len(items) - most)] if len(items) > most else []
    return [*items[:most], *more]


@contextmanager
def compiling(module: Path | str, size: int) -> Iterator[None]:
    """Says on standard error that a module of `size` bytes is compiled, if it is not SMALL.

    A terminal shows this while the block runs; elsewhere a line stays.
    """
    console = Console(stderr=True)
    text = Text(f"Compiling {printable(str(module))} …")
    if size <= SMALL:
        yield
    elif console.is_terminal:
        with console.status(text):
            yield
    else:
        console.print(text, soft_wrap=True)
        yield
