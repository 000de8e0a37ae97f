"""Free TCP ports on loopback."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
# Below the ports that Linux gives to outgoing connections, so that no connection takes one before its server does.
PORT_RANGE = range(20000, 32000)


def free_port() -> int:
    """A port on LOOPBACK that nothing listens on right now, different at nearly every call.

    Raises OSError where every port of PORT_RANGE is taken.
    """
    for port in random.sample(PORT_RANGE, len(PORT_RANGE)):
        if _is_free(port):
            return port
    raise OSError(f"no free port on {LOOPBACK} in {PORT_RANGE}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
