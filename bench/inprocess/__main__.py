"""`python -m bench.inprocess CHECKOUT`: a scheduling cycle here beside one in the upstream host, both in-process.

CHECKOUT is one of kube-scheduler-wasm-extension; its host is built with Go. The same guests see the same nodes of
4 KB, and another pod in each cycle: PreFilter, Filter on each node, PreScore, Score on each node that passed,
NormalizeScore. Cycles of both take turns, their answers are compared, and what counts is the ratio of medians in the
same run.

Settings are both hosts' defaults, but for limits, of which the upstream host has none; logs and Events go nowhere.
Each host begins with what its caller has: Go's objects of pod and nodes there, the pod's protobuf and the names of the
nodes here.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.inprocess import upstream
from bench.inprocess.rounds import Bounds, CompilesOnce, Guest, NotComparableError, Row, compare
from bench.inprocess.upstream import HostError
from bench.inprocess.world import Nodes
from bench.webhook import machine
from wasm_runtime import GuestError, ModuleError, WasmtimeEngine

COUNTS: Final = (500, 5_000)
BOUNDS: Final = Bounds(fewest=5, most=200, seconds=10.0)
MEDIAN_BAR: Final = 0.7
WORST_BAR: Final = 1.0

GUESTS: Final[Mapping[str, tuple[str, ...]]] = {
    "examples/nodenumber/main.wasm": (),
    "internal/e2e/scheduler_perf/wasm/nodenumber/main.wasm": (),
    "guest/testdata/score/main.wasm": ("scoreExtensions",),
    "guest/testdata/cyclestate/main.wasm": (),
    "scheduler/test/testdata/test/filter_from_global.wasm": (),
    "scheduler/test/testdata/test/score_from_global.wasm": (),
}
"""Guests of the checkout that have Filter or Score, and their arguments.

Not among them: examples/advanced leaves its start by exit status 0, for which the upstream host closes it;
examples/imagelocality fails in both as soon as it scores a second node; guest/testdata/filter keeps every node that it
decodes, so that at 5,000 nodes its heap grows by the cycle, beyond 1 GiB, and its collector makes every third cycle
take ten times as long.
"""


def main() -> None:
    """Runs it and prints a Markdown table. Exits with 1 if a guest could not be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.inprocess", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT")
    parser.add_argument(
        "--guest",
        dest="guests",
        metavar="NAME=FILE",
        type=named_guest,
        action="append",
        help="measure this guest, and not those of the checkout; may be given again",
    )
    options = parser.parse_args()
    guests = options.guests or [guest_of(options.checkout, *each) for each in GUESTS.items()]
    with TemporaryDirectory(prefix="kwx-bench-") as folder:
        try:
            program = upstream.build(options.checkout, Path(folder))
        except HostError as error:
            sys.exit(f"error: {error}")
        fit = report(program, guests, COUNTS, BOUNDS, Path(folder))
    sys.exit(0 if fit else 1)


def named_guest(given: str) -> Guest:
    """A guest of the command line."""
    name, _, file = given.partition("=")
    if not (name and Path(file).is_file()):
        raise argparse.ArgumentTypeError(f"{given!r} is no NAME=FILE of a file that is there")
    return Guest(name, Path(file), (name,))


def guest_of(checkout: Path, file: str, arguments: Sequence[str]) -> Guest:
    """A guest of the checkout, named as its folder or its file and by its arguments."""
    path = Path(file)
    name = path.parent if path.name == "main.wasm" else path.with_suffix("")
    return Guest(" ".join([name.as_posix(), *arguments]), checkout / path, (path.stem, *arguments))


def report(program: Path, guests: Sequence[Guest], counts: Sequence[int], bounds: Bounds, folder: Path) -> bool:
    """Measures guests and prints what came of it. Whether all could be compared."""
    engine = CompilesOnce(WasmtimeEngine())
    all_nodes = [Nodes(count, folder) for count in counts]
    rows = []
    print(f"{machine()}; load {os.getloadavg()[0]:.1f} before", "", sep="\n")
    print("| guest | nodes | theirs p50, ms | ours p50, ms | ratio | rounds |")
    print("|---|---|---|---|---|---|", flush=True)
    for guest in guests:
        for nodes in all_nodes:
            try:
                row = compare(engine, program, guest, nodes, bounds)
            except (HostError, ModuleError, GuestError, NotComparableError) as error:
                print(f"| {guest.name} | {len(nodes.names):,} | {' '.join(str(error).split())} | | | |", flush=True)
                continue
            rows.append(row)
            print(line(row), flush=True)
    print("", *summary(rows), f"load {os.getloadavg()[0]:.1f} after", sep="\n")
    return len(rows) == len(guests) * len(counts)


def line(row: Row) -> str:
    """A line of the table."""
    times = f"{row.theirs * 1e3:.3f} | {row.ours * 1e3:.3f}"
    return f"| {row.guest} | {row.nodes:,} | {times} | {row.ratio:.2f} | {row.rounds} |"


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """The median and the worst ratio at each number of nodes, beside the bars."""
    for count in sorted({row.nodes for row in rows}):
        ratios = [row.ratio for row in rows if row.nodes == count]
        median, worst = statistics.median(ratios), max(ratios)
        yield f"{count:,} nodes: median ratio {median:.2f} (bar {MEDIAN_BAR}), worst {worst:.2f} (bar {WORST_BAR})  "


if __name__ == "__main__":
    main()
