"""`python -m bench.micro.memory`: what a large cluster takes of the extender's memory while its nodes change.

One extender knows a cluster by list and watch, its pods included, and has a guest that keeps nodes. What counts is the
resident memory after a while of updates.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import wasmtime
from prometheus_client.parser import text_string_to_metric_families

from bench.micro.webhook import machine
from bench.peers.apiserver import Cluster, api_server
from bench.plugin.cases import UPDATES
from bench.servers import Ports, configured, get

ROOT: Final = Path(__file__).parents[2]
GUEST: Final = ROOT / "sdk-guest" / "rust" / "modules" / "headroom.wasm"

KEEPS_PODS: Final = """
    (module
      (memory (export "memory") 1)
      (func (export "prefilter") (result i32) (i32.const 0))
      (func (export "addpod") (result i32) (i32.const 0))
      (func (export "removepod") (result i32) (i32.const 0)))"""
"""For such a plugin the extender keeps the cluster's pods."""


def main() -> None:
    """Runs it and prints a sentence."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.memory", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=30.0, help="of updates (%(default)s)")
    options = parser.parse_args()
    with api_server(options.nodes, options.pods) as cluster, extender(cluster) as ports:
        known = metric(ports, "kwx_nodes"), metric(ports, "kwx_pods")
        assert known == (options.nodes, options.pods), known
        before = resident(ports)
        cluster.update(UPDATES)
        time.sleep(options.seconds)
        after = resident(ports)
    print(machine())
    print(
        f"{options.nodes:,} nodes, {options.pods:,} pods: {before:.0f} MB, and {after:.0f} MB after"
        f" {options.seconds:.0f} s of {UPDATES} updates a second."
    )


@contextmanager
def extender(cluster: Cluster) -> Iterator[Ports]:
    """An extender that knows the nodes and pods of the cluster."""
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        (folder / "keeps_pods.wasm").write_bytes(wasmtime.wat2wasm(KEEPS_PODS))
        plugins = [
            {"name": "guest", "guestURL": f"file://{GUEST}"},
            {"name": "keeps-pods", "guestURL": "file://./keeps_pods.wasm"},
        ]
        sections: dict[str, object] = {
            "cluster": {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(folder))},
            "profiles": [{"name": "default", "scoreRange": 100, "plugins": plugins}],
        }
        with configured(folder, sections) as ports:
            yield ports


def resident(ports: Ports) -> float:
    """The extender's memory in MB."""
    return metric(ports, "process_resident_memory_bytes") / 1e6


def metric(ports: Ports, name: str) -> float:
    """A number of the extender's metrics."""
    families = text_string_to_metric_families(get(ports.admin, "/metrics")[1])
    return next(sample.value for family in families for sample in family.samples if sample.name == name)


if __name__ == "__main__":
    main()
