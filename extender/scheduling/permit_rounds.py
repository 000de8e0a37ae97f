"""Asking plugins again about pods that wait on Permit."""

from __future__ import annotations

import time
from typing import Final

from extender.scheduling.waiting_pods import WaitingPods
from wasm_runtime.supervision import SupervisedThread

MIN_PAUSE_S: Final = 0.02
"""Seconds between two rounds, so that one round takes all changes that come meanwhile."""

MAX_SHARE: Final = 0.2
"""Part of the time that rounds take at most: a thousand pods that wait leave the processor to others."""


class PermitRounds:
    """Asks about all pods that wait, in a thread of its own: soon after a change, or never if none comes."""

    def __init__(self, waiting: WaitingPods) -> None:
        self._waiting = waiting
        self._thread = SupervisedThread("permit", self._turn)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends when the round at hand is done."""
        self._thread.stop()
        self._waiting.woken.set()
        self._thread.join()

    def _turn(self) -> float:
        self._waiting.woken.wait()
        self._waiting.woken.clear()
        if self._thread.is_stopped:
            return 0.0
        begun = time.monotonic()
        self._waiting.ask_again()
        return max(MIN_PAUSE_S, (time.monotonic() - begun) * (1 / MAX_SHARE - 1))
