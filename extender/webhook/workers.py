"""Threads of a verb that carry out what is submitted to them, or nothing of it."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class NoThreadError(Exception):
    """No thread can be started for a verb. `str()` says why, and what mends it."""


class Workers(Executor):
    """Threads that are started as they are needed, and stay. The end of the process waits for those that work.

    The executor of the standard library queues what is submitted before it starts a thread. If that fails, another
    thread carries the work out later all the same: a pod would be bound after its bind was answered with an error. And
    up to CPython 3.11 such work is counted as an idle thread from then on, in whose place none is started.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        """`name` begins the names of the threads."""
        self._crew = _Crew(max_threads, name)
        weakref.finalize(self, self._crew.close)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """What becomes of `fn(*args, **kwargs)`. Raises NoThreadError; `fn` is not called then."""
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._crew.take(_Work(future, work, time.monotonic()))
        return future

    @property
    def backlog_s(self) -> float:
        """For how long what is to be done next has waited for a thread; 0 if nothing waits."""
        return self._crew.backlog_s()


class _Work(NamedTuple):
    """What a thread is to do, unless its future is cancelled before."""

    future: Future[Any]
    run: Callable[[], None]
    since: float
    """By `time.monotonic`."""


class _Crew:
    """The threads, apart from who submits to them: they end when that is gone."""

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        """How many threads wait for work, those included that are about to take some of the queue."""
        self._queue: deque[_Work] = deque()
        self._is_closed = False

    def take(self, work: _Work) -> None:
        """Gives work to a thread, or has it wait for one where there are as many as may be. Raises NoThreadError.

        What has waited longest and was cancelled makes room: the queue does not grow while all threads are held.
        """
        with self._changed:
            if self._is_closed:
                raise NoThreadError("no thread is started for it any more: the extender ends")
            while self._queue and self._queue[0].future.cancelled():
                self._queue.popleft()
            self._queue.append(work)
            if self._idle >= len(self._queue) or len(self._threads) >= self._max_threads:
                self._changed.notify()
                return
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except Exception as error:
                self._queue.pop()
                raise NoThreadError(
                    f"no thread can be started for it: {str(error) or type(error).__name__};"
                    " let the extender have more threads (pids) or memory"
                ) from error
            self._threads.add(thread)

    def backlog_s(self) -> float:
        """For how long what is to be done next has waited."""
        with self._changed:
            return time.monotonic() - self._queue[0].since if self._queue else 0.0

    def close(self) -> None:
        """Ends the threads, and waits for those that work. Nothing is taken any more."""
        with self._changed:
            self._is_closed = True
            threads = self._threads - {threading.current_thread()}
            self._changed.notify_all()
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        try:
            while work := self._next():
                work.run()
                del work  # What it holds is not held until the next comes.
        finally:
            with self._changed:
                self._threads.discard(threading.current_thread())

    def _next(self) -> _Work | None:
        """What is to be done next, when there is something; None once there will be nothing."""
        with self._changed:
            self._idle += 1
            try:
                while not (self._queue or self._is_closed):
                    self._changed.wait()
            finally:
                self._idle -= 1
            return self._queue.popleft() if self._queue else None
