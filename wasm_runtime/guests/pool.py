"""The guests of a plugin: who has one, who waits for one, and what takes the place of a broken one."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from wasm_runtime.errors import Fault, GuestError
from wasm_runtime.guests.guest import Guest
from wasm_runtime.guests.guest_place import GuestPlace, State, choose
from wasm_runtime.guests.maker import Maker
from wasm_runtime.guests.waiters import Waiters

logger = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 30.0
"""After a guest could not be made, maintenance tries again after the first of these, then after twice as long each
time, up to the second."""

MAX_WAIT_FOR_NEW_S: Final = 0.05
"""Seconds that a pod waits for a guest that is being made, while there is one that is kept for another pod. A guest
that has tens of thousands of pods to learn takes longer."""

_BEING_MADE: Final = "another one is still being made"


class Pool:
    """At most `limit` guests. May be used from any thread.

    A guest that broke is closed and replaced in a thread of the pool's own, so that no request waits for that longer
    than it must. A guest that has much to learn first is made in that thread, too. If a guest cannot be made, its place
    is given up. The next request tries again, and gets the error. If the pool has no guest at all, maintenance tries
    again, too.
    """

    def __init__(
        self,
        name: str,
        new: Callable[[], Guest],
        limit: int,
        *,
        keeps_cycles: bool,
        learns: bool = False,
        prepare: Callable[[Guest], object] = lambda _: None,
    ) -> None:
        """Makes a first guest. With `keeps_cycles`, a guest is kept for its pod while other pods may get another one.

        `prepare` is called with each guest that the pool makes in advance. With `learns`, it is also called with guests
        that a request waits for, and the pool's thread makes these, so that no request does all the learning alone.
        Raises what `new` and `prepare` raise.
        """
        self._name = name
        self._new = new
        self._prepare = prepare
        self._limit = limit
        self._keeps_cycles = keeps_cycles
        self._learns = learns
        self._lock = threading.RLock()
        self._places: list[GuestPlace] = []
        """Every place of the pool. Idle ones are in the order in which their guests came back."""
        self._reserved: dict[int, GuestPlace] = {}
        """The place that each thread has reserved, by the thread's id. A thread looks up its own id only."""
        self._maker: Maker | None = None
        """The thread that makes guests, while a place is due. It stays here if it has died."""
        self._waiters = Waiters(self._lock)
        self._closed = False
        self._failures = 0
        """How often in a row no guest could be made."""
        self._failure = ""
        self._retry_at = 0.0
        first = GuestPlace("idle")
        first.guest = self._new_prepared()
        self._places.append(first)

    def __len__(self) -> int:
        """How many guests there are, those in use and in the making included."""
        return len(self._places)

    @property
    def problem(self) -> str:
        """Why there is no guest, since none can be made; empty otherwise."""
        with self._lock:
            if any(place.guest and place.state != "due" for place in self._places):
                return ""
            return self._maker.death if self._maker and self._maker.has_died else self._failure

    def take(self, uid: str, deadline: float, keep_free: int = 0) -> Guest:
        """A guest for a pod: the one on its cycle, else an idle one, else a new one, else one that comes back in time.

        `keep_free` is how many guests the caller leaves to others, if there may be more than one. A thread that has
        reserved one gets that one. Raises GuestError, or what kept a new one from being made.
        """
        if reserved := self._reserved.get(threading.get_ident()):
            return _unbroken(reserved)
        max_guests = max(self._limit - keep_free, 1)
        asked: GuestPlace | None = None
        with self._lock:
            while True:
                now = time.monotonic()
                found = self._find(uid, max_guests, now) if self._in_use < max_guests else None
                if found and found.guest:
                    found.state = "used"
                    return found.guest
                if asked and asked.error:
                    raise asked.error
                self._see_to_what_is_due()
                if len(self._places) < max_guests and not self._count("due", "maintained"):
                    asked = self._grow()
                    if asked.state == "used":
                        break
                waiter = self._waiters.wait(uid, max_guests, self._patience(now, deadline), self._take_back)
                if waiter.place and waiter.place.guest:
                    return waiter.place.guest
                if not waiter.was_told and time.monotonic() >= deadline:
                    raise GuestError(Fault.BUSY, "instance", self._in_the_way(max_guests))
        return self._make(asked)

    def reserve(self, uid: str) -> bool:
        """Holds a guest for this thread if a pod can have it at once. Returns whether there was one.

        From then on until `release` the thread gets it whenever it takes one, and waits for none.
        """
        thread = threading.get_ident()
        if thread in self._reserved:
            return True
        with self._lock:
            found = self._find(uid, self._limit, time.monotonic())
            if found is None:
                return False
            self._reserved[thread] = found
            found.state = "used"
        return True

    def release(self) -> None:
        """Gives back what this thread has reserved."""
        if reserved := self._reserved.pop(threading.get_ident(), None):
            self._take_back(reserved)

    def forget(self, uid: str) -> None:
        """Ends a pod's cycle."""
        with self._lock:
            own = self._reserved.get(threading.get_ident())
            for place in self._places:
                if place.guest and place.guest.uid == uid and (place.state != "used" or place is own):
                    place.guest.end_cycle()

    def maintain(self, work: Callable[[Guest], bool]) -> bool:
        """Does some work on each idle guest, one after the other. Returns whether any guest has more to be done.

        The guest that the next pod gets comes first. A guest keeps its turn among the idle ones. A request that needs
        the guest waits for it meanwhile, and while any request waits, nothing is begun. If there is no guest, one is
        made when it is time. Raises what `work` raises.
        """
        with self._lock:
            if not self._places and not self._closed and time.monotonic() >= self._retry_at:
                self._places.append(GuestPlace("due"))
        self._see_to_what_is_due()
        with self._lock:
            first = choose(self._places, "", may_be_new=False)
            places = sorted(self._places, key=lambda place: place is not first)
        left = [self._maintain(place, work) for place in places]
        return any(left)

    def _maintain(self, place: GuestPlace, work: Callable[[Guest], bool]) -> bool:
        with self._lock:
            if self._waiters or place.state != "idle" or not place.guest or self._closed:
                return False
            place.state = "maintained"
        try:
            return work(place.guest)
        finally:
            self._take_back(place, keeps_turn=True)

    def put_back(self, guest: Guest) -> None:
        """Takes a guest back; a broken one is replaced."""
        guest.left = time.monotonic()
        if threading.get_ident() in self._reserved:
            return
        with self._lock:
            place = next(place for place in self._places if place.guest is guest)
        self._take_back(place)

    def _take_back(self, place: GuestPlace, *, keeps_turn: bool = False) -> None:
        with self._lock:
            is_over, is_due = self._closed, place.guest is not None and place.guest.is_broken
            lets_others_grow = is_over or is_due or place.state == "maintained"
            if is_over or not keeps_turn:
                self._places.remove(place)
            if not is_over:
                place.state = "due" if is_due else "idle"
                if not keeps_turn:
                    self._places.append(place)
            self._hand_out()
            if lets_others_grow:
                self._waiters.wake()
        if is_over:
            _close(place.guest)
        elif is_due:
            self._see_to_what_is_due()

    def _hand_out(self) -> None:
        self._waiters.hand_out(self._count("idle"), self._in_use, partial(self._find, now=time.monotonic()))

    def close(self) -> None:
        """Closes the guests, those in use when they come back."""
        with self._lock:
            self._closed = True
            idle = [place for place in self._places if place.state == "idle"]
            self._places = [place for place in self._places if place.state != "idle"]
        for place in idle:
            _close(place.guest)

    def _count(self, *states: State) -> int:
        return sum(place.state in states for place in self._places)

    @property
    def _in_use(self) -> int:
        """How many guests are taken: by callers or by maintenance."""
        return self._count("used", "maintained")

    def _in_the_way(self, max_guests: int) -> str:
        """Why a caller that may use so many guests gets none, and what mends that, if anything does."""
        if self._count("used") >= max_guests:
            return f"all {max_guests} that may be used here are in use; raise the plugin's instances"
        return _BEING_MADE if self._count("due") else "it still learns of nodes or pods, or collects garbage"

    def _patience(self, now: float, deadline: float) -> float:
        """Seconds to wait for a guest or a change: until the deadline, or until a guest that is being made takes long.

        `now` is when no guest was found. A guest that has become late since then was not considered at that time, so
        the wait ends at once for another look.
        """
        late_at = self._late_at()
        return min(deadline, late_at if late_at > now else deadline) - now

    def _grows(self, max_guests: int, now: float) -> bool:
        """Whether a pod may have another guest. While one takes long to be made, none waits for it."""
        return len(self._places) < max_guests and now < self._late_at()

    def _late_at(self) -> float:
        """When the oldest guest that is being made takes too long to be waited for."""
        return (
            min((place.since for place in self._places if place.state == "due"), default=math.inf) + MAX_WAIT_FOR_NEW_S
        )

    def _find(self, uid: str, max_guests: int, now: float) -> GuestPlace | None:
        """The place of the guest for a pod that may use so many guests of the pool; None if it gets none now."""
        return choose(self._places, uid, self._keeps_cycles and self._grows(max_guests, now))

    def _grow(self) -> GuestPlace:
        """Adds a place. Its guest is made by the maker if guests have much to learn, else by the caller."""
        place = GuestPlace("due" if self._learns and not self._closed else "used")
        self._places.append(place)
        self._see_to_what_is_due()
        if place.error:  # There is no thread for it but the one that asks.
            place = GuestPlace("used")
            self._places.append(place)
        return place

    def _make(self, place: GuestPlace) -> Guest:
        """Makes the guest of a caller's place. If that fails, gives the place up and raises the error."""
        try:
            place.guest = self._new()
        except BaseException as error:
            self._give_up([place], error)
            raise
        self._has_made()
        return place.guest

    def _new_prepared(self) -> Guest:
        guest = self._new()
        try:
            self._prepare(guest)
        except BaseException:
            _close(guest)
            raise
        return guest

    def _see_to_what_is_due(self) -> None:
        """Starts the maker for places that are due, if none runs. If it cannot be started, gives these places up."""
        with self._lock:
            if (self._maker and not self._maker.has_died) or not self._count("due"):
                return
            if self._maker:
                self._failure = self._maker.death
            self._maker = maker = Maker(target=self._make_due, name=f"makes-{self._name}", daemon=True)
        try:
            maker.start()
        except Exception as error:
            with self._lock:
                self._maker = None
                due = [place for place in self._places if place.state == "due"]
                self._give_up(due, error)
            for place in due:
                _close(place.guest)

    def _make_due(self) -> None:
        """Runs in the maker: makes the guests of places that are due, one after the other."""
        while place := self._next_due():
            self._fill(place)

    def _next_due(self) -> GuestPlace | None:
        with self._lock:
            place = next((place for place in self._places if place.state == "due"), None)
            if place is None:
                self._maker = None  # With the lock: what comes due from now on has another.
            return place

    def _fill(self, place: GuestPlace) -> None:
        """Closes a place's guest and makes another, for whoever comes first."""
        broken, place.guest = place.guest, None
        _close(broken)
        try:
            guest = None if self._closed else self._new_prepared()
        except BaseException as error:
            self._give_up([place], error)
            return
        with self._lock:
            self._places.remove(place)
            if not self._closed:
                place.guest, place.state, guest = guest, "idle", None
                self._places.append(place)
                self._has_made()
            self._hand_out()
            self._waiters.wake()
        _close(guest)

    def _give_up(self, places: Collection[GuestPlace], error: BaseException) -> None:
        """Gives up places for which there is no guest now."""
        with self._lock:
            for place in places:
                self._places.remove(place)
                place.error = error if isinstance(error, Exception) else None
            self._waiters.wake()
            self._retry_at = time.monotonic() + min(FIRST_RETRY_S * 2.0**self._failures, MAX_RETRY_S)
            self._failures += 1
            self._failure = str(error) or type(error).__name__

    def _has_made(self) -> None:
        self._failures, self._failure = 0, ""


def _unbroken(reserved: GuestPlace) -> Guest:
    """The guest of a reserved place. Raises GuestError if it broke: its thread must not wait for another one."""
    assert reserved.guest
    if reserved.guest.is_broken:
        raise GuestError(Fault.BUSY, "instance", _BEING_MADE)
    return reserved.guest


def _close(guest: Guest | None) -> None:
    """Closes a guest, if there is one. An error is logged and not raised: it keeps nobody from another guest."""
    try:
        if guest:
            guest.close()
    except Exception:
        logger.exception("a guest could not be closed")
