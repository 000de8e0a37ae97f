"""A run: an extender of its own, so many requests, and what was found."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.extender.fuzz.player import Finding, Player
from tests.extender.fuzz.streams import Streams
from tests.extender.kwx import Extender, plugin, profile

WARM_UP = 50
"""Streams after which memory is looked at first."""
MAX_GROWN_MIB = 100
"""MiB that the extender may grow by: samples, cycles and kept JSON are bounded."""


class Report(NamedTuple):
    """The result of a run."""

    requests: int
    seconds: float
    grown_mib: float
    findings: list[Finding]


def run(folder: Path, seed: int, requests: int, only: int | None = None) -> Report:
    """Plays streams until there were so many requests, or only one. The extender has to live, and to find no fault."""
    streams, findings, played, number = Streams(seed), [], 0, 0
    plugins = [plugin("nodenumber"), plugin("accelerator")]
    with ExitStack() as stack:
        extender = stack.enter_context(Extender(folder, profile("default", *plugins), cluster={"mode": "dry-run"}))
        player = stack.enter_context(closing(Player(extender.address, streams)))
        process = psutil.Process(extender.process.pid)
        begun, before = time.monotonic(), 0
        numbers = [only] if only is not None else range(requests)
        for number in numbers:
            if number == WARM_UP or only is not None:
                before = process.memory_info().rss
            count, found = player.play(number)
            played += count
            findings += found
            if played >= requests:
                break
        grown = (process.memory_info().rss - before) / 2**20
    return Report(played, time.monotonic() - begun, grown, findings)
