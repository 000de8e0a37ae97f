"""`python -m bench.churn`: what updates of nodes cost the verbs, and what a large cluster takes of memory.

One extender knows a cluster by list and watch, its pods included. It is asked filter and prioritize over one keep-alive
connection, every request about another pod, first while nothing changes, then while nodes are updated, and so on in
turns. What counts is the ratio of both in the same run, and the extender's resident memory at the end.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import wasmtime
from prometheus_client.parser import text_string_to_metric_families

from bench.client import Connection
from bench.controlplane.ports import LOOPBACK
from bench.peers.apiserver import Cluster, api_server
from bench.servers import Ports, configured, ready
from bench.versus import GUEST, VERBS, Case, Load
from bench.webhook import machine, percentiles

CASE: Final = Case(nodes=5_000, rounds=20, requests=100, p50_bar=1.15, p99_bar=2.0)
"""The bars are for the ratio of churn to quiet."""
PODS: Final = 50_000
RATE: Final = 200
"""Updates of nodes a second."""
MEMORY_BAR: Final = 600
"""MB."""
WARM_UP: Final = 100
SETTLING: Final = 0.5
"""Seconds after the updates began or ended that are not measured."""

KEEPS_PODS: Final = """
    (module
      (memory (export "memory") 1)
      (func (export "prefilter") (result i32) (i32.const 0))
      (func (export "addpod") (result i32) (i32.const 0))
      (func (export "removepod") (result i32) (i32.const 0)))"""
"""For such a plugin the extender keeps the cluster's pods."""


def main() -> None:
    """Runs it and prints a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.churn", description=__doc__)
    parser.add_argument("--guest", type=Path, default=GUEST, help="a module that looks at nodes (%(default)s)")
    options = parser.parse_args()
    print(machine())
    print(f"guest {options.guest.name}; load {os.getloadavg()[0]:.1f} at the start")
    print(f"{CASE.nodes:,} nodes, {PODS:,} pods; {CASE.rounds} rounds of {CASE.requests} requests of each verb\n")
    with api_server(CASE.nodes, PODS) as cluster, extender(options.guest.absolute(), cluster) as ports:
        with Connection(ports.verbs) as connection:
            quiet, churn = measure(connection, cluster)
        memory = metric(ports, "process_resident_memory_bytes") / 1e6
    print(f"| verb | quiet p50, ms | p99 | {RATE} updates/s p50, ms | p99 | ratio of p50 | of p99 |")
    print("|---|---|---|---|---|---|---|")
    for verb in VERBS:
        before, after = percentiles(quiet[verb]), percentiles(churn[verb])
        figures = " | ".join(f"{value:.3f}" for value in (*before, *after))
        ratios = " | ".join(
            beside(busy / idle, bar, "{:.2f}")
            for idle, busy, bar in zip(before, after, (CASE.p50_bar, CASE.p99_bar), strict=True)
        )
        print(f"| {verb} | {figures} | {ratios} |")
    print(f"\nResident memory: {beside(memory, MEMORY_BAR, '{:.0f} MB')}.")


def beside(value: float, bar: float | None, form: str) -> str:
    """A value, and whether it is within its bar."""
    if bar is None:
        return form.format(value)
    return f"{form.format(value)} ({'within' if value <= bar else 'above'} {form.format(bar)})"


Times = dict[str, list[float]]
"""Milliseconds by verb."""


def measure(connection: Connection, cluster: Cluster) -> tuple[Times, Times]:
    """What requests take while nothing changes, and while nodes are updated."""
    load = Load(CASE)
    for _ in range(WARM_UP):
        for request in load.cycle().values():
            connection.ask(request)
    quiet: Times = {verb: [] for verb in VERBS}
    churn: Times = {verb: [] for verb in VERBS}
    for _ in range(CASE.rounds):
        for rate, times in ((0, quiet), (RATE, churn)):
            cluster.update(rate)
            time.sleep(SETTLING)
            gc.collect()
            for _ in range(CASE.requests):
                for verb, request in load.cycle().items():
                    times[verb].append(connection.ask(request).elapsed)
    cluster.update(0)
    return quiet, churn


@contextmanager
def extender(guest: Path, cluster: Cluster) -> Iterator[Ports]:
    """An extender with the guest, once it knows the nodes and pods of the cluster."""
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        (folder / "keeps_pods.wasm").write_bytes(wasmtime.wat2wasm(KEEPS_PODS))
        plugins = [
            {"name": "guest", "guestURL": f"file://{guest}"},
            {"name": "keeps-pods", "guestURL": "file://./keeps_pods.wasm"},
        ]
        sections: dict[str, object] = {
            "cluster": {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(folder))},
            "profiles": [{"name": "default", "scoreRange": 100, "plugins": plugins}],
        }
        with configured(folder, sections) as ports:
            ready(ports.admin)
            known = metric(ports, "kwx_nodes"), metric(ports, "kwx_pods")
            assert known == (CASE.nodes, PODS), known
            yield ports


def metric(ports: Ports, name: str) -> float:
    """A number of the extender's metrics."""
    with closing(http.client.HTTPConnection(LOOPBACK, ports.admin, timeout=30)) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    families = text_string_to_metric_families(text)
    return next(sample.value for family in families for sample in family.samples if sample.name == name)


if __name__ == "__main__":
    main()
