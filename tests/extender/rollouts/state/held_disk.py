"""`kwx` on a disk that can be held: whoever comes upon what lies in DISK then waits, as for one that hangs.

Usage: held_disk.py FOLDER ARGUMENT ...; FOLDER has `DISK` and the files of `Gate`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from extender.commands.cli import main
from tests.patience import wait_until

DISK: Final = "disk"


class Gate:
    """Holds the disk of a process, and tells whether anybody waits for it."""

    def __init__(self, folder: Path) -> None:
        self._held = folder / "held"
        self._waits = folder / "waits"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the disk as long as the context lasts."""
        self._held.touch()
        try:
            yield
        finally:
            self._held.unlink()

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody has come upon the held disk."""
        return self._waits.exists()

    def pass_through(self) -> None:
        """Waits while the disk is held."""
        if self._held.exists():
            self._waits.touch()
            wait_until(lambda: not self._held.exists(), "the disk is let go")


def _hold(module: Any, name: str, gate: Gate, concerns: Callable[[Any], bool]) -> None:
    """Makes a function of the system wait at the gate if its arguments concern the disk."""
    do = getattr(module, name)

    def held(what: Any, *more: Any, **named: Any) -> Any:
        if concerns(what):
            gate.pass_through()
        return do(what, *more, **named)

    setattr(module, name, held)


def _run(folder: Path) -> None:
    gate = Gate(folder)
    disk = f"{folder / DISK}/"

    def is_on_disk(what: Any) -> bool:
        path = Path(f"/proc/self/fd/{what}").readlink() if isinstance(what, int) else what
        return str(path).startswith(disk)

    for module, name in (
        (os, "fsync"),
        (os, "replace"),
        (os, "unlink"),
        (os, "open"),
        (os, "stat"),
        (os, "scandir"),
        (io, "open"),
    ):
        _hold(module, name, gate, is_on_disk)
    main()


if __name__ == "__main__":
    _run(Path(sys.argv.pop(1)))
