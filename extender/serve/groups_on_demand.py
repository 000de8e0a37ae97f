"""The groups of the cluster's pods, followed from when a plugin asks for them until the pods are followed no more."""

from __future__ import annotations

import threading
from asyncio import Task
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from extender.cluster import GroupCache
from extender.scheduling.groups import Groups
from extender.serve.background import Background


class GroupsOnDemand:
    """Begins to look for groups when somebody asks: most clusters have none. May be asked from any thread."""

    def __init__(
        self,
        groups: Groups,
        make: Callable[[], Sequence[GroupCache]],
        background: Background,
        on_start: Callable[[GroupsOnDemand], object],
    ) -> None:
        """`make` gives what brings the objects of groups."""
        self._groups = groups
        self._make = make
        self._background = background
        self._on_start = on_start
        self._changing = threading.Lock()
        self._caches: Sequence[GroupCache] = ()
        """Empty while groups are not followed."""
        self._tasks: list[Future[Task[None]]] = []

    def start(self) -> GroupsOnDemand:
        """Begins, if that has not begun. Waits for nothing but a look at the pods that are there."""
        with self._changing:
            if not self._caches:
                self._groups.follow()
                self._caches = self._make()
                self._on_start(self)
                self._tasks = [self._background.spawn(cache.run, "group cache") for cache in self._caches]
        return self

    def end(self) -> None:
        """Forgets all groups. To be called on the loop of `background`."""
        with self._changing:
            for task in self._tasks:
                task.result(0).cancel()  # On its loop, so that it tells of nothing any more.
            self._caches, self._tasks = (), []
            self._groups.unfollow()

    def follow(self) -> str | None:
        """Begins as `start` does. Returns why the groups must not be used yet; None if they may."""
        return (self if self._caches else self.start()).unusable

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    @property
    def outdated(self) -> float:
        """For how many seconds their objects may be outdated, if they are kept."""
        return max((cache.outdated for cache in self._caches), default=0.0)

    @property
    def unusable(self) -> str | None:
        """Why nothing may be answered from them, if they are kept and that is so."""
        return "; ".join(filter(None, (cache.unusable for cache in self._caches))) or None

    @property
    def problem(self) -> str | None:
        """What keeps their objects from being current, if anything does."""
        return "; ".join(filter(None, (cache.problem for cache in self._caches))) or None
