"""Rounds of scheduling cycles: a pod's in one host, then the same pod's in the other."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from bench.inprocess import cycle, upstream
from bench.inprocess.cycle import Answer
from bench.inprocess.upstream import UpstreamHost
from bench.inprocess.world import Nodes, pods
from wasm_runtime import Plugin, Pod, Settings
from wasm_runtime.engine import Engine

WARM_UP: Final = 2
"""Rounds before those that count."""
TIMEOUT: Final = 30.0
MEMORY_LIMIT: Final = 1 << 32
"""Seconds and bytes that a guest may take here; the upstream host has no limits."""


class Guest(NamedTuple):
    """A compiled guest."""

    name: str
    file: Path
    argv: tuple[str, ...]


class Bounds(NamedTuple):
    """How many rounds there are: `fewest`, and more for `seconds` or until there were `most`."""

    fewest: int
    most: int
    seconds: float


class Row(NamedTuple):
    """What was measured of a guest: medians in seconds."""

    guest: str
    nodes: int
    theirs: float
    ours: float
    rounds: int

    @property
    def ratio(self) -> float:
        """Below 1 where this runtime is the quicker one."""
        return self.ours / self.theirs


class NotComparableError(Exception):
    """A guest that fails in one of the hosts, or that they do not answer alike for."""


class CompilesOnce:
    """An engine that compiles each module once."""

    def __init__(self, engine: Engine) -> None:
        self.compile = cache(engine.compile)


def compare(engine: Engine, program: Path, guest: Guest, nodes: Nodes, bounds: Bounds) -> Row:
    """Measures a guest in the upstream host and here.

    Raises HostError, ModuleError, GuestError or NotComparableError.
    """
    settings = Settings(guest.argv[0], args=guest.argv, timeout=TIMEOUT, memory_limit=MEMORY_LIMIT)
    plugin = Plugin(engine, guest.file.read_bytes(), settings, extension_points=("filter", "score"))
    try:
        with upstream.running(program, guest.file, nodes.file, guest.argv) as host:
            # The extender does the same when it has started.
            gc.collect()
            gc.freeze()
            found = [_round(host, plugin, nodes, pod) for pod in _enough(bounds)]
    finally:
        gc.unfreeze()
        plugin.close()
    theirs, ours = map(statistics.median, zip(*found[WARM_UP:], strict=True))
    return Row(guest.name, len(nodes.names), theirs, ours, len(found) - WARM_UP)


def _enough(bounds: Bounds) -> Iterator[Pod]:
    """A pod for each round, those to warm up included."""
    end = time.monotonic() + bounds.seconds
    for at, pod in enumerate(pods(), -WARM_UP):
        if at == bounds.most or (at >= bounds.fewest and time.monotonic() > end):
            return
        yield pod


def _round(host: UpstreamHost, plugin: Plugin, nodes: Nodes, pod: Pod) -> tuple[float, float]:
    """The seconds of a pod's cycle there and here."""
    theirs = host.run(pod.object)
    ours = cycle.run(plugin, nodes.snapshot, nodes.names, pod)
    found = difference(theirs.answer, ours.answer)
    if found:
        raise NotComparableError(f"{pod.name}: {found}")
    return theirs.seconds, ours.seconds


def difference(theirs: Answer, ours: Answer) -> str:
    """What cannot be compared in two answers; empty if they are the same and no failures."""
    for where, failure in (("there", theirs.failure), ("here", ours.failure)):
        if failure:
            return f"fails {where}: {failure}"
    if theirs.pre_filter != ours.pre_filter:
        return f"PreFilter: {theirs.pre_filter} there, {ours.pre_filter} here"
    for verb, there, here in (("Filter", theirs.rejected, ours.rejected), ("Score", theirs.scores, ours.scores)):
        differ = [name for name in sorted(there.keys() | here.keys()) if there.get(name) != here.get(name)]
        if differ:
            first = differ[0]
            return f"{verb} of {len(differ)} nodes, as {first}: {there.get(first)} there, {here.get(first)} here"
    return ""
