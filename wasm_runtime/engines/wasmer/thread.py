"""The thread on which everything of wasmer happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from wasm_runtime.supervision import SupervisedThread

T = TypeVar("T")

_Answer: TypeAlias = "SimpleQueue[tuple[Any, BaseException | None]]"


class OneThread:
    """Runs functions in one thread, in the order of their callers.

    wasmer's objects panic when any thread but the one that made them uses them, and a view of a memory when it
    is dropped elsewhere; guests are handed from thread to thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[_Answer, Callable[..., Any], tuple[object, ...]]] = SimpleQueue()
        self._thread = SupervisedThread(name, self._serve, is_vital=True)
        self._thread.start()

    def run(self, function: Callable[..., T], *arguments: object) -> T:
        """What the function returns, or raises. At once if this is the thread already."""
        if threading.get_ident() == self._thread.ident:
            return function(*arguments)
        answer: _Answer = SimpleQueue()
        self._jobs.put((answer, function, arguments))
        value, error = answer.get()
        if error is not None:
            raise error
        result: T = value
        return result

    def _serve(self) -> None:
        _do(*self._jobs.get())


def _do(answer: _Answer, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
    try:
        answer.put((function(*arguments), None))
    except BaseException as error:
        answer.put((None, error))
