"""A port that was given is nobody else's until the process that asked for it has ended."""

from __future__ import annotations

import subprocess
import sys

from tests.patience import Beside

PORTS = range(19_900, 19_920)
"""None of those that other tests get."""
TAKE_ALL = f"""
from bench.controlplane import ports
ports.PORT_RANGE = range({PORTS.start}, {PORTS.stop})
given = set()
try:
    while True:
        port = ports.free_port()
        assert port not in given, port
        given.add(port)
except OSError as error:
    print(len(given), error, sep="; ", flush=True)
input()
"""
TIMEOUT_S = 60


def test_a_port_is_given_once_until_the_process_has_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TAKE_ALL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout
        count, told = Beside(first.stdout.readline).end().split("; ")
        assert told == f"no free port on 127.0.0.1 in {PORTS}\n"
        assert int(count) > 0
        assert take_all() == f"0; {told}", "while the first runs"
        first.communicate("\n", timeout=TIMEOUT_S)
    assert take_all() == f"{count}; {told}", "when the first has ended"


def take_all() -> str:
    """How many ports another process gets, and what it is told then."""
    done = subprocess.run(
        [sys.executable, "-c", TAKE_ALL], input="\n", stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True
    )
    return done.stdout
