"""The guests of a plugin: who has one, who waits for one, and what takes the place of a broken one."""

from __future__ import annotations

import contextlib
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
    it than it must.
    """

    def __init__(
        self,
        name: str,
        new: Callable[[], Guest],
        limit: int,
        *,
        keeps_cycles: bool,
        prepare: Callable[[Guest], object] = lambda _: None,
    ) -> None:
        """Makes a first guest. With `keeps_cycles`, a guest is left to its pod while there may be another.

        `prepare` is called with each guest that is made before anybody waits for it. Raises what they raise.
        """
        self._new = new
        self._prepare = prepare
        self._limit = limit
        self._keeps_cycles = keeps_cycles
        self._changed = threading.Condition()
        self._idle = [self._new_prepared()]
        self._count = 1
        self._replacing = 0
        self._tended = 0
        self._waiting = 0
        self._closed = False
        self._replacer = ThreadPoolExecutor(1, f"replaces-{name}")

    def __len__(self) -> int:
        """How many guests there are, those in use and in the making included."""
        return self._count

    def take(self, uid: str, deadline: float, spare: int = 0) -> Guest:
        """A guest for a pod: the one on its cycle, else an idle one, else a new one, else one that comes back in time.

        `spare` is how many the caller leaves to others, if there may be more than one. Raises GuestError.
        """
        most = max(self._limit - spare, 1)
        with self._changed:
            while True:
                grows = self._count < most
                guest = self._pick(uid, grows) if self._in_use < most else None
                if guest is not None:
                    return guest
                if grows and not (self._replacing or self._tended):
                    self._count += 1
                    break
                if not self._wait(deadline):
                    full = f"all {most} that may be used here are in use"
                    raise GuestError(Fault.BUSY, "instance", self._in_the_way if grows else full)
        return self._make()

    def forget(self, uid: str) -> None:
        """Ends a pod's cycle."""
        with self._changed:
            for guest in self._idle:
                if guest.uid == uid:
                    guest.end_cycle()

    @property
    def has_idle(self) -> bool:
        """Whether a guest can be had at once."""
        return bool(self._idle)

    def tend(self, work: Callable[[Guest], bool]) -> bool:
        """Does some work on each idle guest, one after the other. Returns whether any has more to be done.

        Who needs the guest meanwhile waits for it, and nothing is done while anybody waits. Raises GuestError.
        """
        left = [self._tend(guest, work) for guest in list(self._idle)]
        return any(left)

    def _tend(self, guest: Guest, work: Callable[[Guest], bool]) -> bool:
        with self._changed:
            if self._waiting or guest not in self._idle:
                return False
            self._idle.remove(guest)
            self._tended += 1
        try:
            return work(guest)
        finally:
            with self._changed:
                self._tended -= 1
                self.put_back(guest)

    def put_back(self, guest: Guest) -> None:
        """Takes a guest back; a broken one is replaced."""
        with self._changed:
            # All that wait are told: the one that waited longest may be one that has to leave it to another.
            self._changed.notify_all()
            if not guest.is_broken and not self._closed:
                self._idle.append(guest)
                return
            self._replacing += 1
            if not self._closed:
                self._replacer.submit(self._replace, guest)
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
        self._replacer.shutdown(wait=False)

    @property
    def _in_use(self) -> int:
        return self._count - self._replacing - len(self._idle)

    @property
    def _in_the_way(self) -> str:
        """What keeps a pool from growing that may."""
        return (
            "what broke is still being replaced" if self._replacing else "it still learns of nodes or collects garbage"
        )

    def _wait(self, deadline: float) -> bool:
        """Waits for a change. False if there was none before the deadline."""
        self._waiting += 1
        try:
            return self._changed.wait(deadline - time.monotonic())
        finally:
            self._waiting -= 1

    def _pick(self, uid: str, grows: bool) -> Guest | None:
        """An idle guest: the one on the pod's cycle, else one that nobody comes back to, else the one idle longest."""
        at = next((at for at, guest in enumerate(self._idle) if guest.uid == uid), None)
        if at is None and self._keeps_cycles and grows:
            stale = time.monotonic() - CYCLE
            ended = (at for at, guest in enumerate(self._idle) if guest.uid is None or guest.entered < stale)
            at = next(ended, None)
        elif at is None and self._idle:
            at = 0
        return None if at is None else self._idle.pop(at)

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
        guest = None
        if not self._closed:
            with contextlib.suppress(Exception):
                guest = self._new_prepared()
        with self._changed:
            self._replacing -= 1
            if guest is None or self._closed:
                self._count -= 1
            else:
                self._idle.append(guest)
                guest = None
            self._changed.notify_all()
        if guest is not None:
            guest.close()
