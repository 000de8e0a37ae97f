"""Which profile each pod's scheduling cycle began with."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final, NamedTuple

from extender.profile import Profile
from wasm_runtime.pool import CYCLE

MOST: Final = 20_000
"""Cycles that are kept; beyond it the oldest ones go."""


class _Begun(NamedTuple):
    profile: Profile
    expires: float


class Cycles:
    """Keeps each cycle on the revisions that it began with, whatever goes live meanwhile.

    kube-scheduler does not say when a cycle ends without a bind, so one expires `CYCLE` seconds after its filter. For
    the serving thread only, but for `held`.
    """

    def __init__(self) -> None:
        self._begun: dict[str, _Begun] = {}
        """By the pod's UID, the oldest first."""

    def begin(self, uid: str, profile: Profile) -> Profile:
        """Lets a pod's cycle begin with a profile, which is returned."""
        now = time.monotonic()
        self._begun.pop(uid, None)
        self._begun[uid] = _Begun(profile, now + CYCLE)
        for _ in range(2):  # One comes, at most two go: expired ones vanish in time without a look at all.
            oldest = next(iter(self._begun))
            if self._begun[oldest].expires > now and len(self._begun) <= MOST:
                break
            del self._begun[oldest]
        return profile

    def of(self, uid: str, live: Profile) -> Profile:
        """What a pod's cycle began with; `live` if it is over, or none has begun in the profile of that name."""
        begun = self.begun(uid)
        return begun if begun and begun.name == live.name else live

    def begun(self, uid: str) -> Profile | None:
        """What a pod's cycle began with; None if it is over, or none has begun."""
        begun = self._begun.get(uid)
        return begun.profile if begun and begun.expires > time.monotonic() else None

    def end(self, uid: str) -> None:
        """Ends a pod's cycle."""
        self._begun.pop(uid, None)

    def held(self) -> Collection[Profile]:
        """The profiles that cycles are on. May be asked from any thread."""
        now = time.monotonic()
        return {begun.profile for begun in list(self._begun.values()) if begun.expires > now}
