"""Looks for modules that the runtime cannot take: `python -m tests.wasm_runtime.fuzz --minutes 10`.

Modules are mutated from good ones or invented. Each is compiled, checked, instantiated and called at all its
exports, in a process of its own. What may come out is an answer, ModuleError or GuestError; the process must live
and stay small. What does anything else is kept in the corpus. The exit status is then 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.wasm_runtime.fuzz.campaign import Campaign, Finding
from tests.wasm_runtime.fuzz.cases import Cases
from tests.wasm_runtime.fuzz.play import FEW, Player
from wasm_runtime.nodes import node_table

CORPUS = Path(tempfile.gettempdir()) / "kwx-fuzz"
WORKER = [sys.executable, "-m", "tests.wasm_runtime.fuzz.worker"]


class Progress:
    """Where a run is: on a terminal a line that is written over, else one a minute."""

    def __init__(self, seconds: float) -> None:
        self._next = time.monotonic()
        self._end = self._next + seconds
        self._on_terminal = sys.stderr.isatty()
        self._number = 0
        self.findings = 0

    def wants(self, number: int) -> bool:
        """Whether there is time for a module."""
        self._number = number
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (0.2 if self._on_terminal else 60)
            self._tell("\r" if self._on_terminal else "", "" if self._on_terminal else "\n")
        return now < self._end

    def close(self) -> None:
        """Says what there was in all."""
        self._tell("\r" if self._on_terminal else "", "\n")

    def _tell(self, begin: str, end: str) -> None:
        left = max(0.0, self._end - time.monotonic())
        line = f"{self._number} modules, {self.findings} findings, {left:.0f} s left"
        print(f"{begin}{line}", end=f"\033[K{end}" if begin else end, file=sys.stderr, flush=True)


def keep(finding: Finding, wasm: bytes, corpus: Path, seed: int) -> Path:
    """Saves a module, and beside it what it did."""
    corpus.mkdir(parents=True, exist_ok=True)
    path = corpus / f"{seed}-{finding.number}.wasm"
    path.write_bytes(wasm)
    path.with_suffix(".txt").write_text(f"{finding.what}\n", encoding="utf-8")
    return path


def replay(paths: Iterable[Path]) -> None:
    """Plays saved modules in this process, which one may end."""
    node_table.SLACK = FEW
    player = Player()
    for path in paths:
        print(f"{path}: {player.play(path.read_bytes())}", flush=True)


def main() -> int:
    """Runs or replays. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.wasm_runtime.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed makes the same modules")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help=f"where findings are kept, {CORPUS} by default")
    parser.add_argument("--modules", type=Path, action="append", default=[], help="directory of more modules to mutate")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="MODULE", help="play saved modules instead")
    options = parser.parse_args()
    if options.replay:
        replay(options.replay)
        return 0
    print(f"seed {options.seed}", file=sys.stderr)
    cases = Cases(options.seed, options.modules)
    progress = Progress(60 * options.minutes)
    directories = [str(path.resolve()) for path in options.modules]
    for finding in Campaign([*WORKER, str(options.seed)], directories).run(progress.wants):
        progress.findings += 1
        path = keep(finding, cases[finding.number], options.corpus, options.seed)
        print(f"\nmodule {finding.number}: {finding.what}\nkept; play it again by --replay {path}\n", flush=True)
    progress.close()
    return 1 if progress.findings else 0


if __name__ == "__main__":
    sys.exit(main())
