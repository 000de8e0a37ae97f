"""A pytest plugin and its reader: what came of each test, a line of JSON each, so that it outlives a run that dies.

A run that is given the journal of one that died goes on behind the test in which it died.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pytest


@dataclass
class Record:
    """What a journal tells. Tests are named by their node ids."""

    passed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """The failed tests, and why each failed, in a line."""
    skipped: dict[str, str] = field(default_factory=dict)
    """The skipped tests or files of tests, and why each was skipped."""
    begun: set[str] = field(default_factory=set)
    untold: list[str] = field(default_factory=list)
    """What pytest would have shown of failures at its end, in runs that died."""
    has_ended: bool = False
    """Whether the last run came to its end."""
    running: str | None = None
    """The test that runs now, or in which the last run died."""
    running_since: float = 0.0
    """When that test began, on the clock of `time.time`."""

    @classmethod
    def read(cls, file: Path) -> Record:
        """The record of a journal's file, which is empty if there is no file. An incomplete last line is left out."""
        record = cls()
        reports: list[str] = []
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        for entry in (json.loads(line) for line in lines if line.endswith("\n")):
            match entry:
                case {"is": "run"}:
                    record._died(reports)
                    record.running, reports, record.has_ended = None, [], False
                case {"is": "begun", "test": test, "at": at}:
                    record.running, record.running_since = test, at
                    record.begun.add(test)
                case {"is": "over"}:
                    record.running = None
                case {"is": "passed"}:
                    record.passed += 1
                case {"is": "failed", "test": test, "why": why, "report": report}:
                    record.failed.setdefault(test, why)
                    reports.append(f"{test}\n{report}")
                case {"is": "skipped", "test": test, "why": why}:
                    record.skipped[test] = why
                case {"is": "ended"}:
                    reports, record.has_ended = [], True
        record._died(reports)
        return record

    @classmethod
    def of_all(cls, records: Iterable[Record]) -> Record:
        """What came of tests in several runs that have shared them. Each has found the same files."""
        together = cls()
        for record in records:
            together.passed += record.passed
            together.failed |= record.failed
            together.skipped |= record.skipped
        return together

    def _died(self, reports: Iterable[str]) -> None:
        self.untold.extend(reports)
        if self.running is not None:
            self.failed.setdefault(self.running, "the run died in it; its last words are above")


class Writer:
    """The plugin of one run."""

    def __init__(self, file: TextIO, done: set[str]) -> None:
        self._file = file
        self._done = done
        self._tell({"is": "run"})

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self._done])
        items[:] = [item for item in items if item.nodeid not in self._done]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self._tell_outcome(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._tell({"is": "begun", "test": item.nodeid, "at": time.time()})
        result = yield
        self._tell({"is": "over"})
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._tell_outcome(report)

    def pytest_sessionfinish(self) -> None:
        self._tell({"is": "ended"})

    def _tell_outcome(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        told = {"test": report.nodeid, "why": _why(report), "report": told_by(report)}
        self._tell({"is": report.outcome, **told})

    def _tell(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


def told_by(report: pytest.CollectReport | pytest.TestReport) -> str:
    """All that pytest shows of a report."""
    return "\n\n".join([report.longreprtext, *(f"{name}:\n{text}" for name, text in report.sections)])


def _why(report: pytest.CollectReport | pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else report.longreprtext).strip().partition("\n")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--journal", type=Path, help="write what comes of each test; leave out what it tells already")


def pytest_configure(config: pytest.Config) -> None:
    if file := config.getoption("journal"):
        done = Record.read(file).begun
        config.pluginmanager.register(Writer(file.open("a"), done))
