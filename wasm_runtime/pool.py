"""The guests of a plugin: who has one, who waits for one, and what takes the place of a broken one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from wasm_runtime.errors import Fault, GuestError
from wasm_runtime.guest import Guest

CYCLE: Final = 30.0
"""Seconds after which nobody comes back to a pod's cycle: its guest may be given to another pod."""


class Pool:
    """At most `limit` guests. May be used from any thread.

    A guest that broke is closed and replaced in a thread of the pool's own, so that no request waits longer for
    it than it must. One that has much to learn first is made there too.
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
        self._new = new
        self._prepare = prepare
        self._limit = limit
        self._keeps_cycles = keeps_cycles
        self._learns = learns
        self._changed = threading.Condition()
        self._idle = [self._new_prepared()]
        self._count = 1
        self._making = 0
        """How many are in the making that are nobody's yet, by the thread."""
        self._tended: list[Guest] = []
        self._waiting = 0
        self._closed = False
        self._maker = ThreadPoolExecutor(1, f"makes-{name}")

    def __len__(self) -> int:
        """How many guests there are, those in use and in the making included."""
        return self._count

    def take(self, uid: str, deadline: float, spare: int = 0) -> Guest:
        """A guest for a pod: the one on its cycle, else an idle one, else a new one, else one that comes back in time.

        `spare` is how many the caller leaves to others, if there may be more than one. Raises GuestError, or what kept
        a new one from being made.
        """
        most = max(self._limit - spare, 1)
        failures: list[Exception] = []
        with self._changed:
            while True:
                grows = self._count < most
                at = self._find(uid, grows) if self._in_use < most else None
                if at is not None:
                    return self._idle.pop(at)
                if failures:
                    raise failures[0]
                if grows and not (self._making or self._tended):
                    self._count += 1
                    if self._closed or not self._learns:
                        break
                    self._making += 1
                    self._maker.submit(self._add, failures)
                if not self._wait(deadline):
                    raise GuestError(Fault.BUSY, "instance", self._in_the_way(most))
        return self._make()

    def forget(self, uid: str) -> None:
        """Ends a pod's cycle."""
        with self._changed:
            for guest in [*self._idle, *self._tended]:
                if guest.uid == uid:
                    guest.end_cycle()

    def has_idle(self, uid: str) -> bool:
        """Whether a pod can have a guest at once that is there already."""
        with self._changed:
            return self._find(uid, self._count < self._limit) is not None

    def tend(self, work: Callable[[Guest], bool]) -> bool:
        """Does some work on each idle guest, one after the other. Returns whether any has more to be done.

        Who needs the guest meanwhile waits for it, and nothing is done while anybody waits. Raises what `work` raises.
        """
        left = [self._tend(guest, work) for guest in list(self._idle)]
        return any(left)

    def _tend(self, guest: Guest, work: Callable[[Guest], bool]) -> bool:
        with self._changed:
            if self._waiting or guest not in self._idle:
                return False
            self._idle.remove(guest)
            self._tended.append(guest)
        try:
            return work(guest)
        finally:
            with self._changed:
                self._tended.remove(guest)
                self._take_back(guest)

    def put_back(self, guest: Guest) -> None:
        """Takes a guest back; a broken one is replaced."""
        guest.left = time.monotonic()
        self._take_back(guest)

    def _take_back(self, guest: Guest) -> None:
        with self._changed:
            # All that wait are told: the one that waited longest may be one that has to leave it to another.
            self._changed.notify_all()
            if not guest.is_broken and not self._closed:
                self._idle.append(guest)
                return
            self._making += 1
            if not self._closed:
                self._maker.submit(self._replace, guest)
                return
        self._replace(guest)

    def close(self) -> None:
        """Closes the guests, those in use when they come back."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._count -= len(idle)
        for guest in idle:
            guest.close()
        self._maker.shutdown(wait=False)

    @property
    def _in_use(self) -> int:
        """How many are not to be had, those that are tended included."""
        return self._count - self._making - len(self._idle)

    def _in_the_way(self, most: int) -> str:
        """Why there is no guest for one who may have so many, and what mends that if anything does."""
        if self._in_use - len(self._tended) >= most:
            return f"all {most} that may be used here are in use; raise the plugin's instances"
        return "another one is still being made" if self._making else "it still learns of nodes or collects garbage"

    def _wait(self, deadline: float) -> bool:
        """Waits for a change. False if there was none before the deadline."""
        self._waiting += 1
        try:
            return self._changed.wait(deadline - time.monotonic())
        finally:
            self._waiting -= 1

    def _find(self, uid: str, grows: bool) -> int | None:
        """Which idle guest a pod gets: the one on its cycle, and no other while that is tended.

        Else one that nobody comes back to, if the others are kept for their pods; else the one that is idle longest.
        """
        for at, guest in enumerate(self._idle):
            if guest.uid == uid:
                return at
        if self._tended and uid and any(guest.uid == uid for guest in self._tended):
            return None
        if not (self._keeps_cycles and grows):
            return 0 if self._idle else None
        stale = time.monotonic() - CYCLE
        ended = (at for at, guest in enumerate(self._idle) if guest.uid is None or guest.left < stale)
        return next(ended, None)

    def _make(self) -> Guest:
        try:
            return self._new()
        except BaseException:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()
            raise

    def _new_prepared(self) -> Guest:
        guest = self._new()
        try:
            self._prepare(guest)
        except BaseException:
            guest.close()
            raise
        return guest

    def _replace(self, broken: Guest) -> None:
        """Closes a guest and makes another. One that cannot be made is made when it is asked for, which tells why."""
        broken.close()
        self._add([])

    def _add(self, failures: list[Exception]) -> None:
        """Makes a guest for whoever comes first. What keeps it from being made is added to `failures`."""
        guest = None
        try:
            guest = None if self._closed else self._new_prepared()
        except Exception as error:
            failures.append(error)
        with self._changed:
            self._making -= 1
            if guest is None or self._closed:
                self._count -= 1
            else:
                self._idle.append(guest)
                guest = None
            self._changed.notify_all()
        if guest is not None:
            guest.close()
