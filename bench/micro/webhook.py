"""`make bench`: filter over one connection, beside a bare ASGI application that does nothing else.

Rounds of both are interleaved, every request has another pod, and what counts is the ratio of medians in
the same run: machines differ, and so do minutes.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import wasmtime

from bench.controlplane.ports import LOOPBACK, free_port
from bench.servers import Ports, configured, running

COUNTS: Final = (100, 500, 5_000)
ROUNDS: Final = 20
REQUESTS: Final = 50
"""Requests of one round of one server."""
WARM_UP: Final = 100

GUESTS: Final = {
    "keeps all, asks nothing": """
        (module (memory (export "memory") 1) (func (export "filter") (result i32) (i32.const 0)))""",
    "keeps all, asks for each node's name": """
        (module
          (import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))
          (memory (export "memory") 1)
          (func (export "filter") (result i32) (drop (call $name (i32.const 0) (i32.const 256))) (i32.const 0)))""",
    "rejects half, with a reason": """
        (module
          (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "odd one out")
          (global $odd (mut i32) (i32.const 0))
          (func (export "filter") (result i32)
            (global.set $odd (i32.eqz (global.get $odd)))
            (call $reason (i32.const 0) (i32.const 11))
            (i32.shl (global.get $odd) (i32.const 1))))""",
}
"""What the plugins of the extender do."""


def main() -> None:
    """Runs it and prints a Markdown table."""
    print(machine())
    print(f"{ROUNDS} interleaved rounds of {REQUESTS} requests, one connection each\n")
    print("| guest | nodes | extender p50, ms | p99 | bare ASGI p50, ms | p99 | ratio of p50 |")
    print("|---|---|---|---|---|---|---|")
    for guest, text in GUESTS.items():
        with ExitStack() as stack:
            ours = stack.enter_context(extender(text))
            peer = stack.enter_context(floor())
            for count in COUNTS:
                times = measure([ours, peer], count)
                (our_p50, our_p99), (peer_p50, peer_p99) = (percentiles(each) for each in times)
                print(
                    f"| {guest} | {count:,} | {our_p50:.3f} | {our_p99:.3f} "
                    f"| {peer_p50:.3f} | {peer_p99:.3f} | {our_p50 / peer_p50:.2f} |",
                    flush=True,
                )


def machine() -> str:
    """A line on the machine and the versions that figures depend on."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("wasmtime", "uvicorn", "msgspec"))
    return f"{platform.machine()}, {os.cpu_count()} cores, CPython {platform.python_version()}, {versions}"


def measure(ports: Sequence[int], count: int, path: str = "/filter") -> list[list[float]]:
    """The milliseconds of each request of each server, in rounds that take turns."""
    connections = [http.client.HTTPConnection(LOOPBACK, port, timeout=30) for port in ports]
    times: list[list[float]] = [[] for _ in ports]
    requests = bodies(count)
    for connection in connections:
        for _ in range(WARM_UP):
            ask(connection, next(requests), path)
    for at in range(ROUNDS * len(ports)):
        turn = at % len(ports)
        times[turn] += [ask(connections[turn], next(requests), path) for _ in range(REQUESTS)]
    for connection in connections:
        connection.close()
    return times


def ask(connection: http.client.HTTPConnection, body: bytes, path: str = "/filter") -> float:
    """Milliseconds from the first byte sent to the last one read."""
    started = time.perf_counter()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    elapsed = (time.perf_counter() - started) * 1e3
    assert answer.status == http.client.OK, content
    return elapsed


def bodies(count: int) -> Iterator[bytes]:
    """Filter requests with names, each about another pod."""
    names = json.dumps([f"worker-{at:05d}.cluster.example" for at in range(count)], separators=(",", ":"))
    at = 0
    while True:
        at += 1
        pod = {
            "metadata": {
                "name": f"pod-{at}",
                "namespace": "default",
                "uid": f"00000000-0000-4000-8000-{at:012d}",
                "resourceVersion": str(at),
                "labels": {"app": "bench"},
            },
            "spec": {
                "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}],
                "schedulerName": "default-scheduler",
            },
        }
        yield f'{{"Pod":{json.dumps(pod, separators=(",", ":"))},"Nodes":null,"NodeNames":{names}}}'.encode()


def percentiles(times: Sequence[float]) -> tuple[float, float]:
    """The p50 and the p99 of times, in their unit; at least two times are needed."""
    cuts = statistics.quantiles(times, n=100)
    return cuts[49], cuts[98]


@contextmanager
def extender(guest: str) -> Iterator[int]:
    """The port of an extender with one plugin."""
    plugin = {"name": "guest", "guestURL": "file://./guest.wasm"}
    with serving({"guest": guest}, [{"name": "default", "plugins": [plugin]}]) as ports:
        yield ports.verbs


@contextmanager
def serving(guests: Mapping[str, str], profiles: Sequence[Mapping[str, object]]) -> Iterator[Ports]:
    """An extender with profiles of plugins; `guests` are the texts of their modules by the file's name."""
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        for guest, text in guests.items():
            (folder / f"{guest}.wasm").write_bytes(wasmtime.wat2wasm(text))
        with configured(folder, {"profiles": list(profiles)}) as ports:
            yield ports


@contextmanager
def floor() -> Iterator[int]:
    """The port of the bare application, served as the extender is."""
    port = free_port()
    options = ["--http", "httptools", "--loop", "uvloop", "--lifespan", "off", "--interface", "asgi3"]
    options += ["--no-access-log", "--no-server-header", "--no-date-header", "--log-level", "warning"]
    command = [sys.executable, "-m", "uvicorn", "bench.micro.floor:app", "--host", LOOPBACK, "--port", str(port)]
    with running([*command, *options], port):
        yield port


if __name__ == "__main__":
    main()
