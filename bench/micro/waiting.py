"""`python -m bench.micro.waiting`: what pods that wait on Permit cost the others.

Two extenders with the same plugins know the same cluster, and filter answers the best node. In one of them pods wait,
as the members of gangs do that are not complete. Each filter changes what the plugin knows that lets them wait, so it
is asked about all of them again and again. What counts is filter beside that of the other extender in the same run, and
how much memory and how many threads the waits take.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psutil
import wasmtime

from bench.controlplane.ports import LOOPBACK
from bench.micro.memory import resident
from bench.micro.pods import HEADROOM, connected
from bench.micro.webhook import ask, machine
from bench.peers import objects
from bench.peers.apiserver import Cluster, api_server
from bench.servers import Ports, configured, get

WAITS: Final = """
    (module
      (memory (export "memory") 64)
      (func (export "nodechanged") (param i32))
      (func (export "noderemoved") (param i32))
      (func (export "podbuffer") (param i32) (result i32) (i32.const 4096))
      (func (export "podschanged") (param i32))
      (func (export "prefilter") (result i32) (i32.const 0))
      (func (export "permit") (result i64) (i64.or (i64.shl (i64.const 4) (i64.const 32)) (i64.const 600000))))"""
"""Has each pod that is bound wait, and is asked again when pods have changed: it is told of them."""

ROUNDS: Final = 16
REQUESTS: Final = 40
"""Pods of a round."""
WARM_UP: Final = 100
PAUSE_S: Final = 0.02
"""Seconds between two filters, as between two pods of a scheduler."""
BIND_PAUSE_S: Final = 0.01
"""Seconds between two binds, so that they come one after the other, as those of a scheduler do."""
CHANGES: Final = 50
"""Changes of pods a second in the second comparison."""
SETTLE_S: Final = 2.0
"""Seconds for changes to begin or to end, and for memory to be given back."""
START_TIMEOUT_S: Final = 60.0
"""Seconds within which all pods must wait."""


class Side(NamedTuple):
    """One of the two extenders."""

    ports: Ports
    connection: HTTPConnection

    @property
    def threads(self) -> int:
        """The number of threads of the extender."""
        return psutil.Process(self.ports.process).num_threads()


def main() -> None:
    """Runs it and prints sentences."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.waiting", description=__doc__)
    parser.add_argument("--waiting", type=int, default=1_000, help="pods that wait (%(default)s)")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of %(default)s")
    options = parser.parse_args()
    print(f"{machine()}; {options.nodes:,} nodes, {options.pods:,} pods", flush=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(api_server(options.nodes, options.pods))
        with_waits, without = sides = [_side(cluster, stack) for _ in range(2)]
        requests = bodies(options.nodes)
        names = [f"{name}" for name in range(options.waiting)]
        chosen = [[_filter(side, next(requests)) for _ in range(WARM_UP + len(names))][WARM_UP:] for side in sides]
        time.sleep(SETTLE_S)
        before = [(resident(side.ports), side.threads) for side in sides]
        stack.enter_context(binding(with_waits.ports, chosen[0]))
        await_waits(with_waits.ports, len(names))
        _compare(f"filter beside {len(names):,} pods that wait", sides, requests, options.rounds)
        cluster.update_pods(CHANGES)
        time.sleep(SETTLE_S)
        _compare(f"the same with {CHANGES} changes of pods a second", sides, requests, options.rounds)
        cluster.update_pods(0)
        time.sleep(SETTLE_S)
        grown = [resident(side.ports) - memory for side, (memory, _) in zip(sides, before, strict=True)]
        await_waits(with_waits.ports, len(names))
        print(f"memory: {grown[0]:.0f} MB more than before, and {grown[1]:.0f} MB without pods that wait", flush=True)
        print(f"threads: {with_waits.threads}, and {without.threads} without pods that wait", flush=True)


def _side(cluster: Cluster, stack: ExitStack) -> Side:
    ports = stack.enter_context(_extender(cluster))
    return Side(ports, stack.enter_context(connected(ports)))


@contextmanager
def _extender(cluster: Cluster) -> Iterator[Ports]:
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        (folder / "waits.wasm").write_bytes(wasmtime.wat2wasm(WAITS))
        plugins = [
            {"name": "headroom", "guestURL": f"file://{HEADROOM}"},
            {"name": "waits", "guestURL": "file://./waits.wasm"},
        ]
        sections: dict[str, object] = {
            "cluster": {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(folder))},
            "profiles": [{"name": "default", "scoreRange": 100, "topNodes": 1, "plugins": plugins}],
            "server": {"bindTimeout": "30m"},
        }
        with configured(folder, sections) as ports:
            yield ports


def _compare(what: str, sides: Sequence[Side], requests: Iterator[bytes], rounds: int) -> None:
    """Prints both medians, and the median of the ratios of the rounds."""
    times: list[list[float]] = [[], []]
    for at in range(rounds):
        for side in (0, 1) if at % 2 else (1, 0):
            times[side].append(statistics.median(_round(sides[side], requests)))
    ratio = statistics.median(one / other for one, other in zip(*times, strict=True))
    one, other = map(statistics.median, times)
    print(f"{what}: p50 {one:.2f} and {other:.2f} ms, {ratio:.2f} times", flush=True)


def _round(side: Side, requests: Iterator[bytes]) -> Iterator[float]:
    for body in itertools.islice(requests, REQUESTS):
        yield ask(side.connection, body)
        time.sleep(PAUSE_S)


def _filter(side: Side, body: bytes) -> bytes:
    """The request that binds a pod to the node that filter answers."""
    side.connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
    (node,) = json.loads(side.connection.getresponse().read())["NodeNames"]
    pod = json.loads(body)["Pod"]["metadata"]
    names = {"PodName": pod["name"], "PodNamespace": pod["namespace"], "PodUID": pod["uid"]}
    return json.dumps({**names, "Node": node}).encode()


def bodies(count: int) -> Iterator[bytes]:
    """Requests with names, each about another pod."""
    names = json.dumps([objects.node_name(at) for at in range(count)], separators=(",", ":"))
    for at in itertools.count(1_000_000):
        pod = json.dumps(objects.requesting(at, "10m", "16Mi", {}), separators=(",", ":"))
        yield f'{{"Pod":{pod},"Nodes":null,"NodeNames":{names}}}'.encode()


@contextmanager
def binding(ports: Ports, requests: Sequence[bytes]) -> Iterator[None]:
    """Asks for binds, each over a connection of its own, whose answers nobody waits for."""
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(_bind_all(ports, requests, ended)), name="binds")
    thread.start()
    try:
        yield
    finally:
        with suppress(RuntimeError):  # It has ended: a connection was refused.
            loop.call_soon_threadsafe(ended.set)
        thread.join(START_TIMEOUT_S)
        loop.close()


async def _bind_all(ports: Ports, requests: Sequence[bytes], ended: asyncio.Event) -> None:
    writers = []
    for body in requests:
        _, writer = await asyncio.open_connection(LOOPBACK, ports.verbs)
        head = f"POST /bind HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.writelines([head.encode(), body])
        writers.append(writer)
        await asyncio.sleep(BIND_PAUSE_S)
    await ended.wait()
    for writer in writers:
        writer.close()


def await_waits(ports: Ports, count: int) -> None:
    """Returns when so many pods wait."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (found := len(json.loads(get(ports.admin, "/api/v1/waits")[1]))) != count:
        assert time.monotonic() < deadline, f"{found} pods wait, not {count}"
        time.sleep(0.1)


if __name__ == "__main__":
    main()
