"""A thread that writes down, so that nobody else waits for the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from wasm_runtime.supervision import SupervisedThread


class Writer:
    """Does one piece of work after the other, in the order in which they were submitted, from any thread."""

    def __init__(self, name: str) -> None:
        """Raises ThreadError."""
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._is_closed = False
        self._thread = SupervisedThread(name, self._turn)
        self._thread.start()

    def submit(self, work: Callable[[], object]) -> None:
        """Has something done, and returns at once."""
        self._work.put(work)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Returns when all that was submitted before is done; False if that was not so in time, or the end has come."""
        done = threading.Event()
        with self._closing:
            if self._is_closed:
                return False
            self.submit(done.set)
        return self._thread.is_alive() and done.wait(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Ends the thread when all that was submitted is done; False if that was not so in time."""
        with self._closing:
            self._is_closed = True
            self._work.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _turn(self) -> None:
        work = self._work.get()
        if work is None:
            self._thread.stop()
        else:
            work()
