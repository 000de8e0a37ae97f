"""What `make test` and `make nightly` run: `python -m tests.suite test` or `nightly`, and more arguments for pytest."""

import signal
import sys
from collections.abc import Sequence
from typing import Final

from tests.suite import wasmer
from tests.suite.run import run
from tests.suite.steps import Command, Step, Suite

BUILD_TIMEOUT_S: Final = 3600.0
FUZZ_MINUTES: Final = 10

CONTROL_PLANE: Final = Command("control plane", [sys.executable, "-m", "bench.controlplane"], BUILD_TIMEOUT_S)
FUZZ: Final = Command(
    "fuzz",
    [sys.executable, "-m", "tests.wasm_runtime.fuzz", "--minutes", str(FUZZ_MINUTES)],
    60.0 * (FUZZ_MINUTES + 5),
)
NO_PYTHON_310: Final = "no CPython 3.10 in PATH, pyenv or uv: uv python install 3.10, or pyenv install 3.10"


def steps(target: str, arguments: Sequence[str]) -> list[Step]:
    """What a target of the Makefile is made of."""
    if target == "nightly":
        return [CONTROL_PLANE, Suite("tests", ["-m", "nightly", "-v", *arguments]), FUZZ]
    main = Suite("tests", arguments)
    if sys.version_info < (3, 11):
        return [CONTROL_PLANE, main]
    in_310 = Suite("wasmer", [*wasmer.TESTS, *arguments], wasmer.python, NO_PYTHON_310)
    return [CONTROL_PLANE, main, in_310]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)  # What runs ends with us.
    _, target, *arguments = sys.argv
    sys.exit(run(f"make {target}", steps(target, arguments)))
