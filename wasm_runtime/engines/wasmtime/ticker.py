"""The clock that interrupts guests at their deadline."""

from __future__ import annotations

import math
import threading
import time
from typing import Final

import wasmtime

from wasm_runtime.supervision import SupervisedThread
from wasm_runtime.wasmtime_capi import EpochDeadline

TICK_S: Final = 0.002
"""Seconds between two epochs: a guest is interrupted at most this late."""

MAX_IDLE_TICKS: Final = 500
"""Ticks without a call after which the clock stops until the next call."""


class Ticker:
    """Advances the engine's epoch while guests run.

    The thread keeps ticking for a second after the last call, so that a call seldom has to wake it.
    """

    def __init__(self, engine: wasmtime.Engine) -> None:
        self._engine = engine
        self._running: set[EpochDeadline] = set()
        self._now = 0.0
        """The time that the engine's epoch stands for, never later than the true one while guests run."""
        self._quiet = 0
        self._awake = threading.Event()
        self._thread = SupervisedThread("wasm-ticker", self._tick, is_vital=True)
        self._thread.start()  # What cannot be interrupted must not run at all.

    def start(self, interrupt: EpochDeadline, deadline: float) -> None:
        """Arms the interrupt of a store's next call at `deadline` on `time.monotonic`'s clock."""
        self._running.add(interrupt)
        self._quiet = 0
        if not self._awake.is_set():
            self._now = time.monotonic()
            self._awake.set()
        interrupt(max(1, math.ceil((deadline - self._now) / TICK_S)))

    def stop(self, interrupt: EpochDeadline) -> None:
        """Says that the store's call has returned."""
        self._running.discard(interrupt)

    def _advance(self) -> None:
        """Brings the epoch up to the clock, by several ticks where another thread held the GIL.

        An epoch is counted after it has begun, so that a call that starts meanwhile is not cut short.
        """
        while self._now + TICK_S <= time.monotonic():
            self._engine.increment_epoch()
            self._now += TICK_S

    def _tick(self) -> None:
        self._awake.wait()
        time.sleep(max(0.0, self._now + TICK_S - time.monotonic()))
        self._advance()
        self._quiet += 1
        if self._quiet > MAX_IDLE_TICKS and not self._running:
            self._awake.clear()
            if self._running:
                self._awake.set()
