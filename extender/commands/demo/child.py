"""`python -m extender.commands.demo.child FILE`: `kwx serve` that ends with its parent process, even if that is killed.

Standard input is a pipe of the parent's to which nothing is written: the system closes the pipe when the parent has
ended. Then the child removes the folder of the configuration, too.
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
    """Serves with the configuration file that the command line names."""
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
