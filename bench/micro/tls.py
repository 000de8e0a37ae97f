"""`python -m bench.micro.tls`: what TLS with client certificates costs on a kept connection.

Two extenders run the same plugin, one with plain HTTP and one with TLS 1.3 and a client certificate. First a client of
Go's net/http, which is kube-scheduler's, asks filter on one connection to each, in rounds that take turns; the time
includes the client's own part of TLS. It asks two servers of net/http as well, which read as many bytes and answer the
same, and do nothing else. Then a connection to the extender with TLS goes on while another process makes new ones to
it: some in a second, or 50 at a time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import ssl
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psutil
import wasmtime

from bench.controlplane.ports import LOOPBACK, free_port
from bench.micro.webhook import GUESTS, WARM_UP, ask, bodies, machine, percentiles
from bench.peers.gopeer import build_roundtrip
from bench.servers import Ports, configured, running
from tests.certificates import Authority, Issued

COUNTS: Final = (100, 500, 5_000)
ROUNDS: Final = 20
REQUESTS: Final = 50
"""Requests of one round of one server."""
NODES: Final = 100
PAUSE_S: Final = 0.002
"""Seconds between two requests of the client that is measured while others connect."""
SECONDS: Final = 8.0
BURST: Final = 50
HOUR_S: Final = 3600.0


ASK_TIMEOUT_S: Final = 600.0
"""Seconds for all rounds of one size."""


class Side(NamedTuple):
    """A server, and how it is asked."""

    port: int
    tls: ssl.SSLContext | None
    process: int = 0
    """The id of the server's process; 0 if its CPU time is not measured."""

    @property
    def url(self) -> str:
        """The URL of filter."""
        return f"{'https' if self.tls else 'http'}://{LOOPBACK}:{self.port}/filter"

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the server, in all threads."""
        times = psutil.Process(self.process).cpu_times()
        return float(times.user + times.system)

    def connect(self) -> http.client.HTTPConnection:
        """A new connection."""
        if self.tls is None:
            return http.client.HTTPConnection(LOOPBACK, self.port, timeout=30)
        return http.client.HTTPSConnection(LOOPBACK, self.port, timeout=30, context=self.tls)


class Asked(NamedTuple):
    """The figures of one server."""

    rounds: list[list[float]]
    """Milliseconds of each request, by round."""
    client_cpu_ms: float
    server_cpu_ms: float
    """CPU milliseconds of the server per request."""


def main() -> None:
    """Runs it and prints two Markdown tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.tls", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each kind of handshakes; 0: none")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kwx-bench-")))
        authority = Authority(folder)
        issued, shown = authority.server(), authority.issue("client", "client")
        plain = stack.enter_context(extender(folder / "plain", {}))
        files = {"certFile": str(issued.cert), "keyFile": str(issued.key), "clientCAFile": str(authority.file)}
        tls = stack.enter_context(extender(folder / "tls", {"tls": files}))
        sides = [Side(plain.verbs, None, plain.process), Side(tls.verbs, authority.trusting(shown), tls.process)]
        print(f"{machine()}, {ssl.OPENSSL_VERSION}\n")
        print(f"One connection each, {options.rounds} rounds of {REQUESTS} requests that take turns\n")
        print(
            "| server | nodes | plain p50, ms | p99 | TLS p50, ms | p99 | more in the median of rounds, ms"
            " | more CPU of the client, ms | of the server |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for count in options.nodes:
            body, answer = exchange(sides[0], count, folder)
            with peers(answer, issued, authority.file, sides[1].tls) as others:
                found = measure([*sides, *others], body, shown, authority.file, options.rounds)
            for name, pair in (("extender", found[:2]), ("net/http alone", found[2:])):
                print(row(name, count, *pair), flush=True)
        if options.seconds:
            print("\n| handshakes of others | done in a second | filter p50, ms | p99 | most |")
            print("|---|---|---|---|---|")
            for name, comers in COMERS.items():
                print(disturbed(name, comers, sides[1], authority.file, shown, options.seconds), flush=True)


@contextmanager
def extender(folder: Path, server: dict[str, object]) -> Iterator[Ports]:
    """An extender with one plugin, and more keys of the server."""
    folder.mkdir()
    (folder / "guest.wasm").write_bytes(wasmtime.wat2wasm(GUESTS["keeps all, asks nothing"]))
    profiles = [{"name": "default", "plugins": [{"name": "guest", "guestURL": "file://./guest.wasm"}]}]
    with configured(folder, {"profiles": profiles, "server": server}) as ports:
        yield ports


def exchange(side: Side, count: int, folder: Path) -> tuple[Path, Path]:
    """The files of a request about so many nodes, and of its answer."""
    body, answer = folder / "body", folder / "answer"
    body.write_bytes(next(bodies(count)))
    connection = side.connect()
    connection.request("POST", "/filter", body.read_bytes(), {"Content-Type": "application/json"})
    answer.write_bytes(connection.getresponse().read())
    connection.close()
    return body, answer


@contextmanager
def peers(answer: Path, issued: Issued, ca: Path, tls: ssl.SSLContext | None) -> Iterator[list[Side]]:
    """The servers of net/http, the second one with TLS."""
    certificates: list[str | Path] = ["-cert", issued.cert, "-key", issued.key, "-ca", ca]
    with ExitStack() as stack:
        sides = []
        for context, more in ((None, []), (tls, certificates)):
            port = free_port()
            command: list[str | Path] = [
                build_roundtrip(),
                "serve",
                "-listen",
                f"{LOOPBACK}:{port}",
                "-answer",
                answer,
                *more,
            ]
            sides.append(Side(port, context, stack.enter_context(running(command, port))))
        yield sides


def measure(sides: Sequence[Side], body: Path, shown: Issued, ca: Path, rounds: int) -> list[Asked]:
    """How each has answered, asked by a client of net/http."""
    counts = ["-rounds", str(rounds), "-requests", str(REQUESTS)]
    tls: list[str | Path] = ["-cert", shown.cert, "-key", shown.key, "-ca", ca]
    command: list[str | Path] = [build_roundtrip(), "ask", "-body", body, *counts, *tls, *(side.url for side in sides)]
    before = [side.cpu_s for side in sides]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=ASK_TIMEOUT_S)
    spent = [(side.cpu_s - began) * 1e3 / ((rounds + 1) * REQUESTS) for side, began in zip(sides, before, strict=True)]
    told = json.loads(ran.stdout)
    return [Asked(each["rounds"], each["cpu"], cpu) for each, cpu in zip(told, spent, strict=True)]


def row(name: str, count: int, plain: Asked, tls: Asked) -> str:
    """Percentiles of all requests, the median of what the rounds' medians differ by, and what the CPU times differ by.

    The last two hardly depend on what else runs on the machine.
    """
    figures = [each for side in (plain, tls) for each in percentiles([one for part in side.rounds for one in part])]
    more = statistics.median(
        statistics.median(with_tls) - statistics.median(without)
        for without, with_tls in zip(plain.rounds, tls.rounds, strict=True)
    )
    cpu = (tls.client_cpu_ms - plain.client_cpu_ms, tls.server_cpu_ms - plain.server_cpu_ms)
    return f"| {name} | {count:,} | {' | '.join(f'{each:.3f}' for each in (*figures, more, *cpu))} |"


Counter = Callable[[], None]
Comers = Callable[[Side, Counter], None]


def nobody(_: Side, __: Counter) -> None:
    """Makes no connection."""
    threading.Event().wait(HOUR_S)


def steady(side: Side, done: Counter) -> None:
    """A new connection every 20 ms."""
    while True:
        time.sleep(0.02)
        come(side, done)


def bursts(side: Side, done: Counter) -> None:
    """Many at the same moment, twice a second."""
    while True:
        time.sleep(0.5)
        coming = [threading.Thread(target=come, args=(side, done)) for _ in range(BURST)]
        for each in coming:
            each.start()
        for each in coming:
            each.join(30)


def restless(side: Side, done: Counter) -> None:
    """One after the other, without a pause."""
    while True:
        come(side, done)


def come(side: Side, done: Counter) -> None:
    """Makes one connection, and ends it after its handshake."""
    connection = side.connect()
    with suppress(OSError):
        connection.connect()
        done()
    connection.close()


COMERS: Final[dict[str, Comers]] = {
    "none": nobody,
    "one every 20 ms": steady,
    "one after the other": restless,
    f"{BURST} at once, twice a second": bursts,
}


def disturbed(name: str, comers: Comers, side: Side, ca: Path, shown: Issued, seconds: float) -> str:
    """How the client that goes on is answered while others come."""
    connection, requests, times = side.connect(), bodies(NODES), []
    context = multiprocessing.get_context("spawn")
    count = context.Value("i", 0)
    process = context.Process(target=_come_on, args=(comers, side.port, ca, shown, count), daemon=True)
    for _ in range(WARM_UP):
        ask(connection, next(requests))
    process.start()
    time.sleep(1.0)  # Until it has imported what it needs.
    before, began = count.value, time.perf_counter()
    while time.perf_counter() - began < seconds:
        times.append(ask(connection, next(requests)))
        time.sleep(PAUSE_S)
    rate = (count.value - before) / (time.perf_counter() - began)
    process.kill()
    process.join(30)
    connection.close()
    p50, p99 = percentiles(times)
    return f"| {name} | {rate:.0f} | {p50:.3f} | {p99:.3f} | {max(times):.3f} |"


def _come_on(comers: Comers, port: int, ca: Path, shown: Issued, count: object) -> None:
    """In a process of its own, so that it takes no time of the one who asks."""
    tls = ssl.create_default_context(cafile=str(ca))
    tls.load_cert_chain(shown.cert, shown.key)

    def done() -> None:
        with count.get_lock():  # type: ignore[attr-defined]
            count.value += 1  # type: ignore[attr-defined]

    comers(Side(port, tls), done)


if __name__ == "__main__":
    main()
