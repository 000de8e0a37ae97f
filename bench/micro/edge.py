"""`python -m bench.micro.edge`: what clients that do no good cost the others, and the extender.

Each attack is made by a process of its own, on an extender of its own that may open 256 descriptors. Meanwhile two
clients go on, over connections that they keep: one asks filter, one `/livez`. Afterwards it is measured how long others
take to be answered. `--output json` prints the same as JSON.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psutil
import wasmtime

from bench.controlplane.ports import LOOPBACK
from bench.micro.crowd import child
from bench.micro.webhook import ask, bodies, machine, percentiles
from bench.servers import Ports, configure, running

MEBIBYTE: Final = 1024 * 1024
DESCRIPTORS: Final = 256
"""File descriptors that the extender may open."""
NODES: Final = 100
PAUSE: Final = 0.002
"""Seconds between two questions of those who go on."""
PATIENCE: Final = 120.0
"""Seconds in which whoever was kept out has to come back."""
GUEST: Final = '(module (memory (export "memory") 1) (func (export "filter") (result i32) (i32.const 0)))'
PIECE: Final = b"x" * MEBIBYTE
GET: Final = b"GET / HTTP/1.1\r\n\r\n"
SETTLE: Final = 2.0
"""Seconds after which memory is looked at: the extender has heard by then of whatever has ended."""


class Attack(NamedTuple):
    """What a process does to an extender until it is killed."""

    begin: Callable[[Ports], object]
    """Returns when all is in place, with what has to be kept."""
    seconds: float
    """Seconds for which the other clients are watched meanwhile."""


def half(size: int) -> bytes:
    """The beginning of a request whose body would be so long."""
    return b"POST /filter HTTP/1.1\r\nHost: extender\r\nContent-Length: %d\r\n\r\n" % size


def connect(port: int) -> socket.socket:
    """A connection; one that cannot be had at once is waited for."""
    return socket.create_connection((LOOPBACK, port), timeout=30)


def _send(connection: socket.socket, data: bytes) -> None:
    """Sends what the other side takes."""
    with suppress(OSError):
        connection.sendall(data)


def quiet(_: Ports) -> object:
    """Does nothing."""
    return None


def aborted(ports: Ports) -> object:
    """Thirty bodies of 50 MiB, each given up before its end."""
    for _ in range(30):
        with connect(ports.verbs) as connection:
            _send(connection, half(60 * MEBIBYTE) + PIECE * 50)
    return None


def unfinished(ports: Ports) -> object:
    """Eight bodies of 60 MB that do not come to their end."""
    connections = [connect(ports.verbs) for _ in range(8)]
    for connection in connections:
        _send(connection, half(60_000_000))
    for _ in range(59):
        for connection in connections:
            _send(connection, PIECE[:1_000_000])
    return connections


def pipelining(ports: Ports) -> object:
    """Three clients that ask without a pause, and take what they are answered."""

    def ask_on() -> None:
        with suppress(OSError), connect(ports.verbs) as connection:
            threading.Thread(target=_drain, args=(connection,), daemon=True).start()
            while True:
                connection.sendall(GET * 4_000)

    for _ in range(3):
        threading.Thread(target=ask_on, daemon=True).start()
    return None


def _drain(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(MEBIBYTE):
            pass


def headers(ports: Ports) -> object:
    """60 MiB of small headers for the admin address."""
    connection = connect(ports.admin)
    _send(connection, b"GET /livez HTTP/1.1\r\n" + b"a: b\r\n" * (10 * MEBIBYTE))
    return connection


def crowd(ports: Ports) -> object:
    """2,000 connections to each port that are silent, or are so after half a request."""
    connections = []
    for at in range(4_000):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex((LOOPBACK, ports.verbs if at % 2 else ports.admin))
        connections.append(connection)
    for connection in connections[::4] + connections[1::4]:
        with suppress(OSError):
            connection.send(half(1_000) + b"x")
    return connections


ATTACKS: Final = {
    "none": Attack(quiet, 3),
    "30 aborted bodies of 50 MiB": Attack(aborted, 3),
    "8 unfinished bodies of 60 MB": Attack(unfinished, 5),
    "3 pipelining clients": Attack(pipelining, 5),
    "60 MiB of headers, admin": Attack(headers, 3),
    "2,000 idle and half connections, each port": Attack(crowd, 5),
}


def main() -> None:
    """Runs it and prints a Markdown table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.edge", description=__doc__)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--only", choices=list(ATTACKS), help="this attack alone")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard := resource.getrlimit(resource.RLIMIT_NOFILE)[1], hard))
    rows = {name: run(attack) for name, attack in ATTACKS.items() if options.only in {None, name}}
    if options.output == "json":
        print(json.dumps({"machine": machine(), "attacks": rows}, indent=2))
        return
    print(machine())
    print(f"\n| attack | {' | '.join(next(iter(rows.values())))} |")
    print(f"|---|{'---|' * len(next(iter(rows.values())))}")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(f'{value:.1f}' for value in row.values())} |")


def run(attack: Attack) -> dict[str, float]:
    """The figures of one attack: memory afterwards and at most, and how the other clients were answered."""
    with extender() as ports:
        watch = Watch(ports)
        with watch.going_on():
            time.sleep(SETTLE)
            before = watch.begin()
            with child(PATIENCE, _attack, attack, ports):
                back = max(came_back(ports.verbs, "/"), came_back(ports.admin, "/livez"))
                time.sleep(attack.seconds)
            time.sleep(SETTLE)
        after = resident(ports)
    return {
        "rss_mib": after - before,
        "peak_mib": watch.peak - before,
        "filter_p50_ms": percentiles(watch.filter_ms)[0],
        "filter_p99_ms": percentiles(watch.filter_ms)[1],
        "filter_most_ms": max(watch.filter_ms),
        "livez_p50_ms": percentiles(watch.livez_ms)[0],
        "livez_most_ms": max(watch.livez_ms),
        "missed": watch.missed,
        "back_s": back,
    }


@contextmanager
def extender() -> Iterator[Ports]:
    """An extender with one plugin that may open no more than DESCRIPTORS."""
    plugin = {"name": "guest", "guestURL": "file://./guest.wasm"}
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        (folder / "guest.wasm").write_bytes(wasmtime.wat2wasm(GUEST))
        command, verbs, admin = configure(folder, {"profiles": [{"name": "default", "plugins": [plugin]}]})
        limited = ["/bin/sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", *command]
        with running(limited, verbs) as process:
            yield Ports(verbs, admin, process)


def resident(ports: Ports) -> float:
    """The extender's memory, in MiB."""
    return float(psutil.Process(ports.process).memory_info().rss / MEBIBYTE)


def _attack(parent: Connection, attack: Attack, ports: Ports) -> None:
    """Attacks, once everything is in place, until the process is ended."""
    kept = attack.begin(ports)
    parent.send("ready")
    parent.poll(None)
    del kept


def came_back(port: int, path: str) -> float:
    """Seconds until a client that was not there before is answered."""
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        with suppress(OSError, http.client.HTTPException), closing(_client(port, timeout=5)) as client:
            client.request("GET", path)
            if client.getresponse().status != http.client.SERVICE_UNAVAILABLE:
                return time.monotonic() - begun
        time.sleep(0.1)
    return math.inf


def _client(port: int, timeout: float = 60) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(LOOPBACK, port, timeout=timeout)


class Watch:
    """Two clients that go on during an attack, how they are answered, and the extender's memory meanwhile."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._stopped = threading.Event()
        self.begin()

    def begin(self) -> float:
        """Forgets what was until now. Returns the memory, in MiB."""
        self.filter_ms: list[float] = []
        self.livez_ms: list[float] = []
        self.missed = 0
        self.peak = resident(self._ports)
        return self.peak

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Asks, each client in a thread."""
        threads = [threading.Thread(target=work) for work in (self._filter, self._livez, self._look)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join(PATIENCE)

    def _filter(self) -> None:
        requests = bodies(NODES)
        with closing(_client(self._ports.verbs)) as client:
            while not self._stopped.wait(PAUSE):
                self.filter_ms.append(ask(client, next(requests)))

    def _livez(self) -> None:
        """Over a connection that is kept; `came_back` is of one that is new."""
        with closing(_client(self._ports.admin)) as client:
            while not self._stopped.wait(PAUSE):
                begun = time.perf_counter()
                try:
                    client.request("GET", "/livez")
                    client.getresponse().read()
                except (OSError, http.client.HTTPException):
                    self.missed += 1
                    client.close()
                else:
                    self.livez_ms.append((time.perf_counter() - begun) * 1e3)

    def _look(self) -> None:
        while not self._stopped.wait(PAUSE):
            self.peak = max(self.peak, resident(self._ports))


if __name__ == "__main__":
    main()
