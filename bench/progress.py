"""How far a long measurement is: a bar on a terminal, a line now and then elsewhere; on standard error."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

LINE_EVERY: Final = 10.0
"""Seconds between two lines where there is no terminal."""


class Meter:
    """Counts steps of about the same length, and tells how long the rest will take; a context manager."""

    def __init__(self, steps: int, unit: str = "rounds", max_seconds: float = math.inf) -> None:
        """`steps` are those that are to do from now on, of a unit for people. All ends after `max_seconds`."""
        console = Console(stderr=True)
        self._unit = unit
        self._steps = steps
        self._max_seconds = max_seconds
        self._done = 0
        self._begun = self._said = time.monotonic()
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
            )
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task("", total=steps, left="")

    def __enter__(self) -> Meter:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, what: str) -> None:
        """Shows what is being done now."""
        if self._bar:
            self._bar.update(self._task, description=what)
        else:
            self._line(", ".join(filter(None, (what, self.left()))))

    def step(self, what: str, steps: int = 1) -> None:
        """Counts steps that are done; `what` is what they were."""
        self._done += steps
        if self._bar:
            self._bar.update(self._task, description=what, completed=self._done, left=self.left())
        elif time.monotonic() - self._said >= LINE_EVERY:
            self._line(f"{what}: {self._done} of {self._steps} {self._unit}, {self.left()}")

    def left(self) -> str:
        """How long the rest will take, if it goes on as until now."""
        passed = time.monotonic() - self._begun
        by_steps = passed / self._done * max(0, self._steps - self._done) if self._done else math.inf
        seconds = min(by_steps, max(0.0, self._max_seconds - passed))
        if math.isinf(seconds):
            return ""
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"

    def _line(self, text: str) -> None:
        self._said = time.monotonic()
        print(text, file=sys.stderr, flush=True)
