"""Waiting in tests: always for an event, with a bound, and with a message that says what has not come."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final, Generic, TypeVar

PATIENCE_S: Final = 60.0
"""Seconds that a wait may take: far more than anything on a busy machine, and far less than a test may."""

POLL_INTERVAL_S: Final = 0.005

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], object],
    timeout_s: float = PATIENCE_S,
    interval_s: float = POLL_INTERVAL_S,
) -> T:
    """The result of the condition once it is true. `what` names what is awaited, or tells how things stand."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what() if callable(what) else what}")
        time.sleep(interval_s)
    return found


async def eventually(
    condition: Callable[[], object],
    what: str | Callable[[], object] = "",
    timeout_s: float = PATIENCE_S,
    interval_s: float = POLL_INTERVAL_S,
) -> None:
    """Returns when the condition is true. `what` is as for `wait_until`; without it the failure shows the condition."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            told = what() if callable(what) else what or _source(condition)
            raise AssertionError(f"not within {timeout_s:g} s: {told}")
        await asyncio.sleep(interval_s)


def _source(function: Callable[..., object]) -> str:
    try:
        return " ".join(inspect.getsource(function).split())
    except (OSError, TypeError):  # A partial has no source.
        return repr(function)


def join(thread: threading.Thread, timeout_s: float = PATIENCE_S) -> None:
    """Waits for the end of a thread. If it does not end, the message says where it stands."""
    thread.join(timeout_s)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        where = "".join(traceback.format_stack(frame)) if frame else "?"
        raise AssertionError(f"not over within {timeout_s:g} s: {thread.name}\n{where}")


class Beside(Generic[T]):
    """Work that goes on in a thread of its own, from now on."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"test-{work}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error

    @property
    def is_over(self) -> bool:
        """Whether the work has ended."""
        return not self._thread.is_alive()

    def end(self, timeout_s: float = PATIENCE_S) -> T:
        """Waits for the end of the work. Returns what it returned, or raises what it raised."""
        join(self._thread, timeout_s)
        if self._error:
            raise self._error
        return self._result


def ending(status: int) -> str:
    """How a process that was waited for has ended."""
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def delay(seconds: float) -> None:
    """Sleeps where a test plays something slow, or lets something go on for a time; never to wait for an event."""
    time.sleep(seconds)
