"""Threads of a verb that carry out what is submitted to them, or nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class NoThreadError(Exception):
    """No thread can be started for a verb. `str()` says why, and what mends it."""


class Workers(ThreadPoolExecutor):
    """A ThreadPoolExecutor that keeps nothing of what it could not take.

    One of the standard library queues what is submitted before it starts a thread. If that fails it raises, and another
    thread carries the work out later all the same: a pod would be bound after its bind was answered with an error.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """What becomes of `fn(*args, **kwargs)`. Raises NoThreadError; `fn` is not called then."""
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        try:
            super().submit(work)
        except Exception as error:
            if future.cancel():
                raise NoThreadError(
                    f"no thread can be started for it: {str(error) or type(error).__name__};"
                    " let the extender have more threads (pids) or memory"
                ) from error
        return future
