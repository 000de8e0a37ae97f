"""The steps of a run, each with what came of it: a command, or tests in a process of their own that may die."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final, Literal, Protocol

from bench.controlplane.process import leashed
from tests.suite.journal import Record

ROOT: Final = Path(__file__).parents[2]
PLUGINS: Final = ("-p", "tests.suite.timeouts", "-p", "tests.suite.journal", "-p", "tests.suite.lanes")
MAX_DEATHS: Final = 5
"""Deaths of a run after which its remaining tests are left out."""
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
    """How the step ended, in a few words: counts of tests, or the status of the command."""
    seconds: float = 0.0
    failed: tuple[str, ...] = ()
    """A line for each failure."""
    skipped: Counter[str] = field(default_factory=Counter)
    """The number of skipped tests by reason."""


class Step(Protocol):
    """A part of a run."""

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
        status = asyncio.run(_run(self.command, self.timeout_s))
        says = f"was not over after {self.timeout_s:g} s" if status is None else f"ended with status {status}"
        return Outcome(self.name, "green" if status == 0 else "red", says, time.monotonic() - began)


@dataclass(frozen=True)
class Suite:
    """A run of pytest, which goes on behind a test that has ended its process; or several, which share the tests."""

    name: str
    arguments: Sequence[str]
    python: Callable[[], str | Path | None] = lambda: sys.executable
    """Finds the interpreter; None where none fits."""
    without_python: str = ""
    """How to get an interpreter, where there is none."""
    lanes: int = 1
    """The number of lanes. A single one shows what pytest shows; for several see `lanes`."""

    def run(self) -> Outcome:
        """Runs them with the output of this process."""
        began = time.monotonic()
        try:
            python = self.python()
        except (OSError, subprocess.CalledProcessError) as error:
            return Outcome(self.name, "red", f"did not run: {error}", time.monotonic() - began)
        if python is None:
            return Outcome(self.name, "left out", self.without_python)
        pytest = [str(python), "-m", "pytest", *PLUGINS, *self.arguments]
        with TemporaryDirectory(prefix="kwx-suite-") as folder:
            record, troubles = asyncio.run(self._run_lanes(pytest, Path(folder)))
        return self._outcome(record, troubles, time.monotonic() - began)

    async def _run_lanes(self, pytest: Sequence[str], folder: Path) -> tuple[Record, Sequence[str]]:
        """What the tests came to, and what was wrong with the runs themselves."""
        if self.lanes == 1:
            record, trouble = await _run_tests(pytest, folder / "journal")
            for report in record.untold:
                print(report, flush=True)
            return record, [trouble] if trouble else []
        lanes = [self._run_lane(pytest, number, folder) for number in range(self.lanes)]
        records, troubles = zip(*await asyncio.gather(*lanes), strict=True)
        return Record.of_all(records), list(dict.fromkeys(filter(None, troubles)))

    async def _run_lane(self, pytest: Sequence[str], number: int, folder: Path) -> tuple[Record, str]:
        with (folder / f"output-{number}").open("w+") as output:
            lane = [*pytest, f"--lane={number}/{self.lanes}"]
            record, trouble = await _run_tests(lane, folder / f"journal-{number}", output)
            if trouble:
                output.seek(0)
                print(output.read(), flush=True)
        return record, trouble

    def _outcome(self, record: Record, troubles: Sequence[str], seconds: float) -> Outcome:
        counts = {"passed": record.passed, "failed": len(record.failed), "skipped": len(record.skipped)}
        failed = [f"{test}: {why}" for test, why in record.failed.items()]
        return Outcome(
            self.name,
            "red" if failed or troubles else "green",
            ", ".join(f"{number} {what}" for what, number in counts.items()),
            seconds,
            (*failed, *(f"{self.name}: {trouble}" for trouble in troubles)),
            Counter(record.skipped.values()),
        )


async def _run_tests(pytest: Sequence[str], journal: Path, output: IO[str] | None = None) -> tuple[Record, str]:
    """What the tests came to, and what was wrong with the run itself. `output` takes what pytest shows."""
    for death in range(MAX_DEATHS):
        before = len(Record.read(journal).begun)
        status = await _run([*pytest, f"--journal={journal}"], math.inf, partial(_tell_progress, journal), output)
        record = Record.read(journal)
        if record.has_ended:
            all_well = status == 0 or record.failed or (death and status == NOTHING_LEFT)
            return record, "" if all_well else _trouble(status)
        if len(record.begun) == before:
            return record, _trouble(status)
    return record, f"the run died {MAX_DEATHS} times, the rest was left out"


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


async def _run(
    command: Sequence[str],
    timeout_s: float,
    meanwhile: Callable[[], None] = lambda: None,
    output: IO[str] | None = None,
) -> int | None:
    """The exit status, None if it was ended because it took too long. What it has started ends with it.

    Until then, `meanwhile` is called now and then. With `output` for what it prints, its errors are printed by us.
    """
    errors = None if output is None else 1
    process = await asyncio.create_subprocess_exec(
        *leashed(command), cwd=ROOT, start_new_session=True, stdout=output, stderr=errors
    )
    deadline = time.monotonic() + timeout_s
    async with _ended_with_us(process):
        while (left := deadline - time.monotonic()) > 0:
            with suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(process.wait(), min(left, PROGRESS_INTERVAL_S))
            meanwhile()
    return None


@asynccontextmanager
async def _ended_with_us(process: Process) -> AsyncIterator[None]:
    """Its group ends when we leave, in peace after Ctrl-C, which a terminal sends to our group alone."""
    try:
        yield
    except asyncio.CancelledError:
        with suppress(ProcessLookupError, asyncio.TimeoutError):
            process.send_signal(signal.SIGINT)
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
