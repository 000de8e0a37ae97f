"""Which profile each pod's scheduling cycle began with."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from extender.scheduling.profile import Profile
from wasm_runtime.guests.pool import CYCLE

MOST: Final = 20_000
"""Cycles that are kept; beyond it the oldest ones go."""

AT_A_TIME: Final = 1_000
"""Cycles that are forgotten in one go, while verbs wait."""

Key = tuple[str, str]
"""A pod's UID and the route."""


class _Begun(NamedTuple):
    profile: Profile
    expires: float


class Cycles:
    """Keeps each cycle on the revisions that it began with, whatever goes live meanwhile.

    A pod has a cycle for each `route` by which it is asked about: the name of a profile in the path of the request, or
    none. kube-scheduler does not say when a cycle ends without a bind, so one expires `CYCLE` seconds after its filter.
    May be used from any thread.
    """

    def __init__(self) -> None:
        self._begun: OrderedDict[Key, _Begun] = OrderedDict()
        """The oldest first. A dict would look for it among all places of those that were before it, each time."""
        self._held: Counter[Profile] = Counter()
        """How many cycles are on each profile."""
        self._lock = threading.Lock()

    def begin(self, uid: str, profile: Profile, route: str = "") -> Profile:
        """Lets a pod's cycle begin with a profile, which is returned."""
        now = time.monotonic()
        with self._lock:
            if (uid, route) in self._begun:
                self._forget((uid, route))
            self._begun[uid, route] = _Begun(profile, now + CYCLE)
            self._held[profile] += 1
            if next(iter(self._begun.values())).expires <= now or len(self._begun) > MOST:
                self._expire(now, 2)  # One comes, at most two go: all vanish in time, and no verb waits for it.
        return profile

    def of(self, uid: str, live: Profile, route: str = "") -> Profile:
        """What a pod's cycle began with; `live` if it is over, or none has begun."""
        return self.begun(uid, route) or live

    def begun(self, uid: str, route: str = "") -> Profile | None:
        """What a pod's cycle began with; None if it is over, or none has begun."""
        begun = self._begun.get((uid, route))
        return begun.profile if begun and begun.expires > time.monotonic() else None

    @contextmanager
    def ending(self, uid: str, route: str = "") -> Iterator[None]:
        """The last of a pod's cycle. It ends with the context, but for one that has begun anew meanwhile."""
        begun = self._begun.get((uid, route))
        try:
            yield
        finally:
            with self._lock:
                if self._begun.get((uid, route)) is begun:
                    self._forget((uid, route))

    def held(self) -> Collection[Profile]:
        """The profiles that cycles are on. What the others were on is forgotten."""
        with self._lock:
            self._expire(time.monotonic(), AT_A_TIME)
            return set(self._held)

    def _expire(self, now: float, most: int) -> None:
        """Forgets some of the cycles that are over or too many."""
        for _ in range(min(most, len(self._begun))):
            oldest = next(iter(self._begun))
            if self._begun[oldest].expires > now and len(self._begun) <= MOST:
                break
            self._forget(oldest)

    def _forget(self, key: Key) -> None:
        if begun := self._begun.pop(key, None):
            self._held[begun.profile] -= 1
            if not self._held[begun.profile]:
                del self._held[begun.profile]
