"""`python -m tests.storm.served FILE FOLDER`: `kwx serve` where disk, memory and threads fail when told to.

Standard input has faults to come, a line of JSON each. FOLDER is where the disk fails. SIGUSR1 has the process tell
where all of its threads are.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from pathlib import Path

from extender.commands import cli
from extender.serve import process
from tests.storm.faults import Faults


def main() -> None:
    """Serves with faults until it is ended."""
    assert process, "what faults are put into is imported before"
    faulthandler.register(signal.SIGUSR1)
    _, file, folder = sys.argv
    Faults(Path(folder)).obey(sys.stdin)
    sys.argv = ["kwx", "serve", "--config", file]
    cli.main()


if __name__ == "__main__":
    main()
