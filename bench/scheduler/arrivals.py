"""Pods that come at a rate, whether the scheduler keeps up or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPException
from types import TracebackType

from bench.scheduler.api import PODS, Api
from bench.scheduler.errors import MeasureError
from bench.scheduler.load import Pod


class Arrivals:
    """Creates pods in a thread, over one connection; a context manager that ends it."""

    def __init__(self, api: Api, pods: Sequence[Pod], rate: float) -> None:
        """`rate` is in pods a second."""
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
        self._thread.join()

    def check(self) -> None:
        """Raises MeasureError if pods cannot be created."""
        if self._problem:
            raise MeasureError(f"pods cannot be created: {self._problem}")

    def _run(self) -> None:
        try:
            self._create()
        except (OSError, HTTPException, MeasureError) as error:
            self._problem = str(error)

    def _create(self) -> None:
        begun = time.monotonic()
        with closing(self._api.connect()) as connection:
            for at, pod in enumerate(self._pods):
                if self._end.wait(max(0.0, begun + at / self._rate - time.monotonic())):
                    return
                self._api.send(connection, "POST", PODS, pod.body).read()
