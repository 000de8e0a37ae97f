"""`python -m bench.micro.pods`: what it costs that guests know pods, in a large cluster with GPUs.

Three things, each beside what it is to be compared with in the same run: how soon an extender is ready whose guest
knows all pods, and its memory; filter and prioritize of gpu-pack beside those of headroom, which knows nodes alone;
and the same of gpu-pack while pods change beside those of a quiet cluster. What that costs by the load on the machine
alone, shows the same while as many pods change in another cluster, which another extender follows.

gpu-pack has one guest at first, as headroom has: pods one after the other, each bound before the next. Then it has as
many as it may, and each pod another one, as where no pod is ever bound: none of them is in the processor's caches.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.controlplane.ports import LOOPBACK
from bench.micro.memory import metric, resident
from bench.micro.webhook import ask, machine
from bench.peers import objects
from bench.peers.apiserver import Cluster, api_server
from bench.plugin.cases import UPDATES
from bench.servers import Ports, configured

ROOT: Final = Path(__file__).parents[2]
RUST: Final = ROOT / "sdk-guest" / "rust" / "modules"
GPU_PACK: Final = ROOT / "extender" / "policies" / "gpu_pack.wasm"
HEADROOM: Final = RUST / "headroom.wasm"
GO: Final = ROOT / "tests" / "sdk_guest" / "occupied.go"
"""A guest in standard Go that keeps each node with its pods."""

ALL_INSTANCES: Final = 8
"""Guests that a plugin may have by default."""
ONE: Final = "gpu-pack"
ALL: Final = f"gpu-pack with {ALL_INSTANCES} guests in turn"
GPUS: Final = 8
ELSEWHERE_NODES: Final = 100
ELSEWHERE_PODS: Final = 2_000
"""Pods of the other cluster; the cost of a change does not depend on their number."""
ROUNDS: Final = 12
REQUESTS: Final = 20
"""Pods of a round."""
WARM_UP: Final = 30
SETTLE: Final = 2.0
"""Seconds for changes to begin, or to end."""
IDLE: Final = 0.2
"""The share of a core that an extender takes at most which makes no guests any more, with a look at its metrics."""
IDLE_TIMEOUT_S: Final = 180.0
BUILD_TIMEOUT_S: Final = 600.0
VERBS: Final = ("filter", "prioritize")


def main() -> None:
    """Runs it and prints sentences."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.pods", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of %(default)s")
    parser.add_argument("--without-go", action="store_true", help="leaves out the guest in Go")
    options = parser.parse_args()
    print(f"{machine()}; {options.nodes:,} nodes, {options.pods:,} pods", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kwx-bench-")))
        cluster = stack.enter_context(api_server(options.nodes, options.pods, GPUS))
        if not options.without_go:
            _show_ready("Go", _built(folder), cluster, options.pods)
        _show_ready("Rust, gpu-pack", GPU_PACK, cluster, options.pods)
        _show_verbs(cluster, options.nodes, options.rounds)


def _show_ready(what: str, module: Path, cluster: Cluster, pods: int) -> None:
    begun = time.perf_counter()
    with extender(module, ALL_INSTANCES, cluster) as ports:
        seconds = time.perf_counter() - begun
        assert metric(ports, "kwx_pods") == pods
        for body in itertools.islice(bodies(1), WARM_UP):
            with connected(ports) as connection:
                ask(connection, body)
        memory = resident(ports)
    print(f"{what}: ready after {seconds:.1f} s, with {memory:.0f} MB", flush=True)


def _show_verbs(cluster: Cluster, nodes: int, rounds: int) -> None:
    pods = bodies(nodes)
    with ExitStack() as stack:
        guests = {"headroom": (HEADROOM, 1), ONE: (GPU_PACK, 1), ALL: (GPU_PACK, ALL_INSTANCES)}
        extenders = {name: stack.enter_context(extender(*guest, cluster)) for name, guest in guests.items()}
        connections = {name: stack.enter_context(connected(ports)) for name, ports in extenders.items()}
        for name, connection in connections.items():
            measure(connection, pods, WARM_UP)
            _wait_until_idle(extenders[name])
        beside = [{name: measure(each, pods, REQUESTS) for name, each in connections.items()} for _ in range(rounds)]
    for name in (ONE, ALL):
        _compare(f"{name} beside headroom", [(each[name], each["headroom"]) for each in beside])
    for name, instances in ((ONE, 1), (ALL, ALL_INSTANCES)):
        _show_changes(name, instances, cluster, pods, rounds)


def _show_changes(name: str, instances: int, cluster: Cluster, pods: Iterator[bytes], rounds: int) -> None:
    """Nobody else follows the changes: each who does takes a part of the machine."""
    with ExitStack() as stack:
        ports = stack.enter_context(extender(GPU_PACK, instances, cluster))
        connection = stack.enter_context(connected(ports))
        measure(connection, pods, WARM_UP)
        _wait_until_idle(ports)
        elsewhere = stack.enter_context(api_server(ELSEWHERE_NODES, ELSEWHERE_PODS, GPUS))
        stack.enter_context(extender(GPU_PACK, ALL_INSTANCES, elsewhere))
        changing = {"": cluster, " in another cluster": elsewhere}
        turns: dict[str, list[tuple[Mapping[str, float], Mapping[str, float]]]] = {where: [] for where in changing}
        for _ in range(rounds):
            for where, changed in changing.items():
                quiet = measure(connection, pods, REQUESTS)
                changed.update_pods(UPDATES)
                time.sleep(SETTLE)
                busy = measure(connection, pods, REQUESTS)
                changed.update_pods(0)
                time.sleep(SETTLE)
                turns[where].append((busy, quiet))
    for where, pairs in turns.items():
        _compare(f"{name}, {UPDATES} changes of pods a second{where} beside none", pairs)


def _wait_until_idle(ports: Ports) -> None:
    """Waits until an extender has made the guests that the pods so far have called for. Raises AssertionError."""
    until = time.monotonic() + IDLE_TIMEOUT_S
    while time.monotonic() < until:
        before = metric(ports, "process_cpu_seconds_total")
        time.sleep(1)
        if metric(ports, "process_cpu_seconds_total") - before <= IDLE:
            return
    raise AssertionError(f"the extender is busy after {IDLE_TIMEOUT_S:.0f} s")


def _compare(what: str, pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> None:
    """Prints for each verb both medians, and the median of the ratios of the rounds."""
    for verb in VERBS:
        one, other = (statistics.median(pair[side][verb] for pair in pairs) for side in (0, 1))
        ratio = statistics.median(pair[0][verb] / pair[1][verb] for pair in pairs)
        print(f"{what}: {verb} p50 {one:.2f} and {other:.2f} ms, {ratio:.2f} times", flush=True)


def measure(connection: http.client.HTTPConnection, pods: Iterator[bytes], count: int) -> Mapping[str, float]:
    """The median of each verb in milliseconds, over so many pods."""
    times: dict[str, list[float]] = {verb: [] for verb in VERBS}
    for body in itertools.islice(pods, count):
        for verb in VERBS:
            times[verb].append(ask(connection, body, f"/{verb}"))
    return {verb: statistics.median(each) for verb, each in times.items()}


def bodies(count: int) -> Iterator[bytes]:
    """Requests with names, each about another pod that asks for a GPU."""
    names = json.dumps([objects.node_name(at) for at in range(count)], separators=(",", ":"))
    for at in itertools.count(1_000_000):
        pod = objects.requesting(at, "1", "1Gi", {})
        pod["spec"]["containers"][0]["resources"]["requests"][objects.GPU] = "1"
        yield f'{{"Pod":{json.dumps(pod, separators=(",", ":"))},"Nodes":null,"NodeNames":{names}}}'.encode()


@contextmanager
def extender(module: Path, instances: int, cluster: Cluster) -> Iterator[Ports]:
    """An extender with one plugin that knows the cluster, and at most so many guests of it."""
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        plugin = {
            "name": "guest",
            "guestURL": f"file://{module}",
            "memoryLimit": "1Gi",
            "timeout": "30s",
            "instances": instances,
        }
        sections: dict[str, object] = {
            "cluster": {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(folder))},
            "profiles": [{"name": "default", "scoreRange": 100, "plugins": [plugin]}],
        }
        with configured(folder, sections) as ports:
            yield ports


@contextmanager
def connected(ports: Ports) -> Iterator[http.client.HTTPConnection]:
    """A connection to the verbs."""
    connection = http.client.HTTPConnection(LOOPBACK, ports.verbs, timeout=60)
    try:
        yield connection
    finally:
        connection.close()


def _built(folder: Path) -> Path:
    command: list[str | Path] = [sys.executable, ROOT / "sdk-guest" / "build.py", GO, "--out", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=BUILD_TIMEOUT_S)
    return folder / f"{GO.stem}.wasm"


if __name__ == "__main__":
    main()
