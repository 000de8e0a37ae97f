"""A hot swap while requests flow."""

from __future__ import annotations

import shutil
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Final

import msgspec

from extender.commands.demo.client import SchedulerClient
from extender.commands.demo.cycle import scores_of

SWAP_TIMEOUT_S: Final = 60.0
"""Seconds after which a swap that has not shown in the answers has failed."""

PAUSE_S: Final = 0.002
"""Seconds between two requests, which leave a busy machine time for the compiler, whose priority is low."""

AFTER_SWAP_S: Final = 0.3
"""Seconds for which requests go on after the swap."""


class SwapReport(msgspec.Struct):
    """How requests were answered while a module was swapped."""

    requests: int
    failed: int
    seconds: float
    """From the exchange of the file to the first answer of the new module."""
    before: dict[str, int]
    """Score of each node before the swap."""
    after: dict[str, int]
    """Score of each node after the swap."""


class _Traffic:
    """Calls prioritize again and again in a thread of its own."""

    def __init__(self, client: SchedulerClient, body: bytes) -> None:
        self._client = client
        self._body = body
        self._request = msgspec.json.decode(body)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.requests = self.failed = 0
        self.scores = self._ask()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.requests += 1
            try:
                self.scores = self._ask()
            except (OSError, ValueError, HTTPException):
                self.failed += 1
            self._stopped.wait(PAUSE_S)

    def _ask(self) -> dict[str, int]:
        return scores_of(self._request, self._client.post("prioritize", self._body).body)


def swap(client: SchedulerClient, body: bytes, live: Path, new: Path) -> SwapReport:
    """Puts `new` in the place of `live` by a rename and waits until the answers to `body` change.

    Raises TimeoutError when they do not.
    """
    traffic = _Traffic(client, body)
    before = traffic.scores
    try:
        exchange(live, new)
        started = time.monotonic()
        while traffic.scores == before:
            if time.monotonic() - started > SWAP_TIMEOUT_S:
                raise TimeoutError(
                    f"{live.name} was exchanged, but the answers did not change in {SWAP_TIMEOUT_S:.0f} s"
                )
            time.sleep(0.001)
        seconds = time.monotonic() - started
        time.sleep(AFTER_SWAP_S)
    finally:
        traffic.stop()
    return SwapReport(traffic.requests, traffic.failed, seconds, before, traffic.scores)


def exchange(live: Path, new: Path) -> None:
    """Replaces a file at once, so that nobody sees half of it."""
    beside = live.with_suffix(".new")
    shutil.copyfile(new, beside)
    beside.replace(live)
