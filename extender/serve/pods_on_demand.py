"""A cache of the cluster's pods that begins when somebody asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from extender.cluster import PodCache
from extender.serve.background import Background


class PodsOnDemand:
    """The cluster's pods, listed and watched from when a plugin goes live that asks for them: most never do.

    May be asked from any thread.
    """

    def __init__(
        self, make: Callable[[], PodCache], background: Background, on_start: Callable[[PodCache], object]
    ) -> None:
        self._make = make
        self._background = background
        self._on_start = on_start
        self._starting = threading.Lock()
        self._cache: PodCache | None = None

    def start(self) -> PodCache:
        """Begins to list and watch, if that has not begun. Waits for nothing."""
        with self._starting:
            if self._cache is None:
                self._cache = self._make()
                self._on_start(self._cache)
                self._background.spawn(self._cache.run, "pod cache")
            return self._cache

    def follow(self) -> str | None:
        """Begins as `start` does. Why nothing may be answered from the pods, if that is so."""
        return (self._cache or self.start()).unusable

    @property
    def size(self) -> int:
        """The number of pods that are kept."""
        return self._cache.size if self._cache else 0

    @property
    def outdated(self) -> float:
        """For how many seconds they may be outdated, if they are kept."""
        return self._cache.outdated if self._cache else 0.0

    @property
    def unusable(self) -> str | None:
        """Why nothing may be answered from them, if they are kept and that is so."""
        return self._cache.unusable if self._cache else None

    def get(self, uid: str) -> bytes | None:
        """A pod, a protobuf v1.Pod."""
        return self.start().get(uid)

    def find(self, uid: str, version: str) -> bytes | None:
        """The same at a resourceVersion, if pods are kept."""
        return self._cache.find(uid, version) if self._cache else None
