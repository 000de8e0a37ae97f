"""Text of guests and clients, made harmless for a terminal."""

from __future__ import annotations

import json
import re
from typing import Final


def printable(text: str) -> str:
    """A text of others on one line: nothing in it moves the cursor, or is taken for anything but text."""
    return "".join(character if character.isprintable() else " " if character.isspace() else "�" for character in text)


def printable_lines(text: str) -> str:
    """The same of a text that may have several lines."""
    return "\n".join(map(printable, text.splitlines()))


def escaped(encoded: str) -> str:
    """JSON of others that says the same, in which nothing but its own line breaks moves the cursor."""
    return _UNPRINTABLE.sub(lambda found: _escape(found[0]), encoded)


_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\n]")


def _escape(character: str) -> str:
    """JSON encodes what is not printable by itself; it can stand in strings alone."""
    return character if character.isprintable() else json.dumps(character)[1:-1]
