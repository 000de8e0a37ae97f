"""`python -m bench.micro.overload`: an extender over TLS that is asked five times as much as it can answer.

100 clients with certificates ask filter, together five times as often as was answered before. 100 others do no good,
each in one of six ways (`bench.micro.crowd`), and come again when they are left. The plugin is slow once, so that it is
judged in threads, and quick once, so that it is judged on the event loop. Meanwhile `/livez` is asked over TLS, and
memory is looked at. A process that does nothing else is asked as often: what it takes is the machine's part. Then the
load ends, and it is measured how long it takes until filter is answered as before.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import math
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import uvloop

from bench.controlplane.ports import LOOPBACK, free_port
from bench.micro import crowd
from bench.micro.crowd import Load, Place
from bench.micro.edge import resident
from bench.micro.webhook import bodies, machine, percentiles
from bench.servers import Ports, configured
from tests.certificates import Authority
from tests.extender import guests

CLIENTS: Final = 100
"""Clients of each kind: those that ask filter, and bad ones."""
FACTOR: Final = 5
"""By which factor the load exceeds what can be answered."""
SECONDS: Final = 15.0
CALIBRATION_S: Final = 4.0
CALIBRATING: Final = 8
"""Clients that ask without a pause, to see what can be answered."""
PLUGINS: Final = {"slow": "300", "quick": "2"}
"""Thousands of rounds that the guest turns for each node."""
PAUSE_S: Final = 0.01
"""Seconds between two looks at health and memory."""
WELL_IN_A_ROW: Final = 5
CALM_S: Final = 60.0
"""Seconds within which everything must be as before."""


class Figures(NamedTuple):
    """The figures of one overload."""

    capacity: float
    """Requests that were answered in a second before."""
    load: Load
    livez_ms: list[float]
    livez_missed: int
    idle_ms: list[float]
    """Milliseconds of the answers of a process that does nothing else, in the same time."""
    before_mib: float
    peak_mib: float
    after_mib: float
    back_s: float
    """From the end of the load until filter was answered as before."""


def main() -> None:
    """Runs it and prints a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--only", choices=list(PLUGINS), help="this plugin alone")
    options = parser.parse_args()
    print(f"{machine()}\n{2 * CLIENTS} clients, half of them do no good; {FACTOR} times what can be answered\n")
    print(f"| plugin | {' | '.join(HEADINGS)} |")
    print(f"|---|{'---|' * len(HEADINGS)}")
    for name in PLUGINS:
        if options.only in {None, name}:
            figures = run(name, options.seconds)
            print(f"| {name} | {' | '.join(cells(figures))} |", flush=True)
            for problem, count in figures.load.problems.most_common():
                print(f"<!-- {count} times: {problem} -->", flush=True)


HEADINGS: Final = (
    "answered in a second before",
    "under load",
    "p50, ms",
    "p99",
    "refused in a second",
    "p50, ms",
    "p99",
    "no answer",
    "/livez p50, ms",
    "p99",
    "most",
    "missed",
    "idle process p50, ms",
    "p99",
    "MiB before",
    "most",
    "after",
    "back after, s",
)


def cells(figures: Figures) -> list[str]:
    """The cells of a table with HEADINGS."""
    load = figures.load
    values = (
        figures.capacity,
        len(load.answered_ms) / load.seconds,
        *_percentiles(load.answered_ms),
        len(load.refused_ms) / load.seconds,
        *_percentiles(load.refused_ms),
        load.lost,
        *_percentiles(figures.livez_ms),
        max(figures.livez_ms),
        figures.livez_missed,
        *_percentiles(figures.idle_ms),
        figures.before_mib,
        figures.peak_mib,
        figures.after_mib,
        figures.back_s,
    )
    return [f"{value:.1f}" if isinstance(value, float) else str(value) for value in values]


def _percentiles(times: list[float]) -> tuple[float, float]:
    return percentiles(times) if len(times) > 1 else (math.nan, math.nan)


def run(name: str, seconds: float, clients: int = CLIENTS) -> Figures:
    """One overload of an extender of its own."""
    with extender(PLUGINS[name]) as (ports, place):
        calm = crowd.load(place, CALIBRATING, math.inf, CALIBRATION_S)
        capacity = len(calm.answered_ms) / calm.seconds
        port = free_port()
        with crowd.beside(be_idle, port), Watch(ports, place, port).going_on() as watch:
            with (
                crowd.beside(crowd.be_bad, place, clients),
                crowd.beside(crowd.load, place, clients, FACTOR * capacity, seconds) as ended,
            ):
                load = ended()
            back_s = came_back(place, percentiles(calm.answered_ms)[1])
        return Figures(
            capacity,
            load,
            watch.livez_ms,
            watch.missed,
            watch.idle_ms,
            watch.before_mib,
            watch.peak_mib,
            resident(ports),
            back_s,
        )


@contextmanager
def extender(rounds: str) -> Iterator[tuple[Ports, Place]]:
    """An extender with TLS on both ports, whose plugin turns thousands of rounds for each node."""
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        authority = Authority(folder)
        issued = authority.server()
        tls = {"certFile": str(issued.cert), "keyFile": str(issued.key), "clientCAFile": str(authority.file)}
        guests.build("slow", folder)
        plugin = {"name": "slow", "guestURL": "file://./slow.wasm", "guestConfig": rounds}
        sections: dict[str, Any] = {
            "profiles": [{"name": "default", "plugins": [plugin]}],
            "server": {"tls": tls, "adminTLS": tls},
        }
        shown = authority.issue("client", "client")
        with configured(folder, sections, tls=authority.trusting(shown)) as ports:
            yield ports, Place(ports.verbs, authority.file, shown)


def be_idle(port: int) -> None:
    """Answers whoever asks, until the process is ended."""
    uvloop.run(_be_idle(port))


async def _be_idle(port: int) -> None:
    async def answer(reader: crowd.Reader, writer: crowd.Writer) -> None:
        with suppress(EOFError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with await asyncio.start_server(answer, LOOPBACK, port) as server:
        await server.serve_forever()


class Watch:
    """How health is answered during an overload, and the extender's memory meanwhile."""

    def __init__(self, ports: Ports, place: Place, idle_port: int) -> None:
        self._ports = ports
        self._tls = place.tls()
        self._idle_port = idle_port
        self._stopped = threading.Event()
        self.livez_ms: list[float] = []
        self.idle_ms: list[float] = []
        self.missed = 0
        self.before_mib = self.peak_mib = resident(ports)

    @contextmanager
    def going_on(self) -> Iterator[Watch]:
        """Looks until the end of the context, in a thread."""
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            thread.join(CALM_S)

    def _look(self) -> None:
        idle = http.client.HTTPConnection(LOOPBACK, self._idle_port, timeout=CALM_S)
        with closing(client(self._ports.admin, self._tls)) as connection, closing(idle):
            while not self._stopped.wait(PAUSE_S):
                self.missed += not _asked(connection, self.livez_ms)
                _asked(idle, self.idle_ms)
                self.peak_mib = max(self.peak_mib, resident(self._ports))


def _asked(connection: http.client.HTTPConnection, took_ms: list[float]) -> bool:
    """Asks for health once, and notes how long that took. Returns whether there was an answer."""
    begun = time.perf_counter()
    try:
        connection.request("GET", "/livez")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        connection.close()
        return False
    took_ms.append((time.perf_counter() - begun) * 1e3)
    return True


def client(port: int, tls: ssl.SSLContext) -> http.client.HTTPSConnection:
    """A connection, to be made."""
    return http.client.HTTPSConnection(LOOPBACK, port, timeout=CALM_S, context=tls)


def came_back(place: Place, well_ms: float) -> float:
    """Seconds until filter is answered without an error, as quickly as was usual before, several times in a row."""
    begun, in_a_row, requests = time.monotonic(), 0, bodies(crowd.NODES)
    with closing(client(place.port, place.tls())) as connection:
        while in_a_row < WELL_IN_A_ROW and time.monotonic() - begun < CALM_S:
            asked = time.monotonic()
            connection.request("POST", "/filter", next(requests))
            answer = connection.getresponse()
            is_well = b'"Error":""' in answer.read() and (time.monotonic() - asked) * 1e3 <= well_ms
            in_a_row = in_a_row + 1 if is_well else 0
    return time.monotonic() - begun if in_a_row == WELL_IN_A_ROW else math.inf


if __name__ == "__main__":
    main()
