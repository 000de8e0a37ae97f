"""`python -m extender.commands.demo.child FILE`: `kwx serve` that ends with whoever has started it, even if killed.

Standard input is a pipe of theirs to which nothing is written: the system closes it when they are gone. Then the folder
of the configuration goes, too.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

from extender.commands.cli import app


def main() -> None:
    """Serves."""
    file = Path(sys.argv[1])
    is_alone = threading.Event()
    threading.Thread(target=_leave_when_alone, args=(is_alone,), daemon=True).start()
    try:
        app(["serve", "--config", str(file)])
    finally:
        if is_alone.is_set():
            shutil.rmtree(file.parent, ignore_errors=True)


def _leave_when_alone(is_alone: threading.Event) -> None:
    os.read(sys.stdin.fileno(), 1)
    is_alone.set()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
