"""Free TCP ports on loopback."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
import threading
from functools import cache
from pathlib import Path

LOOPBACK = "127.0.0.1"
# Below the ports that Linux gives to outgoing connections, so that no connection takes one before its server does.
PORT_RANGE = range(20000, 32000)

_given: set[int] = set()
_giving = threading.Lock()


def free_port() -> int:
    """A port on LOOPBACK that nothing listens on, and that no other call gets.

    That holds for calls in this process and in all others of the user, for as long as this process runs: a server
    may listen a while after the port was chosen for it. Raises OSError where no port of PORT_RANGE is left.
    """
    with _giving:
        for port in random.sample(PORT_RANGE, len(PORT_RANGE)):
            if _claim(port) and _is_free(port):
                return port
    raise OSError(f"no free port on {LOOPBACK} in {PORT_RANGE}")


def _claim(port: int) -> bool:
    """Claims a port; False if a call in this or another process has it. The kernel ends a claim with the process."""
    if port in _given:
        return False
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    _given.add(port)
    return True


@cache
def _claims() -> int:
    """The file of which each byte stands for a port. It stays open: to close it would end all claims."""
    path = Path(tempfile.gettempdir()) / f"kwx-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
