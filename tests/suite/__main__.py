"""What targets of the Makefile run: `python -m tests.suite test`, `nightly` or `compat`, and arguments for pytest.

With such arguments `test` runs pytest once, and not in lanes, and `nightly` leaves modules out that nobody would write:
whoever chooses tests wants to see what pytest shows.
"""

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from bench.controlplane import NEWEST, OLDEST, SCHEDULERS
from tests.suite import wasmer
from tests.suite.run import run
from tests.suite.steps import Command, Step, Suite

BUILD_TIMEOUT_S: Final = 3600.0
FUZZ_MINUTES: Final = 10
MAX_LANES: Final = 4
"""Lanes at most. Each has a control plane and further programs of its own: more would run out of memory."""
TESTED: Final = (OLDEST, NEWEST)
"""The minors that tests need. The newest is that of the peers, which are then built in seconds rather than minutes."""
COMPAT: Final = ("tests/e2e", "tests/manifests")
"""Where tests ask for a kube-scheduler."""

FUZZ: Final = Command(
    "fuzz",
    [sys.executable, "-m", "tests.wasm_runtime.fuzz", "--minutes", str(FUZZ_MINUTES)],
    60.0 * (FUZZ_MINUTES + 5),
)
NO_PYTHON_310: Final = "no CPython 3.10 in PATH, pyenv or uv: uv python install 3.10, or pyenv install 3.10"


def steps(target: str, arguments: Sequence[str]) -> list[Step]:
    """What a target of the Makefile is made of."""
    if target == "nightly":
        tests = Suite("tests", ["-m", "nightly", "-v", *arguments])
        return [_control_plane(TESTED), tests, *([] if arguments else [FUZZ])]
    if target == "compat":
        return [_control_plane(SCHEDULERS), *(_compat(minor, arguments) for minor in SCHEDULERS)]
    lanes = (
        1 if arguments else min((os.cpu_count() or 1) * 3 // 2, MAX_LANES)
    )  # Tests wait for a quarter of their time.
    built, main = _control_plane(TESTED), Suite("tests", arguments, lanes=lanes)
    if sys.version_info < (3, 11):
        return [built, main]
    in_310 = Suite("wasmer", [*wasmer.TESTS, *arguments], wasmer.python, NO_PYTHON_310, lanes)
    return [built, main, in_310]


def _control_plane(schedulers: Iterable[str]) -> Command:
    """Builds it, and the kube-schedulers of these minors."""
    return Command("control plane", [sys.executable, "-m", "bench.controlplane", *schedulers], BUILD_TIMEOUT_S)


def _compat(minor: str, arguments: Sequence[str]) -> Suite:
    """The tests that concern the kube-scheduler of a minor."""
    return Suite(f"kube-scheduler {SCHEDULERS[minor].version}", [*COMPAT, f"--scheduler={minor}", *arguments])


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)  # What runs ends with us.
    _, target, *arguments = sys.argv
    sys.exit(run(f"make {target}", steps(target, arguments)))
