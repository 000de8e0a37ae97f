"""The result of all checks, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from extender.commands.doctor.check import Examination, Severity
from extender.commands.terminal import Part, Table

_STYLES: Final[Mapping[str, str]] = {"error": "red", "warning": "yellow", "info": "cyan"}


def table(examination: Examination) -> Iterator[Part]:
    """A line for each finding with its mend below, then the checks that were left out, then how many of each."""
    if examination.findings:
        rows = [(each.severity.value, each.check, f"{each.cause}\n→ {each.mend}") for each in examination.findings]
        yield Table(("Severity", "Check", "Finding"), rows, styles=_STYLES)
        yield Text()
    if examination.left_out:
        yield Table(("Not read", "Checks", "Reason"), list(_unread(examination)), {"Checks"})
        yield Text()
    yield Text(_summary(examination))


def document(examination: Examination) -> dict[str, Any]:
    """The result as JSON output has it."""
    return {
        "checks": examination.checks,
        "findings": [
            {"check": each.check, "severity": each.severity.value, "message": each.cause, "mend": each.mend}
            for each in examination.findings
        ],
        "leftOut": [{"check": each.check, "unread": dict(each.unread)} for each in examination.left_out],
    }


def _unread(examination: Examination) -> Iterator[tuple[str, str, str]]:
    """What could not be read, how many checks were left out for that, and why; one item for each reason."""
    reasons = dict.fromkeys(reason for each in examination.left_out for reason in each.unread.values())
    for reason in reasons:
        concerned = [each for each in examination.left_out if reason in each.unread.values()]
        names = dict.fromkeys(name for each in concerned for name, why in each.unread.items() if why == reason)
        yield "\n".join(names), str(len(concerned)), reason


def _summary(examination: Examination) -> str:
    counts = [_count(examination.count(severity), severity.value) for severity in Severity]
    left_out = f"; {len(examination.left_out)} left out" if examination.left_out else ""
    found = ", ".join(filter(None, counts)) or "nothing found"
    return f"{examination.checks} checks: {found}{left_out}"


def _count(number: int, word: str) -> str:
    plural = "s" * (number != 1 and word != "info")
    return f"{number} {word}{plural}" if number else ""
