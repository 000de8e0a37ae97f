"""What a check is, and what is found by all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from extender.commands.doctor.facts import SOURCES, Facts, Unread


class Severity(str, Enum):
    """What a finding means."""

    ERROR = "error"
    """Pods are not scheduled, or not as the plugins say."""
    WARNING = "warning"
    """Something will go wrong one day, or is not what it seems."""
    INFO = "info"
    """Something costs more than it needs to."""


RANKS: Final = list(Severity)


class Problem(NamedTuple):
    """What a check has found."""

    cause: str
    mend: str


@dataclass(frozen=True)
class Check:
    """A rule that a setup keeps."""

    id: str
    """Stable: scripts may go by it."""
    severity: Severity
    about: str
    """What it finds, as documentation has it."""
    find: Callable[..., Iterable[Problem]]
    """Its parameters are fields of Facts. The check is left out if one of these could not be read."""

    @property
    def reads(self) -> Sequence[str]:
        """The fields of Facts that it looks at."""
        return list(inspect.signature(self.find).parameters)


class Finding(NamedTuple):
    """Something that is not as it should be."""

    check: str
    severity: Severity
    cause: str
    mend: str


class LeftOut(NamedTuple):
    """A check that could not be made."""

    check: str
    unread: Mapping[str, str]
    """Why what it looks at could not be read, by what that is."""


class Examination(NamedTuple):
    """What all checks have found."""

    checks: int
    findings: Sequence[Finding]
    """The worst first."""
    left_out: Sequence[LeftOut]

    def count(self, severity: Severity) -> int:
        """The number of findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)


def examine(facts: Facts, checks: Sequence[Check]) -> Examination:
    """Makes all checks that can be made."""
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
