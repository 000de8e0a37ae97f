"""A run: all of its steps, whatever comes of each, and at the end one block that says what came of them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tests.suite.steps import Outcome, Step

WIDTH: Final = 100


def run(title: str, steps: Sequence[Step]) -> int:
    """The exit status: 1 if a step is red. What was done is told when it is interrupted, too."""
    outcomes: list[Outcome] = []
    try:
        for step in steps:
            print(_rule(f"{title}: {step.name}"), flush=True)
            outcomes.append(step.run())
    finally:
        print("\n".join(summary(title, outcomes)), flush=True)
    return int(any(outcome.colour == "red" for outcome in outcomes))


def summary(title: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The block, line by line."""
    yield _rule(title)
    column = max((len(outcome.name) for outcome in outcomes), default=0)
    for outcome in outcomes:
        yield f"{outcome.name:{column}}  {outcome.colour:8}  {_duration(outcome.seconds):>12}  {outcome.says}"
    failed = [line for outcome in outcomes for line in outcome.failed]
    skipped = sum((outcome.skipped for outcome in outcomes), Counter[str]())
    yield from _section("Failed:", failed)
    yield from _section("Skipped, and why:", [f"{number} x {why}" for why, number in skipped.most_common()])
    yield _rule("")


def _section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield heading
        yield from (f"  {line}" for line in lines)


def _rule(title: str) -> str:
    return f" {title} ".center(WIDTH, "=") if title else "=" * WIDTH


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
