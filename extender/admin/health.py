"""Whether the extender can answer verbs: the conditions of `/readyz`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


def _no_problem() -> str | None:
    return None


def _no_detail() -> str:
    return ""


class Check(NamedTuple):
    """A condition of readiness."""

    name: str
    problem: Callable[[], str | None] = _no_problem
    """Why the extender is not ready; None if the condition holds."""
    warning: Callable[[], str | None] = _no_problem
    """What is wrong without making the extender unready; None if nothing is."""
    detail: Callable[[], str] = _no_detail
    """What else the report says of a condition that holds; may be empty."""

    def report(self) -> tuple[bool, str]:
        """Whether the condition holds, and a line as kube-apiserver's `/readyz?verbose` has it."""
        if problem := self.problem():
            return False, f"[-]{self.name} failed: {problem}"
        warning = self.warning()
        if warning:
            return True, f"[+]{self.name} ok, but {warning}"
        detail = self.detail()
        return True, f"[+]{self.name} ok: {detail}" if detail else f"[+]{self.name} ok"


class Health:
    """The conditions of readiness. `report` may be called from any thread."""

    def __init__(self, *checks: Check) -> None:
        self._checks = {check.name: check for check in checks}

    def add(self, *checks: Check) -> None:
        """Adds conditions. Each replaces the condition of its name, if there is one."""
        self._checks |= {check.name: check for check in checks}

    def remove(self, *names: str) -> None:
        """Removes the conditions with these names, as far as they are there."""
        self._checks = {name: check for name, check in self._checks.items() if name not in names}

    def report(self) -> tuple[bool, str]:
        """Whether all conditions hold, and the text of `/readyz?verbose`: a line for each condition, and a verdict."""
        reports = [check.report() for check in list(self._checks.values())]
        ready = all(holds for holds, _ in reports)
        lines = [line for _, line in reports]
        return ready, "\n".join([*lines, "readyz check passed" if ready else "readyz check failed", ""])
