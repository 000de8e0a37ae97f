"""Threads and tasks that others rely on: one that fails is told of, and goes on.

The table of them is in ARCHITECTURE.md.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 30.0
"""Seconds at most until it goes on after a failure. The pause doubles with each failure in a row."""

SETTLED_S: Final = 10.0
"""Seconds after which it counts as well again, if it has gone on for so long since a failure."""

_lock = threading.Lock()
_supervised: weakref.WeakSet[Supervised] = weakref.WeakSet()


class ThreadError(Exception):
    """A thread cannot be started. `str()` names it, cause and mend."""


class Supervised:
    """Work that goes on as long as the process, or until it is ended; and the failure that keeps it from that."""

    def __init__(self, name: str, *, is_vital: bool = False) -> None:
        """If it `is_vital`, the process must not serve without it."""
        self.name = name
        self.is_vital = is_vital
        self._problem = ""
        self._failures = 0
        self._begun_at = math.inf
        """On the clock of `time.monotonic`; infinite while it does not run."""
        with _lock:
            _supervised.add(self)

    @property
    def problem(self) -> str:
        """Why it does not run, or had to begin anew; empty if all is well."""
        return "" if self._has_settled else self._problem

    @property
    def _has_settled(self) -> bool:
        return time.monotonic() - self._begun_at > SETTLED_S

    def begins(self) -> None:
        """Says that it runs from now on."""
        self._begun_at = time.monotonic()

    def ends(self) -> None:
        """Says that it is not to go on, so that nothing is told of it any more."""
        with _lock:
            _supervised.discard(self)

    def went_well(self) -> None:
        """Says that one of its many turns has ended well."""
        self._failures, self._problem = 0, ""

    def failed(self, error: BaseException) -> float:
        """Says that it does not run any more. Returns the seconds after which it is to go on. Tells the same once."""
        if self._has_settled:
            self.went_well()
        self._begun_at = math.inf
        problem = f"{self.name} has failed and is begun anew: {error!r}"
        if problem != self._problem:
            self._problem = problem
            with suppress(Exception):  # Nothing of the log's may end what is to go on.
                logger.critical("%s has failed and is begun anew", self.name, exc_info=error)
        self._failures = min(self._failures + 1, 16)
        return min(FIRST_PAUSE_S * 2.0 ** (self._failures - 1), MAX_PAUSE_S)


class SupervisedThread(Supervised):
    """A thread that takes a turn again and again until it is stopped, whatever a turn raises."""

    def __init__(self, name: str, turn: Callable[[], float | None], *, is_vital: bool = False) -> None:
        """`turn` returns how many seconds pass before the next one."""
        super().__init__(name, is_vital=is_vital)
        self._turn = turn
        self._stopped = threading.Event()
        self._starting = threading.Lock()
        """Held while a thread is started, which looks until then like one that has ended."""
        self._thread: threading.Thread | None = None
        self._pause_s = 0.0

    def start(self, after_s: float = 0.0) -> None:
        """Takes the first turn so many seconds later. Raises ThreadError where no thread can be had."""
        with self._starting:
            self._start(after_s)

    def _start(self, after_s: float) -> None:
        self._pause_s = after_s
        self._thread = thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        try:
            thread.start()
        except Exception as error:
            self.failed(error)
            mend = "let this process have more threads (pids) or memory"
            raise ThreadError(
                f"thread {self.name} cannot be started: {error or type(error).__name__}; {mend}"
            ) from error

    def revive(self) -> None:
        """Starts it again if it was started and has ended all the same."""
        if not self._starting.acquire(blocking=False):
            return
        try:
            if self._thread and not self._stopped.is_set() and not self._thread.is_alive():
                with suppress(ThreadError):  # It is told of.
                    self._start(self._pause_s)
        finally:
            self._starting.release()

    def stop(self) -> None:
        """Ends it after the turn at hand."""
        self._stopped.set()
        self.ends()

    def join(self, timeout_s: float | None = None) -> None:
        """Waits for the end."""
        if self.is_alive():
            assert self._thread
            self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def ident(self) -> int | None:
        """What `threading.get_ident` gives in it."""
        return self._thread.ident if self._thread else None

    @property
    def is_stopped(self) -> bool:
        """Whether it is to end."""
        return self._stopped.is_set()

    @property
    def problem(self) -> str:
        """Why it does not run, or had to begin anew; empty if all is well, or it has not been started."""
        if self._thread is None:
            return ""
        return super().problem or ("" if self._thread.is_alive() else f"{self.name} has ended and is begun anew")

    def _run(self) -> None:
        while not (self._stopped.wait(self._pause_s) if self._pause_s else self._stopped.is_set()):
            try:
                self.begins()
                self._pause_s = self._turn() or 0.0
                if self._failures:
                    self.went_well()
            except BaseException as error:
                self._pause_s = self.failed(error)


def problems(*, vital: bool) -> list[str]:
    """What is wrong with all that is vital, or with all that is not."""
    return sorted(each.problem for each in _all() if each.is_vital is vital and each.problem)


def revive() -> None:
    """Starts the threads again that have ended though they were not to."""
    for each in _all():
        if isinstance(each, SupervisedThread):
            each.revive()


def _all() -> list[Supervised]:
    with _lock:
        return list(_supervised)
