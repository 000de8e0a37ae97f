"""`python -m bench.micro.pods`: what it costs that guests know pods, in a large cluster with GPUs.

Three things, each beside what it is to be compared with in the same run: how soon an extender is ready whose guest
knows all pods, and its memory; filter and prioritize of gpu-pack beside those of headroom, which knows nodes alone;
and the same of gpu-pack while pods change beside those of a quiet cluster.
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

GPUS: Final = 8
ROUNDS: Final = 12
REQUESTS: Final = 20
"""Pods of a round."""
WARM_UP: Final = 30
SETTLE: Final = 2.0
"""Seconds for changes to begin, or to end."""
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
    with extender(module, cluster) as ports:
        seconds = time.perf_counter() - begun
        assert metric(ports, "kwx_pods") == pods
        for body in itertools.islice(bodies(1), WARM_UP):
            with connected(ports) as connection:
                ask(connection, body)
        memory = resident(ports)
    print(f"{what}: ready after {seconds:.1f} s, with {memory:.0f} MB", flush=True)


def _show_verbs(cluster: Cluster, nodes: int, rounds: int) -> None:
    with ExitStack() as stack:
        guests = {"headroom": HEADROOM, "gpu-pack": GPU_PACK}
        connections = {
            name: stack.enter_context(connected(stack.enter_context(extender(module, cluster))))
            for name, module in guests.items()
        }
        pods = bodies(nodes)
        for connection in connections.values():
            measure(connection, pods, WARM_UP)
        beside = [{name: measure(each, pods, REQUESTS) for name, each in connections.items()} for _ in range(rounds)]
        _compare("gpu-pack beside headroom", [(each["gpu-pack"], each["headroom"]) for each in beside])
        turns = []
        for _ in range(rounds):
            quiet = measure(connections["gpu-pack"], pods, REQUESTS)
            cluster.update_pods(UPDATES)
            time.sleep(SETTLE)
            busy = measure(connections["gpu-pack"], pods, REQUESTS)
            cluster.update_pods(0)
            time.sleep(SETTLE)
            turns.append((busy, quiet))
        _compare(f"gpu-pack with {UPDATES} changes of pods a second beside none", turns)


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
def extender(module: Path, cluster: Cluster) -> Iterator[Ports]:
    """An extender with one plugin that knows the cluster."""
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        plugin = {"name": "guest", "guestURL": f"file://{module}", "memoryLimit": "1Gi", "timeout": "30s"}
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
