"""`python -m bench.micro.limits`: how late a guest is interrupted, and what health feels of guests that do no good.

A guest that spins is to be answered for within its timeout and 10 ms, and `/livez` within 20 ms whatever guests do.
Health is measured in turns with nothing going on and with the guest asked again and again. `--output json` prints the
same as JSON.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

from bench.controlplane.ports import LOOPBACK
from bench.micro.webhook import ask, bodies, machine, percentiles, serving
from bench.servers import Ports
from tests.extender import guests
from tests.patience import Beside

TIMEOUTS: Final = {50: 300, 500: 200}
"""Milliseconds that a guest may take, and how many requests are measured."""
WARM_UP: Final = 10
NODES: Final = 100
TURNS: Final = 2
TURN: Final = 4.0
"""Seconds of one turn of a guest, and of the quiet before it."""
PAUSE: Final = 0.002
"""Seconds between two looks at health."""

BAD: Final = {
    "spin": "spins",
    "recurse": "recurses",
    "grow_memory": "grows its memory",
    "grow_memory_and_trap": "grows its memory, then traps",
    "grow_table": "grows its table",
    "log": "logs",
    "record": "records Events",
    "print": "prints",
    "ask": "asks for documents",
    "ask_in_python": "asks what Python answers",
    "trap": "traps",
    "exit": "exits",
}
"""Guests, and what they do for ever or wherever they are called."""


def main() -> None:
    """Runs it and prints Markdown tables, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.limits", description=__doc__)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    output = parser.parse_args().output
    before = os.getloadavg()[0]
    with serving({name: guests.text(name) for name in BAD}, _profiles()) as ports:
        late = {timeout: lateness(ports, timeout, count) for timeout, count in TIMEOUTS.items()}
        health = {name: livez(ports, name) for name in BAD}
    result = {"machine": machine(), "load": [before, os.getloadavg()[0]], "late_ms": late, "livez_ms": health}
    print(json.dumps(result, indent=2) if output == "json" else _tables(result))


def lateness(ports: Ports, timeout: int, count: int) -> dict[str, float]:
    """Milliseconds beyond its timeout after which a guest that spins is answered for."""
    requests = bodies(NODES)
    with closing(http.client.HTTPConnection(LOOPBACK, ports.verbs, timeout=30)) as connection:
        for _ in range(WARM_UP):
            ask(connection, next(requests), f"/profiles/spin-{timeout}/filter")
        return _summary(
            [ask(connection, next(requests), f"/profiles/spin-{timeout}/filter") - timeout for _ in range(count)]
        )


def livez(ports: Ports, guest: str) -> dict[str, dict[str, float]]:
    """Milliseconds of `/livez` with nothing going on, and while a guest is asked again and again."""
    times: dict[str, list[float]] = {"quiet": [], "loaded": []}
    with closing(http.client.HTTPConnection(LOOPBACK, ports.admin, timeout=30)) as connection:
        for _ in range(TURNS):
            times["quiet"] += _poll(connection)
            with _asking(ports, f"/profiles/{guest}/filter"):
                times["loaded"] += _poll(connection)
    return {name: _summary(each) for name, each in times.items()}


def _poll(connection: http.client.HTTPConnection) -> list[float]:
    times = []
    end = time.monotonic() + TURN
    while time.monotonic() < end:
        started = time.perf_counter()
        connection.request("GET", "/livez")
        content = connection.getresponse().read()
        times.append((time.perf_counter() - started) * 1e3)
        assert content == b"ok", content
        time.sleep(PAUSE)
    return times


@contextmanager
def _asking(ports: Ports, path: str) -> Iterator[None]:
    """Asks a verb again and again in a thread."""
    stopped = threading.Event()

    def work() -> None:
        requests = bodies(NODES)
        with closing(http.client.HTTPConnection(LOOPBACK, ports.verbs, timeout=30)) as connection:
            while not stopped.is_set():
                ask(connection, next(requests), path)

    asking = Beside(work)
    try:
        yield
    finally:
        stopped.set()
        asking.end()


def _summary(times: list[float]) -> dict[str, float]:
    p50, p99 = percentiles(times)
    return {"p50": round(p50, 2), "p99": round(p99, 2), "max": round(max(times), 2), "count": len(times)}


def _profiles() -> list[dict[str, Any]]:
    spinning = [_profile(f"spin-{timeout}", "spin", f"{timeout}ms") for timeout in TIMEOUTS]
    return [*spinning, *(_profile(name, name, "50ms") for name in BAD)]


def _profile(name: str, guest: str, timeout: str) -> dict[str, Any]:
    plugin = {"name": guest, "guestURL": f"file://./{guest}.wasm", "timeout": timeout, "memoryLimit": "64Mi"}
    return {"name": name, "plugins": [plugin]}


def _tables(result: Mapping[str, Any]) -> str:
    before, after = result["load"]
    lines = [f"{result['machine']}; load {before:.1f} before, {after:.1f} after", ""]
    lines += ["| timeout, ms | requests | late p50, ms | p99 | max |", "|---|---|---|---|---|"]
    lines += [f"| {timeout} | {each['count']} | {_cells(each)} |" for timeout, each in result["late_ms"].items()]
    lines += [
        "",
        "| guest that | /livez p50, ms | p99 | max | quiet p50, ms | p99 | max |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {BAD[name]} | {_cells(each['loaded'])} | {_cells(each['quiet'])} |"
        for name, each in result["livez_ms"].items()
    ]
    return "\n".join(lines)


def _cells(summary: Mapping[str, float]) -> str:
    return " | ".join(f"{summary[name]:.2f}" for name in ("p50", "p99", "max"))


if __name__ == "__main__":
    main()
