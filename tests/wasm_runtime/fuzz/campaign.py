"""A run: one worker after the other, and what is learnt from how they end."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, NamedTuple

from tests.patience import PATIENCE_S, Beside, ending

ROOT = Path(__file__).parents[3]

MAX_SECONDS = 60.0
"""A module takes that long only if something hangs: its guest has a second or two in all."""
LAST_WORDS = 4_000
"""Characters that are kept of what a worker writes as it dies."""


class Finding(NamedTuple):
    """A module that did what none may do."""

    number: int
    what: str


class Campaign:
    """Has modules played as long as they are wanted. A worker that a module has ended is followed by another one."""

    def __init__(self, command: Sequence[str], arguments: Sequence[str] = (), patience: float = MAX_SECONDS) -> None:
        """The worker is started by the command, the number that it begins with, and the arguments."""
        self._command = command
        self._arguments = arguments
        self._patience = patience

    def run(self, wanted: Callable[[int], bool]) -> Iterator[Finding]:
        """The findings of all modules, from number 0 to the first that is not wanted."""
        number = 0
        while wanted(number):
            number = yield from self._work(number, wanted)

    def _work(self, number: int, wanted: Callable[[int], bool]) -> Generator[Finding, None, int]:
        """What one worker finds. Returns the number that the next one is to begin with."""
        command = [*self._command, str(number), *self._arguments]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True) as worker,
        ):
            lines: SimpleQueue[int | str | None] = SimpleQueue()
            reader = Beside(lambda: _read(worker, lines))
            begun = False
            try:
                while True:
                    line = lines.get(timeout=self._patience)
                    if isinstance(line, str):
                        yield Finding(number, line)
                    elif line is not None and wanted(line):
                        number, begun = line, True
                    else:
                        break
                if line is None and not begun:
                    raise RuntimeError(f"the worker does not begin: {_tail(errors)}")
                if line is None:
                    yield Finding(number, f"{ending(worker.wait(PATIENCE_S))}\n{_tail(errors)}".rstrip())
            except Empty:
                yield Finding(number, f"takes more than {self._patience:g} s")
            finally:
                worker.kill()
                reader.end()
            return number + 1


def _read(worker: subprocess.Popen[str], lines: SimpleQueue[int | str | None]) -> None:
    """Passes on what a worker says, then None."""
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.endswith("\n"):
            lines.put(json.loads(line))
    lines.put(None)


def _tail(errors: IO[str]) -> str:
    errors.seek(0)
    return errors.read().strip()[-LAST_WORDS:]
