"""Writes README's tables of the results in `bench/results`: `python -m tests.docs.figures`, after measuring."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.report import costs
from bench.run import Level, Run

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
LEVELS: Final[tuple[Level, ...]] = ("scheduler", "plugin")


def filled(text: str, costs_of: Mapping[Level, str]) -> str:
    """A page with the costs of each level between its comments. Raises ValueError if a comment is missing."""
    for level, told in costs_of.items():
        begin, end = f"<!-- kwx bench {level}: made by `python -m tests.docs.figures` -->", "<!-- until here -->"
        pattern = f"{re.escape(begin)}\n.*?{re.escape(end)}"
        if not re.search(pattern, text, re.DOTALL):
            raise ValueError(f"there is no {begin} with {end} behind it")
        block = f"{begin}\n\n{told}\n\n{end}"
        text = re.sub(pattern, lambda _, block=block: block, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def readme() -> str:
    """The text of README with the tables of the present results."""
    costs_of = {level: costs(Run.load(ROOT / "bench" / "results" / level)) for level in LEVELS}
    return filled(README.read_text(encoding="utf-8"), costs_of)


if __name__ == "__main__":
    README.write_text(readme(), encoding="utf-8")
