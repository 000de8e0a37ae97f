"""A cache of the cluster's pods that begins when somebody asks for them, and ends when nobody has for a while."""

from __future__ import annotations

import threading
import time
from asyncio import Task
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from extender.cluster import PodCache
from extender.serve.background import Background

UNWANTED_S: Final = 600.0
"""Seconds for which pods are followed that nobody wants: a swap may come after the dry run."""


class PodsOnDemand:
    """The cluster's pods, listed and watched while a plugin asks for them: most never do.

    May be asked from any thread.
    """

    def __init__(
        self,
        make: Callable[[], PodCache],
        background: Background,
        is_wanted: Callable[[], bool],
        on_start: Callable[[PodCache], object],
        on_end: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_wanted` is whether anybody wants pods now. `clock` in seconds."""
        self._make = make
        self._background = background
        self._is_wanted = is_wanted
        self._on_start = on_start
        self._on_end = on_end
        self._clock = clock
        self._changing = threading.Lock()
        self._cache: PodCache | None = None
        self._task: Future[Task[None]] | None = None
        self._wanted_at = 0.0

    def start(self) -> PodCache:
        """Begins to list and watch, if that has not begun. Waits for nothing."""
        with self._changing:
            if self._cache is None:
                self._wanted_at = self._clock()
                self._cache = self._make()
                self._on_start(self._cache)
                self._task = self._background.spawn(self._cache.run, "pod cache")
            return self._cache

    def end_if_unwanted(self) -> None:
        """Ends it if nobody has wanted pods for long. To be called now and then, on the loop of `background`."""
        if self._cache is None:
            return
        if self._is_wanted():
            self._wanted_at = self._clock()
        elif self._clock() - self._wanted_at >= UNWANTED_S:
            self._end()

    def _end(self) -> None:
        with self._changing:
            cache, self._cache = self._cache, None
            if self._is_wanted():  # By somebody who has found it just before.
                self._cache = cache
            elif self._task:
                self._task.result(0).cancel()  # On its loop, so that it tells of nothing any more.
                self._task = None
                self._on_end()

    def follow(self) -> str | None:
        """Begins as `start` does. Returns why the pods must not be used yet; None if they may."""
        return (self._cache or self.start()).unusable

    @property
    def size(self) -> int:
        """The number of pods that are kept."""
        return cache.size if (cache := self._cache) else 0

    @property
    def outdated(self) -> float:
        """For how many seconds they may be outdated, if they are kept."""
        return cache.outdated if (cache := self._cache) else 0.0

    @property
    def unusable(self) -> str | None:
        """Why nothing may be answered from them, if they are kept and that is so."""
        return cache.unusable if (cache := self._cache) else None

    def get(self, uid: str) -> bytes | None:
        """A pod, a protobuf v1.Pod."""
        return self.start().get(uid)

    def find(self, uid: str, version: str) -> bytes | None:
        """The same at a resourceVersion, if pods are kept."""
        return cache.find(uid, version) if (cache := self._cache) else None
