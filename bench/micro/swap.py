"""`python -m bench.micro.swap`: what a swap a second does to requests.

One extender is asked filter and prioritize at full speed over several connections, each a process of its own with pods
of its own, in turns while nothing changes and while the file of its module is exchanged every second. Answers tell by
which version a pod was judged. No request may fail, no pod may be judged by two versions, p99 may be twice the quiet
one, and memory is to stay what it was after the tenth swap. By default two modules take turns; with `--modules 60` each
swap of the first minute compiles one that was never there before. `--output json` prints the same as JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import resource
import secrets
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from bench.client import Connection
from bench.micro.webhook import machine, percentiles
from bench.servers import configured
from tests.extender.versions import VERSIONS, Cycle, Questions, WrongAnswerError, module

VERBS: Final = ("filter", "prioritize")
NODES: Final = (100, 500)
TURN: Final = 10.0
"""Seconds of one turn of swapping, and of the quiet one before it."""
EVERY: Final = 1.0
"""Seconds from one swap to the next, unless it takes longer until the new version answers."""
PATIENCE: Final = 20.0
"""Seconds in which a new version must have answered."""
SETTLING: Final = 0.5
"""Seconds after the last swap of a turn that are not measured."""
WARM_UP: Final = 2.0
POLL: Final = 0.005
FIRST: Final = 10
"""The swap from which on memory is to stay what it was."""
P99_BAR: Final = 2.0
"""The p99 of swapping as a part of the quiet one."""
MEMORY_BAR: Final = 50
"""KB that a swap may leave behind: the slope of memory from the tenth swap on."""
PAGE: Final = resource.getpagesize()


class Swap(NamedTuple):
    """A file was exchanged, and its module went live."""

    at: float
    """When the file was exchanged, on the clock of `time.monotonic`."""
    version: int
    memory: float
    """MB that are resident once the new version has answered."""


class Turn(NamedTuple):
    """A time in which modules were swapped, or not."""

    begun: float
    ended: float
    swaps: Sequence[Swap]


class Served(NamedTuple):
    """The answers that clients have got."""

    cycles: list[Cycle]
    failures: list[str]


def main() -> None:
    """Runs it and prints Markdown tables, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.swap", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of swapping, beside as many quiet ones (%(default)s)"
    )
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--modules", type=int, default=2, choices=range(2, len(VERSIONS) + 1), metavar="COUNT")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    load = [os.getloadavg()[0]]
    cases = [
        {"nodes": nodes} | figures(*run(nodes, options.connections, options.modules, options.seconds))
        for nodes in options.nodes
    ]
    load.append(os.getloadavg()[0])
    result = {"machine": machine(), "load": load, "connections": options.connections, "modules": options.modules}
    result["cases"] = cases
    print(json.dumps(result, indent=2) if options.output == "json" else _tables(result))


def run(nodes: int, connections: int, modules: int, seconds: float) -> tuple[list[Turn], Served]:
    """Asks, and swaps in turns."""
    salt = secrets.token_hex(4)  # What an earlier run has compiled is not kept for this one.
    versions = cycle([(version, module(version, salt)) for version in VERSIONS[:modules]])
    turns = max(1, round(seconds / TURN))
    done: list[Turn] = []
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        file = Path(name) / "guest.wasm"
        first, wasm = next(versions)
        file.write_bytes(wasm)
        plugin = {"name": "guest", "guestURL": f"file://{file}"}
        profile = {"name": "default", "scoreRange": 100, "plugins": [plugin]}
        with configured(file.parent, {"profiles": [profile]}) as ports:
            clients = Clients(ports.verbs, nodes, connections)
            clients.wait_for(first)
            time.sleep(WARM_UP)
            for _ in range(turns):
                done.append(_stay(seconds / turns))
                done.append(_swap(seconds / turns, clients, file, versions, ports.process))
                time.sleep(SETTLING)
            return done, clients.stop()


def _stay(seconds: float) -> Turn:
    """A turn in which nothing changes."""
    begun = time.monotonic()
    time.sleep(seconds)
    return Turn(begun, time.monotonic(), ())


def _swap(seconds: float, clients: Clients, file: Path, versions: Iterator[tuple[int, bytes]], process: int) -> Turn:
    """A turn in which one version after the other goes live."""
    begun = time.monotonic()
    swaps = []
    while (at := time.monotonic()) < begun + seconds:
        version, wasm = next(versions)
        beside = file.with_suffix(".new")
        beside.write_bytes(wasm)
        beside.replace(file)
        clients.wait_for(version)
        swaps.append(Swap(at, version, resident(process)))
        time.sleep(max(0.0, at + EVERY - time.monotonic()))
    return Turn(begun, time.monotonic(), swaps)


def resident(process: int) -> float:
    """The memory of a process, in MB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 1e6


class Clients:
    """Processes that ask at full speed."""

    def __init__(self, port: int, nodes: int, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._stopped = context.Event()
        self._seen = context.Value("i", 0, lock=False)
        self._served = context.Queue()
        shared = (self._stopped, self._seen, self._served)
        self._processes = [
            context.Process(target=_ask, args=(port, nodes, f"client-{at}", *shared), daemon=True)
            for at in range(number)
        ]
        for process in self._processes:
            process.start()

    def wait_for(self, version: int) -> None:
        """Waits until a version answers. Raises TimeoutError."""
        deadline = time.monotonic() + PATIENCE
        while self._seen.value != version:
            if time.monotonic() > deadline:
                raise TimeoutError(f"version {version} has not answered within {PATIENCE:.0f} s")
            time.sleep(POLL)

    def stop(self) -> Served:
        """Ends them. Returns what all of them were answered."""
        self._stopped.set()
        served = Served([], [])
        for _ in self._processes:
            cycles, failures = self._served.get(timeout=PATIENCE)
            served.cycles.extend(cycles)
            served.failures.extend(failures)
        for process in self._processes:
            process.join(PATIENCE)
        return served


def _ask(port: int, nodes: int, name: str, stopped: Any, seen: Any, served: Any) -> None:
    """Runs a client, which plays cycle after cycle, each of a new pod, until it is stopped."""
    questions, numbers = Questions(nodes), count()
    cycles: list[Cycle] = []
    failures: list[str] = []
    gc.disable()
    while not stopped.is_set():
        try:
            with Connection(port) as connection:
                while not stopped.is_set():
                    cycles.append(questions.cycle(connection, f"{name}-{next(numbers)}"))
                    seen.value = cycles[-1].versions[0]
        except (OSError, WrongAnswerError) as error:
            failures.append(str(error))
    served.put((cycles, failures))


def figures(turns: Sequence[Turn], served: Served) -> dict[str, Any]:
    """The figures of all turns. Times are in milliseconds; those until a new version answers are in seconds."""
    swaps = [swap for turn in turns for swap in turn.swaps]
    memory = [swap.memory for swap in swaps]
    until = until_live(swaps, served.cycles)
    return {
        "requests": 2 * len(served.cycles) + len(served.failures),
        "swaps": len(swaps),
        "failed": len(served.failures),
        "failures": served.failures[:FIRST],
        "mixed": sum(each.is_mixed for each in served.cycles),
        "quiet_ms": _times([turn for turn in turns if not turn.swaps], served.cycles),
        "swapping_ms": _times([turn for turn in turns if turn.swaps], served.cycles),
        "memory_mb": [round(each, 1) for each in memory],
        "slope_kb": slope(memory[FIRST - 1 :]) * 1e3,
        "until_live_s": {"p50": statistics.median(until), "max": max(until)},
    }


def _times(turns: Sequence[Turn], cycles: Sequence[Cycle]) -> dict[str, dict[str, float]]:
    """A summary of each verb's durations in some turns."""
    within = [each for each in cycles if any(turn.begun <= each.began and each.ended <= turn.ended for turn in turns)]
    return {verb: _summary([getattr(each, verb) for each in within]) for verb in VERBS}


def _summary(times: Sequence[float]) -> dict[str, float]:
    p50, p99 = percentiles(times)
    return {"p50": p50, "p99": p99, "max": max(times), "count": len(times)}


def until_live(swaps: Sequence[Swap], cycles: Sequence[Cycle]) -> list[float]:
    """Seconds from each exchange of a file to the first answer of filter by its module."""
    answers = sorted((each.began + each.filter / 1e3, each.versions[0]) for each in cycles)
    rest = iter(answers)
    return [next(at for at, version in rest if at > swap.at and version == swap.version) - swap.at for swap in swaps]


def slope(values: Sequence[float]) -> float:
    """By how much the values grow from one to the next: the line of least squares through them."""
    return statistics.linear_regression(range(len(values)), values).slope if len(values) > 1 else 0.0


def beside(value: float, bar: float, form: str) -> str:
    """A figure and whether it is within its bar."""
    return f"{form.format(value)} ({'within' if value <= bar else 'above'} {form.format(bar)})"


def _tables(result: Mapping[str, Any]) -> str:
    before, after = result["load"]
    lines = [
        f"{result['machine']}; load {before:.1f} before, {after:.1f} after",
        f"{result['connections']} connections, {result['modules']} modules",
        "",
        "| nodes | verb | quiet p50, ms | p99 | max | swapping p50, ms | p99 | max | ratio of p50 | of p99 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(case, verb) for case in result["cases"] for verb in VERBS]
    lines += [
        "",
        "| nodes | swaps | requests | failed | mixed cycles | tenth swap, MB | last | KB a swap | live, s | max |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_counts(case) for case in result["cases"]]
    return "\n".join(lines)


def _row(case: Mapping[str, Any], verb: str) -> str:
    quiet, swapping = case["quiet_ms"][verb], case["swapping_ms"][verb]
    cells = [f"{each[name]:.3f}" for each in (quiet, swapping) for name in ("p50", "p99", "max")]
    cells.append(f"{swapping['p50'] / quiet['p50']:.2f}")
    cells.append(beside(swapping["p99"] / quiet["p99"], P99_BAR, "{:.2f}"))
    return f"| {case['nodes']} | {verb} | {' | '.join(cells)} |"


def _counts(case: Mapping[str, Any]) -> str:
    memory, until = case["memory_mb"], case["until_live_s"]
    cells = [
        case["swaps"],
        case["requests"],
        beside(case["failed"], 0, "{}"),
        beside(case["mixed"], 0, "{}"),
        f"{memory[min(FIRST, len(memory)) - 1]:.1f}",
        f"{memory[-1]:.1f}",
        beside(case["slope_kb"], MEMORY_BAR, "{:.0f}"),
        f"{until['p50']:.2f}",
        f"{until['max']:.2f}",
    ]
    return f"| {case['nodes']} | {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
