"""The guests of a plugin: who has one, who waits for one, and what takes the place of a broken one."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from typing import Final, Literal

from wasm_runtime.errors import Fault, GuestError
from wasm_runtime.guests.guest import Guest

logger = logging.getLogger(__name__)

CYCLE_TIMEOUT_S: Final = 30.0
"""Seconds after which nobody comes back to a pod's cycle. Its guest may go to another pod then."""

FIRST_RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 30.0
"""After a guest could not be made, maintenance tries again so much later, each time twice as late."""

MAX_WAIT_FOR_NEW_S: Final = 0.05
"""Seconds that a pod waits for a guest that is being made, while there is one that is kept for another pod. A guest
that has tens of thousands of pods to learn takes longer."""

_BEING_MADE: Final = "another one is still being made"

_State = Literal["idle", "used", "maintained", "due"]
"""Of a place: its guest is free, a caller's (or made by one), in maintenance, or to be made by the maker."""


class _GuestPlace:
    """Room for a guest. Always in one state, which changes by one assignment: no failure leaves it between two."""

    __slots__ = ("error", "guest", "since", "state")

    def __init__(self, state: _State) -> None:
        self.state: _State = state
        self.since = time.monotonic()
        self.guest: Guest | None = None
        self.error: Exception | None = None
        """What has kept the maker from making a guest here."""


class _Maker(threading.Thread):
    """The thread of a pool that makes guests."""

    _was_started = False

    def start(self) -> None:
        """Begins. Raises what keeps a thread from it."""
        super().start()
        self._was_started = True

    @property
    def has_died(self) -> bool:
        """Whether it has ended. That nothing is left to be done, it says before."""
        return self._was_started and not self.is_alive()


class Pool:
    """At most `limit` guests. May be used from any thread.

    A guest that broke is closed and replaced in a thread of the pool's own, so that no request waits longer for
    it than it must. One that has much to learn first is made there too. If a guest cannot be made, its place is given
    up. The next request tries again, and gets the error. If the pool has no guest at all, maintenance tries again, too.
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
        """Makes a first guest. With `keeps_cycles`, a guest is left to its pod while there may be another.

        `prepare` is called with each guest that is made before anybody waits for it. With `learns`, also with those
        that somebody waits for: one request is not to do all that alone. Raises what they raise.
        """
        self._name = name
        self._new = new
        self._prepare = prepare
        self._limit = limit
        self._keeps_cycles = keeps_cycles
        self._learns = learns
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._places: list[_GuestPlace] = []
        """Those that are idle in the order in which they came back. Whatever is counted is counted here."""
        self._reserved: dict[int, _GuestPlace] = {}
        """By the thread, which alone looks there."""
        self._maker: _Maker | None = None
        """There is one while anything is due. One that has died is still there."""
        self._waiting = 0
        self._closed = False
        self._failures = 0
        """How often in a row no guest could be made."""
        self._failure = ""
        self._retry_at = 0.0
        first = _GuestPlace("idle")
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
            return _death(self._maker) if self._maker and self._maker.has_died else self._failure

    def take(self, uid: str, deadline: float, keep_free: int = 0) -> Guest:
        """A guest for a pod: the one on its cycle, else an idle one, else a new one, else one that comes back in time.

        `keep_free` is how many guests the caller leaves to others, if there may be more than one. A thread that has
        reserved one gets that one. Raises GuestError, or what kept a new one from being made.
        """
        if reserved := self._reserved.get(threading.get_ident()):
            return _unbroken(reserved)
        max_guests = max(self._limit - keep_free, 1)
        asked: _GuestPlace | None = None
        with self._lock:
            while True:
                found = self._find(uid, self._grows(max_guests)) if self._in_use < max_guests else None
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
                if not self._wait(deadline):
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
            found = self._find(uid, self._grows(self._limit))
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
        """Does some work on each idle guest, one after the other. Returns whether any has more to be done.

        Who needs the guest meanwhile waits for it, and nothing is done while anybody waits. If there is no guest, one
        is made when it is time. Raises what `work` raises.
        """
        with self._lock:
            if not self._places and not self._closed and time.monotonic() >= self._retry_at:
                self._places.append(_GuestPlace("due"))
        self._see_to_what_is_due()
        left = [self._maintain(place, work) for place in list(self._places)]
        return any(left)

    def _maintain(self, place: _GuestPlace, work: Callable[[Guest], bool]) -> bool:
        with self._lock:
            if self._waiting or place.state != "idle" or not place.guest or self._closed:
                return False
            place.state = "maintained"
        try:
            return work(place.guest)
        finally:
            self._take_back(place)

    def put_back(self, guest: Guest) -> None:
        """Takes a guest back; a broken one is replaced."""
        guest.left = time.monotonic()
        if threading.get_ident() in self._reserved:
            return
        with self._lock:
            place = next(place for place in self._places if place.guest is guest)
        self._take_back(place)

    def _take_back(self, place: _GuestPlace) -> None:
        with self._lock:
            is_over = self._closed
            self._places.remove(place)
            if not is_over:
                place.state = "due" if place.guest and place.guest.is_broken else "idle"
                self._places.append(place)
            if self._waiting:  # All are told: the one that waited longest may be one that has to leave it to another.
                self._changed.notify_all()
        if is_over:
            _close(place.guest)
        elif place.state == "due":
            self._see_to_what_is_due()

    def close(self) -> None:
        """Closes the guests, those in use when they come back."""
        with self._lock:
            self._closed = True
            idle = [place for place in self._places if place.state == "idle"]
            self._places = [place for place in self._places if place.state != "idle"]
        for place in idle:
            _close(place.guest)

    def _count(self, *states: _State) -> int:
        return sum(place.state in states for place in self._places)

    @property
    def _in_use(self) -> int:
        """How many are not to be had, those that are maintained included."""
        return self._count("used", "maintained")

    def _in_the_way(self, max_guests: int) -> str:
        """Why there is no guest for one who may have so many, and what mends that if anything does."""
        if self._count("used") >= max_guests:
            return f"all {max_guests} that may be used here are in use; raise the plugin's instances"
        return _BEING_MADE if self._count("due") else "it still learns of nodes or pods, or collects garbage"

    def _wait(self, deadline: float) -> bool:
        """Waits for a change, or until a guest takes long to be made. False if the deadline is over."""
        now = time.monotonic()
        late_at = self._late_at()
        self._waiting += 1
        try:
            return (
                self._changed.wait(min(deadline, late_at if late_at > now else deadline) - now)
                or time.monotonic() < deadline
            )
        finally:
            self._waiting -= 1

    def _grows(self, max_guests: int) -> bool:
        """Whether a pod may have another guest. While one takes long to be made, none waits for it."""
        return len(self._places) < max_guests and time.monotonic() < self._late_at()

    def _late_at(self) -> float:
        """When a guest that is being made takes long."""
        return (
            min((place.since for place in self._places if place.state == "due"), default=math.inf) + MAX_WAIT_FOR_NEW_S
        )

    def _find(self, uid: str, grows: bool) -> _GuestPlace | None:
        """Which idle guest a pod gets: the one on its cycle, and no other while that is maintained.

        Else one that nobody comes back to, if the others are kept for their pods; else the one that is idle longest.
        """
        longest = None
        is_tended = False
        for place in self._places:
            if place.state == "idle":
                if place.guest and place.guest.uid == uid:
                    return place
                longest = longest or place
            elif place.state == "maintained" and uid and place.guest and place.guest.uid == uid:
                is_tended = True
        if is_tended or not longest:
            return None
        if not (self._keeps_cycles and grows):
            return longest
        stale = time.monotonic() - CYCLE_TIMEOUT_S
        return next((place for place in self._places if place.state == "idle" and _has_ended(place, stale)), None)

    def _grow(self) -> _GuestPlace:
        """Another place, whose guest is made by the maker if that has much to do, else by who asks for it."""
        place = _GuestPlace("due" if self._learns and not self._closed else "used")
        self._places.append(place)
        self._see_to_what_is_due()
        if place.error:  # There is no thread for it but the one that asks.
            place = _GuestPlace("used")
            self._places.append(place)
        return place

    def _make(self, place: _GuestPlace) -> Guest:
        """Makes the guest of a caller's place. Raises what keeps it from that; the place is given up then."""
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
        """Starts a thread for it if there is none, or it has died. Where none can be had, it gives its place up."""
        with self._lock:
            if (self._maker and not self._maker.has_died) or not self._count("due"):
                return
            if self._maker:
                self._failure = _death(self._maker)
            self._maker = maker = _Maker(target=self._make_due, name=f"makes-{self._name}", daemon=True)
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
        """The maker's thread: what is due is made one after the other."""
        while place := self._next_due():
            self._fill(place)

    def _next_due(self) -> _GuestPlace | None:
        with self._lock:
            place = next((place for place in self._places if place.state == "due"), None)
            if place is None:
                self._maker = None  # With the lock: what comes due from now on has another.
            return place

    def _fill(self, place: _GuestPlace) -> None:
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
            self._changed.notify_all()
        _close(guest)

    def _give_up(self, places: Collection[_GuestPlace], error: BaseException) -> None:
        """Gives up places for which there is no guest now."""
        with self._lock:
            for place in places:
                self._places.remove(place)
                place.error = error if isinstance(error, Exception) else None
            self._changed.notify_all()
            self._retry_at = time.monotonic() + min(FIRST_RETRY_S * 2.0**self._failures, MAX_RETRY_S)
            self._failures += 1
            self._failure = str(error) or type(error).__name__

    def _has_made(self) -> None:
        self._failures, self._failure = 0, ""


def _death(maker: _Maker) -> str:
    return f"thread {maker.name}, which was to make one, has died"


def _unbroken(reserved: _GuestPlace) -> Guest:
    """The guest of a place. Raises GuestError if it broke: who has reserved one must not wait for another."""
    assert reserved.guest
    if reserved.guest.is_broken:
        raise GuestError(Fault.BUSY, "instance", _BEING_MADE)
    return reserved.guest


def _has_ended(place: _GuestPlace, stale: float) -> bool:
    """Whether nobody comes back to a guest that was left before then, or that is on no cycle."""
    return place.guest is not None and (place.guest.uid is None or place.guest.left < stale)


def _close(guest: Guest | None) -> None:
    """Gives a guest back, if there is one. That it cannot be is told, and keeps nobody from another."""
    try:
        if guest:
            guest.close()
    except Exception:
        logger.exception("a guest could not be closed")
