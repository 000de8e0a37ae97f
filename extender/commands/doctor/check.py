"""What a check of `kwx doctor` is, and what all checks find."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from extender.commands.doctor.facts import SOURCES, Facts, Unread


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Pods are not scheduled, or not as the plugins say."""
    WARNING = "warning"
    """Something will go wrong one day, or is not what it seems."""
    INFO = "info"
    """Something costs more than it needs to."""


RANKS: Final = list(Severity)
"""The severities, the worst first."""


class Problem(NamedTuple):
    """A breach of a check's rule."""

    cause: str
    """What does not fit together, and what comes of it."""
    mend: str
    """What to do about it."""


@dataclass(frozen=True)
class Check:
    """A rule that a setup has to keep."""

    id: str
    """The name of the check. It stays the same from release to release, since scripts use it."""
    severity: Severity
    about: str
    """What the check finds, as the documentation says it."""
    find: Callable[..., Iterable[Problem]]
    """Finds breaches of the rule. Its parameters are fields of Facts; if one is Unread, the check is left out."""

    @property
    def reads(self) -> Sequence[str]:
        """The names of the fields of Facts that the check needs."""
        return list(inspect.signature(self.find).parameters)


class Finding(NamedTuple):
    """A problem, and the check that has found it."""

    check: str
    severity: Severity
    cause: str
    mend: str


class LeftOut(NamedTuple):
    """A check that could not be made."""

    check: str
    unread: Mapping[str, str]
    """Why facts that the check needs could not be read, by what messages call each (SOURCES)."""


class Examination(NamedTuple):
    """The result of all checks."""

    checks: int
    """Number of checks, those that were left out included."""
    findings: Sequence[Finding]
    """The worst first."""
    left_out: Sequence[LeftOut]

    def count(self, severity: Severity) -> int:
        """The number of findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)


def examine(facts: Facts, checks: Sequence[Check]) -> Examination:
    """Makes all checks whose facts could be read."""
    findings, left_out = [], []
    for check in checks:
        read = [getattr(facts, name) for name in check.reads]
        unread = {
            SOURCES[name]: value.reason
            for name, value in zip(check.reads, read, strict=True)
            if isinstance(value, Unread)
        }
        if unread:
            left_out.append(LeftOut(check.id, unread))
        else:
            findings += [Finding(check.id, check.severity, *problem) for problem in check.find(*read)]
    findings.sort(key=lambda finding: RANKS.index(finding.severity))
    return Examination(len(checks), findings, left_out)
