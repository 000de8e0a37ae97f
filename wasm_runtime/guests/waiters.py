"""Those that wait for a guest of a pool, each in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from wasm_runtime.guests.guest_place import GuestPlace


class Waiter:
    """A thread that waits for a guest."""

    __slots__ = ("changed", "max_guests", "place", "uid", "was_told")

    def __init__(self, lock: threading.RLock, uid: str, max_guests: int) -> None:
        """For a pod that may have a guest while fewer than `max_guests` are in use."""
        self.changed = threading.Condition(lock)
        self.uid = uid
        self.max_guests = max_guests
        self.was_told = False
        """Whether the wait ended before its time was over."""
        self.place: GuestPlace | None = None
        """The place of the guest that it was handed, in use from then on, so that nobody else gets it."""


class Waiters:
    """A queue, the one that has waited longest first. Every caller has the pool's lock."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._waiting: list[Waiter] = []

    def __len__(self) -> int:
        """How many have been handed nothing yet."""
        return len(self._waiting)

    def wait(self, uid: str, max_guests: int, seconds: float, take_back: Callable[[GuestPlace], None]) -> Waiter:
        """Waits, without the lock, until a guest is handed over, there is something to look at, or the time is over.

        What was handed over is taken back if the thread is interrupted.
        """
        waiter = Waiter(self._lock, uid, max_guests)
        self._waiting.append(waiter)
        try:
            waiter.was_told = waiter.changed.wait(seconds)
        except BaseException:
            if waiter.place:
                take_back(waiter.place)
            raise
        finally:
            if not waiter.place:
                self._waiting.remove(waiter)
        return waiter

    def hand_out(self, idle: int, in_use: int, find: Callable[[str, int], GuestPlace | None]) -> None:
        """Hands idle guests over, and wakes only who gets one: others would compete with them for the processor.

        `find` takes a pod and how many guests it may use, and returns the place of the guest that it gets, or None.
        """
        for waiter in list(self._waiting):
            if not idle:
                break
            found = find(waiter.uid, waiter.max_guests) if in_use < waiter.max_guests else None
            if found:
                found.state, waiter.place = "used", found
                idle, in_use = idle - 1, in_use + 1
                self._waiting.remove(waiter)
                waiter.changed.notify()

    def wake(self) -> None:
        """Has all of them look again."""
        for waiter in self._waiting:
            waiter.changed.notify()
