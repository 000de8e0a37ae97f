"""`python -m bench.micro.resident`: what a guest that keeps nodes takes, in the sandbox alone.

The policy headroom in Rust, in AssemblyScript and in Go, whose garbage is collected outside the verbs: Filter and Score
of a list of nodes of 4 KB, each cycle about another pod, and what it costs to tell the guest of a node that has
changed. No server, no JSON.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.micro.webhook import machine
from bench.peers import objects
from bench.plugin.worker import pod_of
from bench.plugin.workload import pod as waiting
from wasm_runtime import Nodes, NodeTable, Plugin, Settings, WasmtimeEngine
from wasm_runtime.engine import MEBIBYTE, Span
from wasm_runtime.protobuf import encode_node, encode_pod

SDK: Final = Path(__file__).parents[2] / "sdk-guest"
GUESTS: Final = {
    "Rust": SDK / "rust" / "modules" / "headroom.wasm",
    "AssemblyScript": SDK / "assemblyscript" / "modules" / "headroom.wasm",
    "Go": SDK / "out" / "go" / "headroom.wasm",
}
BARS: Final = {"Rust": 1.0, "AssemblyScript": 2.0, "Go": 2.0}
"""Milliseconds for Filter and Score of 5,000 nodes."""
BUILD_TIMEOUT_S: Final = 600.0
COUNTS: Final = (500, 5_000, 15_000)
PER_NODE_BAR: Final = 1.3
"""A node of 15,000 may cost this many times what one of 500 does."""
CYCLES: Final = 300
CHANGES: Final = 500
SETTINGS: Final = Settings("headroom", memory_limit=1024 * MEBIBYTE, timeout=30.0)


class Figures(NamedTuple):
    """Medians, in microseconds."""

    filter: float
    score: float
    told: float
    """Microseconds for announcing one changed node, with the host's part."""


def main() -> None:
    """Runs it and prints a Markdown table."""
    if not GUESTS["Go"].exists():
        subprocess.run([sys.executable, SDK / "build.py", "--language", "go"], check=True, timeout=BUILD_TIMEOUT_S)
    print(f"{machine()}; {CYCLES} cycles\n")
    print("| guest | nodes | Filter, µs | Score, µs | both, ms | both, ns a node | beside 500 nodes | a change, µs |")
    print("|---|---|---|---|---|---|---|---|")
    for language, module in GUESTS.items():
        engine, wasm, least = WasmtimeEngine(), module.read_bytes(), 0.0
        for count in COUNTS:
            figures = measure(engine, wasm, count)
            both = figures.filter + figures.score
            per_node = both / count * 1e3
            least = least or per_node
            print(
                f"| {language} | {count:,} | {figures.filter:.0f} | {figures.score:.0f} "
                f"| {_beside(both / 1e3, BARS[language] if count == 5_000 else None)} | {per_node:.0f} "
                f"| {_beside(per_node / least, PER_NODE_BAR if count == COUNTS[-1] else None)} | {figures.told:.0f} |",
                flush=True,
            )


def measure(engine: WasmtimeEngine, wasm: bytes, count: int) -> Figures:
    """The figures of a guest with so many nodes."""
    spans: list[Span] = []
    nodes = NodeTable()
    nodes.put((objects.node_name(at), encode_node(objects.node(at, version=1))) for at in range(count))
    names = [objects.node_name(at) for at in range(count)]
    plugin = Plugin(engine, wasm, SETTINGS, nodes=nodes, observer=lambda _, __, seen: spans.extend(seen))
    try:
        for pod in (pod_of(encode_pod(waiting(at))) for at in range(CYCLES)):
            request = Nodes(nodes, names)
            with plugin.guest(pod, request, "filter") as (guest, deadline):
                guest.filter(request, deadline)
            with plugin.guest(pod, request, "score") as (guest, deadline):
                guest.score(request, deadline)
        return Figures(
            median(spans, ("prefilter", "filternodes")), median(spans, ("scorenodes",)), _told(plugin, nodes, count)
        )
    finally:
        plugin.close()


def median(spans: Sequence[Span], exports: Sequence[str]) -> float:
    """The sum of the medians of some exports, in microseconds."""
    runs: Mapping[str, list[float]] = {export: [] for export in exports}
    for span in spans:
        if span.export in runs:
            runs[span.export].append(span.run_seconds)
    return sum(map(statistics.median, runs.values())) * 1e6


def _told(plugin: Plugin, nodes: NodeTable, count: int) -> float:
    times = []
    for update in range(1, CHANGES + 1):
        at = update * 7 % count
        nodes.put([(objects.node_name(at), encode_node(objects.node(at, version=1, update=update)))])
        begun = time.perf_counter()
        plugin.maintain(nodes)
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def _beside(value: float, bar: float | None) -> str:
    if bar is None:
        return f"{value:.2f}"
    return f"{value:.2f} ({'within' if value <= bar else 'above'} {bar})"


if __name__ == "__main__":
    main()
