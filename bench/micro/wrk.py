"""`python -m bench.micro.wrk`: both verbs on one connection that is asked without a pause, beside the extender in Go.

wrk asks (`apt-get install wrk`), by names, about ten pods in turn, which costs less than any client in Python would.
The extender in Go has the policy headroom. Ours has the same, as a guest that keeps nodes, and then one that judges the
names node by node and rejects a tenth of them with a reason. Rounds take turns, and what counts is the median of the
quotients of each pair.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import wasmtime

from bench.cli import HEADROOM
from bench.controlplane.ports import LOOPBACK
from bench.micro.webhook import machine
from bench.peers import objects
from bench.peers.apiserver import Cluster, api_server
from bench.peers.gopeer import go_extender
from bench.plugin.workload import pod
from bench.servers import configured

COUNTS: Final = (100, 500, 5_000)
PODS: Final = 10
VERBS: Final = ("filter", "prioritize")
ROUNDS: Final = 8
SECONDS: Final = 2
"""Seconds of a server in a round; wrk takes whole seconds."""
ROOT: Final = Path(__file__).parents[2]

BY_NAME: Final = """
    (module
      (import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))
      (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
      (memory (export "memory") 1)
      (data (i32.const 256) "the number ends with 0")
      (func $digit (result i32)
        (drop (call $name (i32.const 0) (i32.const 256)))
        (i32.sub (i32.load8_u (i32.const 11)) (i32.const 48)))
      (func (export "filter") (result i32)
        (if (call $digit) (then (return (i32.const 0))))
        (call $reason (i32.const 256) (i32.const 22))
        (i32.const 2))
      (func (export "score") (result i64)
        (i64.shl (i64.extend_i32_u (i32.mul (call $digit) (i32.const 10))) (i64.const 32))))"""
"""Judges `worker-01234.cluster.example` by its last digit."""

GUESTS: Final[Mapping[str, Callable[[], bytes]]] = {
    "headroom": (ROOT / HEADROOM).read_bytes,
    "by name, node by node": lambda: bytes(wasmtime.wat2wasm(BY_NAME)),
}
"""The modules of ours, by what the table calls them."""

SCRIPT: Final = """
    local bodies, turn = {}, 0
    for line in io.lines("%s") do bodies[#bodies + 1] = line end
    local headers = {["Content-Type"] = "application/json"}
    function request()
      turn = turn %% #bodies + 1
      return wrk.format("POST", "/%s", headers, bodies[turn])
    end
    function done(summary, latency)
      local errors = summary.errors
      local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
      local p50, p99 = latency:percentile(50), latency:percentile(99)
      print(string.format("told %%d %%d %%g %%g", summary.requests, failed, p50, p99))
    end"""
"""What wrk asks and tells: requests, those that failed, and percentiles in microseconds."""


class Figures(NamedTuple):
    """The figures of one server in one round, in milliseconds."""

    p50: float
    p99: float


def main() -> None:
    """Runs it and prints a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.wrk", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of a server in a round")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk not found: apt-get install wrk")
    print(f"{machine()}\n{options.rounds} rounds of {options.seconds} s that take turns, one connection\n")
    print("| guest | nodes | verb | ours p50, ms | p99 | Go p50, ms | p99 | ratio of p50 |")
    print("|---|---|---|---|---|---|---|---|")
    for count in options.nodes:
        with api_server(count) as cluster:
            for guest in GUESTS:
                for line in _rows(cluster, guest, count, options):
                    print(line, flush=True)


def _rows(cluster: Cluster, guest: str, count: int, options: argparse.Namespace) -> Iterator[str]:
    """A row for each verb, about the nodes of a cluster."""
    with TemporaryDirectory(prefix="kwx-bench-") as name, servers(cluster, guest, Path(name)) as ports:
        for verb in VERBS:
            script = ask_for(verb, count, Path(name))
            yield row(guest, count, verb, measure(ports, script, options))


@contextmanager
def servers(cluster: Cluster, guest: str, folder: Path) -> Iterator[Sequence[int]]:
    """The ports of ours and of the one in Go."""
    module = folder / "guest.wasm"
    module.write_bytes(GUESTS[guest]())
    plugin = {"name": "guest", "guestURL": f"file://{module}"}
    kubeconfig = {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(folder))}
    sections = {"profiles": [{"name": "default", "scoreRange": 100, "plugins": [plugin]}], "cluster": kubeconfig}
    with configured(folder, sections) as ours, go_extender(cluster.url) as go:
        yield ours.verbs, go


def ask_for(verb: str, count: int, folder: Path) -> Path:
    """The script of what wrk asks."""
    names = [objects.node_name(at) for at in range(count)]
    asked = [{"Pod": pod(at), "Nodes": None, "NodeNames": names} for at in range(PODS)]
    bodies, script = folder / "bodies", folder / f"{verb}.lua"
    bodies.write_text("\n".join(json.dumps(each, separators=(",", ":")) for each in asked))
    script.write_text(SCRIPT % (bodies, verb))
    return script


def measure(ports: Sequence[int], script: Path, options: argparse.Namespace) -> list[tuple[Figures, Figures]]:
    """The figures of ours and of the one in Go in each round, in turns; the first round is not among them."""
    found = []
    for at in range(options.rounds + 1):
        told = {which: ask(ports[which], script, options.seconds) for which in ((0, 1) if at % 2 else (1, 0))}
        found.append((told[0], told[1]))
    return found[1:]


def ask(port: int, script: Path, seconds: int) -> Figures:
    """Asks a server without a pause. Raises RuntimeError if it did not answer all."""
    command: list[str | Path] = ["wrk", "-t1", "-c1", f"-d{seconds}s", "-s", script, f"http://{LOOPBACK}:{port}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 60)
    told = next(line for line in ran.stdout.splitlines() if line.startswith("told ")).split()
    if told[1] == "0" or told[2] != "0":
        raise RuntimeError(f"of {told[1]} requests {told[2]} failed:\n{ran.stdout}")
    return Figures(float(told[3]) / 1e3, float(told[4]) / 1e3)


def row(guest: str, count: int, verb: str, rounds: Sequence[tuple[Figures, Figures]]) -> str:
    """Medians over the rounds, and the median of the quotients of the p50."""
    sides = zip(*rounds, strict=True)
    figures = [statistics.median(each[at] for each in side) for side in sides for at in range(len(Figures._fields))]
    ratio = statistics.median(ours.p50 / go.p50 for ours, go in rounds)
    return f"| {guest} | {count:,} | {verb} | {' | '.join(f'{each:.3f}' for each in figures)} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
