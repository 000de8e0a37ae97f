"""Text of guests and clients, made harmless for a terminal."""

from __future__ import annotations

import json
import re
from typing import Final


def printable(text: str) -> str:
    """A foreign text on one line, without characters that a terminal would obey."""
    return "".join(character if character.isprintable() else " " if character.isspace() else "�" for character in text)


def printable_lines(text: str) -> str:
    """A foreign text with its line breaks, without other characters that a terminal would obey."""
    return "\n".join(map(printable, text.splitlines()))


def escaped(encoded: str) -> str:
    """Equivalent JSON whose only control characters are line breaks between its tokens."""
    return _UNPRINTABLE.sub(lambda found: _escape(found[0]), encoded)


_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\n]")


def _escape(character: str) -> str:
    """JSON encodes what is not printable by itself; it can stand in strings alone."""
    return character if character.isprintable() else json.dumps(character)[1:-1]
