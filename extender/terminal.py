"""What commands write for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

SMALL: Final = 256 * 1024
"""Bytes of a module that is compiled in less than a second."""

MORE: Final = "and {} more; --output json shows them all"


def printable(text: str) -> str:
    """A text of others on one line: nothing in it moves the cursor, or is taken for anything but text."""
    return "".join(character if character.isprintable() else " " if character.isspace() else "�" for character in text)


def cut(items: Sequence[str], most: int) -> list[str]:
    """The first items, and how many more there are."""
    more = [MORE.format(len(items) - most)] if len(items) > most else []
    return [*items[:most], *more]


@contextmanager
def compiling(module: Path, size: int) -> Iterator[None]:
    """Says on standard error what takes long: while it does on a terminal, by a line elsewhere."""
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
