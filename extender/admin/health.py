"""Whether the process serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Check(NamedTuple):
    """A condition of readiness."""

    name: str
    problem: Callable[[], str | None]
    """What is wrong, or None."""


class Health:
    """The conditions of readiness. May be asked from any thread."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks

    def report(self) -> tuple[bool, str]:
        """Whether all is well, and a line for each condition as kube-apiserver writes them."""
        problems = [(check.name, check.problem()) for check in self._checks]
        lines = [f"[+]{name} ok" if problem is None else f"[-]{name} failed: {problem}" for name, problem in problems]
        ready = all(problem is None for _, problem in problems)
        return ready, "\n".join([*lines, "readyz check passed" if ready else "readyz check failed", ""])
