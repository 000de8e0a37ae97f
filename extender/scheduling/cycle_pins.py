"""Pins each pod's scheduling cycle to the profile that was live when it began."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from extender.scheduling.profile import Profile
from wasm_runtime.guests.guest_place import CYCLE_TIMEOUT_S

MAX_CYCLES: Final = 20_000
"""Cycles that are kept; beyond it the oldest ones go."""

MAX_EXPIRED_AT_ONCE: Final = 1_000
"""Cycles that are forgotten in one go, while verbs wait."""

MAX_SCORES: Final = 131_072
"""Scores that are kept, some 20 MiB. A cycle beyond it keeps none, and prioritize computes them."""

Key = tuple[str, str]
"""A pod's UID and the route."""

_NO_SCORES: Final[Mapping[str, int]] = {}


class _Pin(NamedTuple):
    profile: Profile
    expires: float
    scores: Mapping[str, int]
    """Those that filter has found of the nodes that it has answered."""


class CyclePins:
    """Pins cycles to profiles, so that each pod is judged by the same revisions from filter to bind.

    A pod has a cycle for each `route` by which it is asked about: the name of a profile in the path of the request, or
    none. kube-scheduler does not say when a cycle ends without a bind, so a cycle expires `CYCLE_TIMEOUT_S` after its
    filter.
    May be used from any thread.
    """

    def __init__(self) -> None:
        self._pins: OrderedDict[Key, _Pin] = OrderedDict()
        """The oldest first. A dict would look for the oldest one among the empty places of all that were deleted before
        it."""
        self._in_use: Counter[Profile] = Counter()
        """How many cycles and binding cycles are on each profile."""
        self._scores = 0
        """How many scores all cycles keep."""
        self._lock = threading.Lock()

    def pin(self, uid: str, profile: Profile, route: str = "") -> Profile:
        """Begins a pod's cycle and pins it to a profile, which is returned."""
        now = time.monotonic()
        with self._lock:
            if (uid, route) in self._pins:
                self._forget((uid, route))
            self._pins[uid, route] = _Pin(profile, now + CYCLE_TIMEOUT_S, _NO_SCORES)
            self._in_use[profile] += 1
            if next(iter(self._pins.values())).expires <= now or len(self._pins) > MAX_CYCLES:
                self._expire(now, 2)  # One comes, at most two go: all vanish in time, and no verb waits for it.
        return profile

    def pinned(self, uid: str, route: str = "") -> Profile | None:
        """The profile that a pod's cycle is pinned to; None if the cycle is over, or none has begun."""
        pin = self._pins.get((uid, route))
        return pin.profile if pin and pin.expires > time.monotonic() else None

    def keep_scores(self, key: Key, profile: Profile, scores: Mapping[str, int]) -> None:
        """Keeps the scores that prioritize is to answer, by the node's name, if the pod's cycle is on that profile."""
        with self._lock:
            pin = self._pins.get(key)
            if pin is None or pin.profile is not profile:
                return
            kept = self._scores + len(scores) - len(pin.scores)
            if kept <= MAX_SCORES:
                self._scores = kept
                self._pins[key] = pin._replace(scores=scores)

    def scores(self, key: Key, names: Sequence[str]) -> list[int] | None:
        """What prioritize is to answer about some nodes; None if that is not known of all."""
        pin = self._pins.get(key)
        if pin is None or pin.expires <= time.monotonic() or not all(map(pin.scores.__contains__, names)):
            return None
        return list(map(pin.scores.__getitem__, names))

    @contextmanager
    def unpinning(self, uid: str, route: str = "") -> Iterator[None]:
        """Ends a pod's cycle with the context, unless another cycle of the pod has begun meanwhile."""
        pin = self._pins.get((uid, route))
        try:
            yield
        finally:
            with self._lock:
                if self._pins.get((uid, route)) is pin:
                    self._forget((uid, route))

    @contextmanager
    def holding(self, profile: Profile) -> Iterator[None]:
        """Keeps a profile in use as long as the context lasts: a pod may wait longer than its cycle is kept."""
        with self._lock:
            self._in_use[profile] += 1
        try:
            yield
        finally:
            with self._lock:
                self._let_go(profile)

    def profiles_in_use(self) -> Collection[Profile]:
        """The profiles that cycles are pinned to, or binding cycles on. Cycles that are over are forgotten first."""
        with self._lock:
            self._expire(time.monotonic(), MAX_EXPIRED_AT_ONCE)
            return set(self._in_use)

    def _expire(self, now: float, most: int) -> None:
        """Forgets some of the cycles that are over or too many."""
        for _ in range(min(most, len(self._pins))):
            oldest = next(iter(self._pins))
            if self._pins[oldest].expires > now and len(self._pins) <= MAX_CYCLES:
                break
            self._forget(oldest)

    def _forget(self, key: Key) -> None:
        if pin := self._pins.pop(key, None):
            self._scores -= len(pin.scores)
            self._let_go(pin.profile)

    def _let_go(self, profile: Profile) -> None:
        self._in_use[profile] -= 1
        if not self._in_use[profile]:
            del self._in_use[profile]
