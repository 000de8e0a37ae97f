"""Pods that come at a rate, whether the scheduler keeps up or not."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPException
from types import TracebackType

from bench.scheduler.api import PODS, Api, join
from bench.scheduler.errors import MeasureError, TooLateError
from bench.scheduler.load import Pod


class Arrivals:
    """Creates pods in a thread, over one connection; a context manager that ends it.

    What a pod waits for counts from when it was due, not from when it was created: one that had to wait for the answer
    about another one would else have its time cut (Tene's coordinated omission).
    """

    def __init__(self, api: Api, pods: Sequence[Pod], rate: float) -> None:
        """`rate` is in pods a second."""
        self.due: dict[str, float] = {}
        """Seconds of `time.perf_counter` at which a pod was to be created, by its name, once that has begun."""
        self._late: list[float] = []
        self._api = api
        self._pods = pods
        self._rate = rate
        self._problem = ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals")

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end.set()
        join(self._thread)

    def check(self) -> None:
        """Raises MeasureError if pods cannot be created."""
        if self._problem:
            raise MeasureError(f"pods cannot be created: {self._problem}")

    def check_pace(self) -> None:
        """Raises TooLateError if pods did not come at the rate."""
        check_pace(self._late, self._rate)

    def _run(self) -> None:
        try:
            self._create()
        except (OSError, HTTPException, MeasureError) as error:
            self._problem = str(error)

    def _create(self) -> None:
        begun = time.perf_counter()
        with closing(self._api.connect()) as connection:
            for at, pod in enumerate(self._pods):
                due = begun + at / self._rate
                if self._end.wait(max(0.0, due - time.perf_counter())):
                    return
                self._late.append(time.perf_counter() - due)
                self.due[pod.name] = due
                self._api.send(connection, "POST", PODS, pod.body).read()


def check_pace(late: Sequence[float], rate: float) -> None:
    """Raises TooLateError if pods of a rate were sent so many seconds late that they did not come at it.

    What falls behind does so more and more: the later half tells. What was held up once catches up.
    """
    behind = statistics.median(late[len(late) // 2 :])
    if behind * rate > 1:
        raise TooLateError(
            f"the API server took pods more slowly than {rate:g} a second: in the end they came {behind * 1e3:.0f} ms"
            " late; stop other programs, or run with fewer nodes or on a machine with more cores"
        )
