"""Whether the process serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


def _nothing() -> str | None:
    return None


def _no_words() -> str:
    return ""


class Check(NamedTuple):
    """A condition of readiness."""

    name: str
    problem: Callable[[], str | None] = _nothing
    """What is wrong, or None."""
    warning: Callable[[], str | None] = _nothing
    """What is not as it should be, but does not matter to readiness, or None."""
    detail: Callable[[], str] = _no_words
    """What else is to be known about it, or nothing."""

    def report(self) -> tuple[bool, str]:
        """Whether all is well with it, and a line as kube-apiserver writes it."""
        if problem := self.problem():
            return False, f"[-]{self.name} failed: {problem}"
        warning = self.warning()
        if warning:
            return True, f"[+]{self.name} ok, but {warning}"
        detail = self.detail()
        return True, f"[+]{self.name} ok: {detail}" if detail else f"[+]{self.name} ok"


class Health:
    """The conditions of readiness. May be asked from any thread."""

    def __init__(self, *checks: Check) -> None:
        self._checks = {check.name: check for check in checks}

    def add(self, *checks: Check) -> None:
        """Adds conditions, each in the place of one of its name if there is one."""
        self._checks |= {check.name: check for check in checks}

    def remove(self, *names: str) -> None:
        """Takes conditions away; one that is not there is no error."""
        self._checks = {name: check for name, check in self._checks.items() if name not in names}

    def report(self) -> tuple[bool, str]:
        """Whether all is well, and a line for each condition."""
        reports = [check.report() for check in list(self._checks.values())]
        ready = all(well for well, _ in reports)
        lines = [line for _, line in reports]
        return ready, "\n".join([*lines, "readyz check passed" if ready else "readyz check failed", ""])
