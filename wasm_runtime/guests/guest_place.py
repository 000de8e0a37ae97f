"""A place of a pool: its guest, what that is used for, and which of several guests a pod gets."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, Literal

from wasm_runtime.guests.guest import Guest

CYCLE_TIMEOUT_S: Final = 30.0
"""Seconds after which nobody comes back to a pod's cycle. Its guest may go to another pod then."""

State = Literal["idle", "used", "maintained", "due"]
"""Of a place: its guest is free; a caller has it or makes it; maintenance has it; or the maker is to make it."""


class GuestPlace:
    """Room for a guest. Always in one state, which changes by one assignment: no failure leaves it between two."""

    __slots__ = ("error", "guest", "since", "state")

    def __init__(self, state: State) -> None:
        self.state: State = state
        self.since = time.monotonic()
        self.guest: Guest | None = None
        self.error: Exception | None = None
        """Why the maker could not make a guest here."""


def choose(places: Iterable[GuestPlace], uid: str, may_be_new: bool) -> GuestPlace | None:
    """The idle guest that a pod gets, or None. `places` are in the order in which their guests came back.

    It gets the guest that is on the pod's cycle, or None while maintenance has that guest. Otherwise it gets the guest,
    among those whose cycles have ended, that came back last, since its memory is in the processor's caches. If all
    others are kept for their pods, it gets None if there `may_be_new` guests, else the one that has been idle longest.
    """
    longest = last_ended = None
    is_maintained = False
    stale = time.monotonic() - CYCLE_TIMEOUT_S
    for place in places:
        if place.state == "idle":
            if place.guest and place.guest.uid == uid:
                return place
            longest = longest or place
            last_ended = place if _has_ended(place, stale) else last_ended
        elif place.state == "maintained" and uid and place.guest and place.guest.uid == uid:
            is_maintained = True
    if is_maintained:
        return None
    return last_ended or (None if may_be_new else longest)


def _has_ended(place: GuestPlace, stale: float) -> bool:
    """Whether a guest's cycle is over: it is on none, or it was given back before the time `stale`."""
    return place.guest is not None and (place.guest.uid is None or place.guest.left < stale)
