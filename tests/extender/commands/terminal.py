"""A terminal of any width, for what commands show on it."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

TIMEOUT_S = 60


def run_on_terminal(
    command: Sequence[str | Path], columns: int, environment: Mapping[str, str], status: int = 0
) -> str:
    """What a command writes to a terminal of so many columns, without colours. It must end with the status."""
    terminal, stdout = os.openpty()
    fcntl.ioctl(stdout, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    try:
        with subprocess.Popen(
            command, stdin=stdout, stdout=stdout, stderr=stdout, env={**environment, "TERM": "xterm"}
        ) as process:
            os.close(stdout)
            written = b"".join(read_terminal(terminal)).decode()
            assert process.wait(TIMEOUT_S) == status, written
    finally:
        os.close(terminal)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).replace("\r\n", "\n")


def read_terminal(terminal: int) -> Iterator[bytes]:
    """What comes to a terminal until nobody holds its other end."""
    with suppress(OSError):  # Linux tells it by an error.
        while select.select([terminal], [], [], TIMEOUT_S)[0]:
            yield os.read(terminal, 4096)
