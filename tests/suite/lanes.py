"""A pytest plugin: several runs, the lanes, share the tests of a suite. Each takes a file of them, and then another.

A file stays with the lane that has claimed it, so that what its tests share is made once. A lane that died goes on with
its own file. What pytest shows is kept apart, since lanes would talk at the same time: a line for each file that is
over, and each failure at once, go to standard error.

Each lane is a pytest of its own, to which all applies that is said of one in `steps` and `timeouts`. pytest-xdist, with
files kept together, runs a test that has ended its process again, until it gives the whole run up, and tells nothing of
a process that hangs at its end.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Final, TextIO

import pytest

from tests.suite.journal import told_by

LONG: Final = ("tests/bench/", "tests/e2e/", "tests/sdk_guest/")
"""Where files take minutes. They come first: at the end a lane would be alone with one."""


class Lane:
    """One of several runs of the same tests."""

    def __init__(self, number: int, lanes: int, claims: Path, out: TextIO) -> None:
        """`claims` is a folder that the lanes share; `out` takes what a user sees at once."""
        self._number = number
        self._lanes = lanes
        self._claims = claims
        self._out = out
        self._outcomes = Counter[str]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """As pytest's own loop, but for the tests that other lanes run.

        What a test leaves set up depends on the next one: while the last of a file runs, the next file is ours already.
        """
        if session.testsfailed:
            return None  # Collecting them did: pytest tells.
        begun = time.monotonic()
        tests = self._claimed(session.items)
        test = next(tests, None)
        while test:
            following = next(tests, None)
            session.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if session.shouldfail or session.shouldstop:
                raise session.Interrupted(session.shouldfail or session.shouldstop)
            if following is None or _file(following) != _file(test):
                self._tell_file(_file(test), time.monotonic() - begun)
                begun = time.monotonic()
            test = following
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """All lanes find the same files: one of them tells."""
        if self._number == 0:
            self._tell_failure(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._outcomes[report.outcome] += 1
        self._tell_failure(report)

    def _tell_failure(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed:
            print(f"\n{report.nodeid}\n{told_by(report)}\n", file=self._out, flush=True)

    def _claimed(self, items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
        """The tests of one file after the other that is nobody else's. Each lane begins elsewhere."""
        files = [list(tests) for _, tests in groupby(items, _file)]
        for is_long in (True, False):
            some = [tests for tests in files if _file(tests[0]).startswith(LONG) is is_long]
            first = len(some) * self._number // self._lanes
            for tests in some[first:] + some[:first]:
                if self._claims_file(_file(tests[0])):
                    yield from tests

    def _claims_file(self, file: str) -> bool:
        claim, us = self._claims / sha256(file.encode()).hexdigest(), Path(str(self._number))
        with suppress(FileExistsError):
            claim.symlink_to(us)  # Made with its content in one step.
        return claim.readlink() == us

    def _tell_file(self, file: str, seconds: float) -> None:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(self._outcomes.items()))
        print(f"{file}: {counts} in {seconds:.0f} s", file=self._out, flush=True)
        self._outcomes.clear()


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "be one of so many runs, counted from 0, that share the tests; each claims its own beside its journal"
    parser.addoption("--lane", metavar="NUMBER/LANES", help=told)


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is captured yet: standard error is what a user sees."""
    if lane := config.getoption("--lane"):
        number, lanes = map(int, lane.split("/"))
        out = os.fdopen(os.dup(2), "w")
        config.pluginmanager.register(Lane(number, lanes, config.getoption("--journal").parent, out))
