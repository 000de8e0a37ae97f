"""The steps of a run, each with what came of it: a command, or tests in a process of their own that may die."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, Protocol

from bench.controlplane.process import leashed
from tests.suite.journal import Record

ROOT: Final = Path(__file__).parents[2]
PLUGINS: Final = ("-p", "tests.suite.timeouts", "-p", "tests.suite.journal")
MAX_DEATHS: Final = 5
"""After as many the rest of a run is left out."""
STOP_TIMEOUT_S: Final = 20.0
PROGRESS_INTERVAL_S: Final = 60.0
"""A test that takes longer is told of so often: who watches sees that the run goes on."""
NOTHING_LEFT: Final = 5
"""pytest's exit status when it ran no test."""


@dataclass(frozen=True)
class Outcome:
    """What came of a step."""

    name: str
    colour: Literal["green", "red", "left out"]
    says: str
    """A few words: counts of tests, or how the command ended."""
    seconds: float = 0.0
    failed: tuple[str, ...] = ()
    """A line each."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Why, and how many tests for each."""


class Step(Protocol):
    """What a run is made of."""

    @property
    def name(self) -> str: ...

    def run(self) -> Outcome: ...


@dataclass(frozen=True)
class Command:
    """A command that ends with status 0 when all is well."""

    name: str
    command: Sequence[str]
    timeout_s: float

    def run(self) -> Outcome:
        """Runs it with the output of this process."""
        began = time.monotonic()
        status = _run(self.command, self.timeout_s)
        says = f"was not over after {self.timeout_s:g} s" if status is None else f"ended with status {status}"
        return Outcome(self.name, "green" if status == 0 else "red", says, time.monotonic() - began)


@dataclass(frozen=True)
class Suite:
    """A run of pytest, which goes on behind a test that has ended its process."""

    name: str
    arguments: Sequence[str]
    python: Callable[[], str | Path | None] = lambda: sys.executable
    """The interpreter; None where there is none that fits."""
    without_python: str = ""
    """How to get one."""

    def run(self) -> Outcome:
        """Runs them with the output of this process."""
        began = time.monotonic()
        try:
            python = self.python()
        except (OSError, subprocess.CalledProcessError) as error:
            return Outcome(self.name, "red", f"did not run: {error}", time.monotonic() - began)
        if python is None:
            return Outcome(self.name, "left out", self.without_python)
        with TemporaryDirectory(prefix="kwx-journal-") as folder:
            record, trouble = self._run([str(python), "-m", "pytest", *PLUGINS], Path(folder) / "journal")
        for report in record.untold:
            print(report, flush=True)
        return self._outcome(record, trouble, time.monotonic() - began)

    def _run(self, pytest: Sequence[str], journal: Path) -> tuple[Record, str]:
        """What the tests came to, and what was wrong with the run itself."""
        for death in range(MAX_DEATHS):
            before = len(Record.read(journal).begun)
            status = _run(
                [*pytest, f"--journal={journal}", *self.arguments], math.inf, partial(_tell_progress, journal)
            )
            record = Record.read(journal)
            if record.has_ended:
                all_well = status == 0 or record.failed or (death and status == NOTHING_LEFT)
                return record, "" if all_well else _trouble(status)
            if len(record.begun) == before:
                return record, _trouble(status)
        return record, f"the run died {MAX_DEATHS} times, the rest was left out"

    def _outcome(self, record: Record, trouble: str, seconds: float) -> Outcome:
        counts = {"passed": record.passed, "failed": len(record.failed), "skipped": record.skipped.total()}
        failed = [f"{test}: {why}" for test, why in record.failed.items()]
        return Outcome(
            self.name,
            "red" if failed or trouble else "green",
            ", ".join(f"{number} {what}" for what, number in counts.items()),
            seconds,
            (*failed, f"{self.name}: {trouble}") if trouble else tuple(failed),
            record.skipped,
        )


def _trouble(status: int | None) -> str:
    words: dict[int | None, str] = {
        NOTHING_LEFT: "no test was found",
        1: "every test was over, but its process did not end by itself; where it hung is above",
    }
    return words.get(status, f"pytest ended with status {status}")


def _tell_progress(journal: Path) -> None:
    record = Record.read(journal)
    seconds = time.time() - record.running_since
    if record.running and seconds >= PROGRESS_INTERVAL_S:
        print(f"\n{record.running} has been running for {seconds:.0f} s", flush=True)


def _run(command: Sequence[str], timeout_s: float, meanwhile: Callable[[], None] = lambda: None) -> int | None:
    """The exit status, None if it was ended because it took too long. What it has started ends with it.

    Until then, `meanwhile` is called now and then.
    """
    process = subprocess.Popen(leashed(command), cwd=ROOT, start_new_session=True)
    deadline = time.monotonic() + timeout_s
    with _ended_with_us(process):
        while (left := deadline - time.monotonic()) > 0:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(left, PROGRESS_INTERVAL_S))
            meanwhile()
    return None


@contextmanager
def _ended_with_us(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Its group ends when we leave, in peace after Ctrl-C, which a terminal sends to our group alone."""
    try:
        yield
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_TIMEOUT_S)
