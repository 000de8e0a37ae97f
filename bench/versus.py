"""`python -m bench.versus`: filter and prioritize beside a hand-written extender in Go, with the same policy.

Both know the same nodes by list and watch from one API server, or are sent them whole. Each is asked over one
keep-alive connection, in rounds that take turns, as kube-scheduler asks: filter about a pod, prioritize about the same
one, then about the next. Both must answer every request of the warm-up alike, or there are no figures. What counts is
the ratio of ours to the peer's in the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TypeVar

from bench.client import Connection, Request, post
from bench.peers import gopeer, objects
from bench.peers.apiserver import FIRST_VERSION, Cluster, api_server
from bench.servers import configured, ready
from bench.webhook import machine, percentiles

T = TypeVar("T")

ROOT: Final = Path(__file__).parent.parent
GUEST: Final = ROOT / "sdk-guest" / "rust" / "modules" / "headroom.wasm"
RESULTS: Final = Path(__file__).with_name("results") / "versus.md"
VERBS: Final = ("filter", "prioritize")
WARM_UP: Final = 100
"""Requests of each verb that both answer alike before any is timed."""

TURNS: Final = 8
"""Orders of the nodes."""

CPU_REQUESTS: Final = range(100, 4000, 70)
"""Millicores."""
MEMORY_REQUESTS: Final = range(64, 20_000, 311)
"""MiB."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured, and the bars: the most that our p50 and p99 may be, as a part of the peer's."""

    nodes: int
    rounds: int
    requests: int
    """Of each verb to one server in one round."""
    p50_bar: float | None
    p99_bar: float | None = 1.0
    whole: bool = False
    """Whether requests carry the nodes, or their names."""

    def __str__(self) -> str:
        return f"{self.nodes:,} {'whole nodes' if self.whole else 'names'}"


CASES: Final = {
    "100": Case(100, 20, 50, 1.0),
    "500": Case(500, 20, 50, 0.8),
    "5000": Case(5_000, 20, 50, 0.5),
    "15000": Case(15_000, 20, 20, None),
    "whole": Case(500, 20, 5, 0.3, None, whole=True),
}


class Row(NamedTuple):
    """The figures of one verb in one case, in milliseconds."""

    case: Case
    verb: str
    ours: tuple[float, float]
    """p50 and p99."""
    peer: tuple[float, float]

    def __str__(self) -> str:
        """A row of the table."""
        figures = " | ".join(f"{value:.3f}" for value in (*self.ours, *self.peer))
        bars = (self.case.p50_bar, self.case.p99_bar)
        ratios = " | ".join(map(_beside_bar, self.ours, self.peer, bars))
        return f"| {self.case} | {self.verb} | {figures} | {ratios} |"


HEAD: Final = (
    "| nodes of a request | verb | ours p50, ms | p99 | Go p50, ms | p99 | p50, ours / Go | p99, ours / Go |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Runs the cases and prints a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.versus", description=__doc__)
    parser.add_argument("--guest", type=Path, default=GUEST, help="a module of the policy headroom (%(default)s)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--write", action="store_true", help=f"write the table to {RESULTS.relative_to(ROOT)} as well")
    options = parser.parse_args()
    lines = [_about(options.guest), "", HEAD]
    print(*lines, sep="\n", flush=True)
    for case in (CASES[name] for name in options.cases):
        for row in run(case, options.guest.absolute()):
            lines.append(str(row))
            print(row, flush=True)
    lines += ["", f"Load of the machine at the end: {os.getloadavg()[0]:.1f}."]
    print(*lines[-2:], sep="\n")
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join(["# Beside an extender in Go", "", *lines, ""]))


def run(case: Case, guest: Path) -> Iterator[Row]:
    """Measures a case."""
    with ExitStack() as stack:
        ports = _whole(stack, guest) if case.whole else _named(stack, case.nodes, guest)
        ours, peer = (stack.enter_context(Connection(port)) for port in ports)
        load = Load(case)
        for _ in range(WARM_UP):
            for verb, request in load.cycle().items():
                check_alike(ours, peer, verb, request)
        times = measure((ours, peer), load, case)
    for verb in VERBS:
        our_times, peer_times = times[verb]
        yield Row(case, verb, percentiles(our_times), percentiles(peer_times))


class Load:
    """The requests of a case: always the same nodes, each time in another order, always another pod.

    kube-scheduler looks at the nodes in turn and sends those that it found, in the order in which it found them.
    """

    def __init__(self, case: Case) -> None:
        self._pods = 0
        names = [objects.node_name(at) for at in range(case.nodes)]
        items = [objects.node(at, FIRST_VERSION) for at in range(case.nodes)] if case.whole else None
        self._nodes = [b"," + _json(_nodes(_turned(names, turn), _turned(items, turn)))[1:] for turn in range(TURNS)]

    def cycle(self) -> Mapping[str, Request]:
        """The requests about the next pod, by verb."""
        self._pods += 1
        start, nodes = b'{"Pod":' + _json(pod(self._pods)), self._nodes[self._pods % TURNS]
        return {verb: post(f"/{verb}", start, nodes) for verb in VERBS}


def _nodes(names: list[str] | None, items: list[objects.Object] | None) -> Mapping[str, object]:
    if items is not None:
        return {"Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
    return {"Nodes": None, "NodeNames": names}


def _turned(things: list[T] | None, turn: int) -> list[T] | None:
    if things is None:
        return None
    start = turn * len(things) // TURNS
    return things[start:] + things[:start]


def pod(at: int) -> objects.Object:
    """A pod that fits onto most nodes: each fourth wishes one of the zones, each third an instance type."""
    cpu, memory = CPU_REQUESTS[at * 7 % len(CPU_REQUESTS)], MEMORY_REQUESTS[at * 11 % len(MEMORY_REQUESTS)]
    wishes = {}
    if at % 4 == 0:
        wishes["example.com/zone"] = objects.ZONES[at // 4 % len(objects.ZONES)]
    if at % 3 == 0:
        wishes["example.com/instance-type"] = list(objects.INSTANCE_TYPES)[at // 3 % len(objects.INSTANCE_TYPES)]
    return objects.requesting(at, f"{cpu}m", f"{memory}Mi", wishes)


class DifferentAnswersError(Exception):
    """Two servers do not answer the same request alike, so that their times cannot be compared."""


def check_alike(ours: Connection, peer: Connection, verb: str, request: Request) -> None:
    """Asks both. Raises DifferentAnswersError."""
    our_answer, peer_answer = (meaning(json.loads(each.ask(request).body)) for each in (ours, peer))
    if our_answer != peer_answer:
        raise DifferentAnswersError(
            f"{verb} is answered differently: {_shorten(our_answer)} by ours, {_shorten(peer_answer)} by the peer;"
            f" the request: {_shorten(b''.join(request[1:]))}"
        )


def meaning(answer: Any) -> Any:
    """An answer as kube-scheduler takes it: in prioritize a score of 0 is like none, and order is of no account."""
    if isinstance(answer, list):
        return {each["Host"]: each["Score"] for each in answer if each["Score"]}
    return answer


def measure(connections: Sequence[Connection], load: Load, case: Case) -> Mapping[str, list[list[float]]]:
    """Milliseconds of each request, by verb and in the order of the connections."""
    times: dict[str, list[list[float]]] = {verb: [[] for _ in connections] for verb in VERBS}
    gc.disable()
    try:
        for turn in range(case.rounds):
            for at in _rotated(len(connections), turn):
                for cycle in [load.cycle() for _ in range(case.requests)]:
                    for verb, request in cycle.items():
                        times[verb][at].append(connections[at].ask(request).elapsed)
            gc.collect()
    finally:
        gc.enable()
    return times


def _rotated(count: int, turn: int) -> list[int]:
    """Each index once, another one first in each turn."""
    return [(at + turn) % count for at in range(count)]


def _named(stack: ExitStack, nodes: int, guest: Path) -> tuple[int, int]:
    """Where ours and the peer listen, both with the nodes of one API server."""
    cluster = stack.enter_context(api_server(nodes))
    return stack.enter_context(extender(guest, cluster)), stack.enter_context(gopeer.go_extender(cluster.url))


def _whole(stack: ExitStack, guest: Path) -> tuple[int, int]:
    """Where ours and the peer listen, both without an API server."""
    return stack.enter_context(extender(guest)), stack.enter_context(gopeer.go_extender())


@contextmanager
def extender(guest: Path, cluster: Cluster | None = None) -> Iterator[int]:
    """The port of ours with the policy, once it knows the nodes of the cluster, if there is one."""
    plugin = {"name": "headroom", "guestURL": f"file://{guest}"}
    profile = {"name": "default", "scoreRange": 100, "plugins": [plugin]}
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        sections: dict[str, object] = {"profiles": [profile]}
        if cluster:
            sections["cluster"] = {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(folder))}
        with configured(folder, sections) as ports:
            ready(ports.admin)
            yield ports.verbs


def _about(guest: Path) -> str:
    """What the figures depend on."""
    go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    command = shlex.join(["python", "-m", "bench.versus", *sys.argv[1:]])
    return (
        f"{machine()}; {go}, {gopeer.versions()}; guest {guest.name}; load {os.getloadavg()[0]:.1f} at the start;\n"
        f"`{command}`. A bar is the most that the ratio may be."
    )


def _beside_bar(ours: float, peer: float, bar: float | None) -> str:
    ratio = ours / peer
    if bar is None:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} ({'within' if ratio <= bar else 'above'} {bar:.1f})"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _shorten(value: object) -> str:
    text = value.decode() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 400 else f"{text[:400]}…"


if __name__ == "__main__":
    main()
