"""The demonstration: what is played, and how it is shown."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPException

import msgspec
from rich.console import Console
from rich.text import Text

from extender.commands.demo import gpus
from extender.commands.demo.client import SchedulerClient
from extender.commands.demo.cycle import CycleReport, captured, play
from extender.commands.demo.server import LOOPBACK, DemoError, DemoServer, demo_server, example
from extender.commands.demo.swap import SwapReport, swap
from extender.commands.terminal import Part, Table, show
from extender.telemetry.printable import printable

__all__ = ["DemoError", "run"]


class DemoReport(msgspec.Struct):
    """The results of the demonstration, as JSON output has them."""

    verbs_url: str
    admin_url: str
    cycle: CycleReport
    swap: SwapReport
    gpus: gpus.GpuReport
    scheduler_config: str


def run(*, once: bool, as_json: bool) -> None:
    """Starts an extender, plays the cycle, swaps a module, shows it all; then stays up unless `once`.

    Raises DemoError.
    """
    signal.signal(signal.SIGTERM, _leave)
    progress = Console(stderr=True)
    with demo_server() as server:
        progress.print("Starting the extender with the example plugins …")
        with server.running() as process:
            progress.print(f"It serves on {LOOPBACK}:{server.port}.")
            report = _play(server, progress)
            if as_json:
                sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
            else:
                _show(report)
            sys.stdout.flush()
            if not once:
                _stay(process, server, progress)


def _leave(*_: object) -> None:
    """Ends the demonstration, and the extender with it."""
    raise SystemExit(128 + signal.SIGTERM)


def _play(server: DemoServer, progress: Console) -> DemoReport:
    bodies = captured()
    client = SchedulerClient(LOOPBACK, server.port)
    try:
        progress.print("Playing a captured scheduling cycle: filter, prioritize, preempt, bind …")
        cycle = play(client, bodies)
        progress.print("Exchanging nodenumber.wasm while requests flow …")
        swapped = swap(client, bodies["prioritize"], server.module("nodenumber"), example("nodenumber_reversed"))
    except (OSError, ValueError, HTTPException) as error:
        raise DemoError(f"{error}\n{server.log.read_text()}") from error
    finally:
        client.close()
    return DemoReport(
        f"http://{LOOPBACK}:{server.port}",
        f"http://{LOOPBACK}:{server.admin_port}",
        cycle,
        swapped,
        gpus.decide(),
        _scheduler_config(server),
    )


def _scheduler_config(server: DemoServer) -> str:
    command = [
        sys.executable,
        "-m",
        "extender",
        "scheduler-config",
        "--config",
        str(server.config),
        "--url",
        f"http://{LOOPBACK}:{server.port}",
        "--full-nodes",
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def _show(report: DemoReport) -> None:
    swapped = report.swap
    show(
        [
            *_nodes(report),
            *_latencies(report),
            Text(
                f"Hot swap: {swapped.requests} requests flowed, {swapped.failed} failed;"
                f" the new module answered {swapped.seconds:.2f} s after its file was exchanged.\n"
            ),
            *gpus.parts(report.gpus),
            Text(f"\nVerbs      {report.verbs_url}/{{filter,prioritize,preempt,bind}}"),
            Text(f"Dashboard  {report.admin_url}/"),
            Text(f"Health     {report.admin_url}/readyz?verbose"),
            Text(f"Metrics    {report.admin_url}/metrics"),
            Text(f"Plugins    kwx plugin list --server {report.admin_url}"),
            Text(f"\nRegister it in kube-scheduler (--config) with:\n\n{report.scheduler_config}"),
        ]
    )


def _nodes(report: DemoReport) -> Iterator[Part]:
    pod, preemptor = report.cycle.verbs[0].pod, report.cycle.verbs[2].pod
    yield Text(printable(f"Pod {pod}, and pod {preemptor} that preempts") + "\n", "italic")
    rows = [
        (
            f"{node.node} ←" if node.bound else node.node,
            "passes" if node.passes else "rejected",
            "" if node.score is None else str(node.score),
            str(report.swap.after[node.node]) if node.node in report.swap.after else "",
            "candidate" if node.preemption else "",
            node.reason,
        )
        for node in report.cycle.nodes
    ]
    headings = ("Node", "Filter", "Score of 10", "After the swap", "Preemption", "Reason")
    yield Table(headings, rows, {"Score of 10", "After the swap"}, {"passes": "green", "rejected": "red"})


def _latencies(report: DemoReport) -> Iterator[Part]:
    yield Text("\nLatency of a request, one connection\n", "italic")
    rows = [(verb.verb, f"{verb.first_ms:.2f}", f"{verb.p50_ms:.2f}") for verb in report.cycle.verbs]
    yield Table(("Verb", "first, ms", "p50, ms"), rows, {"first, ms", "p50, ms"})
    yield Text()


def _stay(process: subprocess.Popen[bytes], server: DemoServer, progress: Console) -> None:
    module = server.module("nodenumber")
    progress.print(f"Still serving. Put another module at {module} to swap again; Ctrl-C ends.", soft_wrap=True)
    try:
        process.wait()
    except KeyboardInterrupt:
        return
    raise DemoError(f"the extender ended by itself:\n{server.log.read_text()}")
