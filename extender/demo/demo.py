"""The demonstration: what is played, and how it is shown."""

from __future__ import annotations

import signal
import subprocess
import sys
from http.client import HTTPException

import msgspec
from rich.console import Console
from rich.table import Table

from extender.demo.client import SchedulerClient
from extender.demo.cycle import CycleReport, captured, play
from extender.demo.server import LOOPBACK, DemoError, DemoServer, demo_server, example
from extender.demo.swap import SwapReport, swap

__all__ = ["DemoError", "run"]


class Report(msgspec.Struct):
    """All that the demonstration saw."""

    verbs_url: str
    admin_url: str
    cycle: CycleReport
    swap: SwapReport
    scheduler_config: str


def run(*, once: bool, as_json: bool) -> None:
    """Starts an extender, plays the cycle, swaps a module, shows it all; then stays up unless `once`.

    Raises DemoError.
    """
    signal.signal(signal.SIGTERM, _leave)
    progress = Console(stderr=True)
    with demo_server() as server:
        progress.print(f"Starting the extender with the example plugins on {LOOPBACK}:{server.port} …")
        with server.running() as process:
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


def _play(server: DemoServer, progress: Console) -> Report:
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
    return Report(
        f"http://{LOOPBACK}:{server.port}",
        f"http://{LOOPBACK}:{server.admin_port}",
        cycle,
        swapped,
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
        "--full-nodes",
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def _show(report: Report) -> None:
    console = Console()
    console.print(_nodes(report))
    console.print(_latencies(report))
    swapped = report.swap
    console.print(
        f"Hot swap: {swapped.requests} requests flowed, {swapped.failed} failed; "
        f"the new module answered {swapped.seconds:.2f} s after its file was exchanged.\n"
    )
    console.print(f"Verbs      {report.verbs_url}/{{filter,prioritize,preempt,bind}}")
    console.print(f"Health     {report.admin_url}/readyz?verbose")
    console.print(f"Metrics    {report.admin_url}/metrics")
    console.print(f"Plugins    kwx plugin list --server {report.admin_url}")
    console.print("\nRegister it in kube-scheduler (--config) with:\n")
    console.print(report.scheduler_config, highlight=False, markup=False)


def _nodes(report: Report) -> Table:
    pod, preemptor = report.cycle.verbs[0].pod, report.cycle.verbs[2].pod
    table = Table(title=f"Pod {pod}, and pod {preemptor} that preempts", title_justify="left")
    for heading in ("Node", "Filter", "Score", "After the swap", "Preemption", "Reason"):
        table.add_column(heading, justify="right" if heading in {"Score", "After the swap"} else "left")
    for node in report.cycle.nodes:
        table.add_row(
            f"{node.node} ←" if node.bound else node.node,
            "[green]passes[/]" if node.passes else "[red]rejected[/]",
            "" if node.score is None else str(node.score),
            str(report.swap.after[node.node]) if node.node in report.swap.after else "",
            "candidate" if node.preemption else "",
            node.reason,
        )
    return table


def _latencies(report: Report) -> Table:
    table = Table(title="Latency of a request, one connection", title_justify="left")
    table.add_column("Verb")
    table.add_column("first, ms", justify="right")
    table.add_column("p50, ms", justify="right")
    for verb in report.cycle.verbs:
        table.add_row(verb.verb, f"{verb.first_ms:.2f}", f"{verb.p50_ms:.2f}")
    return table


def _stay(process: subprocess.Popen[bytes], server: DemoServer, progress: Console) -> None:
    progress.print(f"Still serving. Put another module at {server.module('nodenumber')} to swap again; Ctrl-C ends.")
    try:
        process.wait()
    except KeyboardInterrupt:
        return
    raise DemoError(f"the extender ended by itself:\n{server.log.read_text()}")
