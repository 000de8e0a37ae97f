"""Pods that wait on Permit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from typing import Final, NamedTuple

from extender.scheduling.bind import BindingCycle
from extender.scheduling.binding_guests import RejectedError

LEFT_FOR_BIND: Final = 0.25
MAX_LEFT_FOR_BIND_S: Final = 10.0
"""Part of the verb's time, and seconds at most, that a wait on Permit leaves to what comes after it."""


class _Patience(NamedTuple):
    """How long a plugin lets a pod wait."""

    plugin: str
    seconds: float
    """As Permit said first."""
    deadline: float
    """On the clock of `time.monotonic`."""


class Wait:
    """A pod's wait on Permit. It ends once, by the first of all that can end it. May be used from any thread."""

    def __init__(
        self,
        cycle: BindingCycle,
        timeouts: Mapping[str, float],
        asked_at: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeouts` are the seconds of each plugin that said Wait, by its name; `asked_at` is for `WaitingPods`.

        `clock` in seconds.
        """
        self.pod = cycle.binding.pod
        self.node = cycle.binding.node.names[0]
        self.asked_at = asked_at
        """Which change was the last when the plugins were asked."""
        self._cycle = cycle
        self._clock = clock
        now = self.began = clock()
        left = cycle.binding.deadline - now
        self._latest = now + left - min(left * LEFT_FOR_BIND, MAX_LEFT_FOR_BIND_S)
        self._patience = [_Patience(plugin, seconds, now + seconds) for plugin, seconds in timeouts.items()]
        """Of the plugins that do not let the pod go on yet. Exchanged as a whole."""
        self._ended = Future[Exception | None]()

    @property
    def plugins(self) -> Mapping[str, float]:
        """The plugins that do not let the pod go on, and until when it waits for them, by `clock`."""
        return {each.plugin: min(each.deadline, self._latest) for each in self._patience}

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._ended.done()

    @property
    def is_asked_about(self) -> bool:
        """Whether a plugin that does not let the pod go on is asked again after a change."""
        return any(self._cycle.asks_again(each.plugin) for each in self._patience)

    def allow(self) -> bool:
        """Lets the pod go on. Returns False if the wait was over."""
        return self._end(None)

    def reject(self, cause: str) -> bool:
        """Ends the wait with a rejection. Returns False if the wait was over."""
        return self._end(RejectedError(f"plugin {self._shortest.plugin}: permit: {cause}"))

    def ask(self) -> bool:
        """Asks the plugins again that may answer otherwise by now. Returns False if one has no free guest for that."""
        was_asked = True
        try:
            for each in self._patience:
                if self._cycle.asks_again(each.plugin):
                    lets_go_on = self._cycle.permit_again(each.plugin, self._ended.done)
                    was_asked = was_asked and lets_go_on is not None
                    if lets_go_on:
                        self._drop(each)
        except Exception as error:
            self._end(error)
        return was_asked or self.is_over

    async def end(self) -> None:
        """Returns when the pod may go on. Raises RejectedError, or what a plugin failed with that was asked again."""
        ended = asyncio.wrap_future(self._ended)
        while not self.is_over:
            await asyncio.wait([ended], timeout=min(self.plugins.values()) - self._clock())
            self.expire()
        if error := await ended:
            raise error

    def expire(self) -> None:
        """Rejects the pod if its time is over."""
        _, seconds, deadline = self._shortest
        now = self._clock()
        if deadline <= min(now, self._latest):
            self.reject(f"the pod waited for its {seconds:g} s and nobody let it go on")
        elif self._latest <= now:
            self.reject(
                f"the pod was to wait for {seconds:g} s, but the verb ends before;"
                " raise server.bindTimeout, and the extender's httpTimeout with it"
            )

    @property
    def _shortest(self) -> _Patience:
        return min(self._patience, key=lambda each: each.deadline)

    def _drop(self, patience: _Patience) -> None:
        left = [each for each in self._patience if each is not patience]
        if left:
            self._patience = left
        else:
            self.allow()

    def _end(self, error: Exception | None) -> bool:
        try:
            self._ended.set_result(error)
        except InvalidStateError:
            return False
        return True


class WaitingPods:
    """All pods that wait, one wait for each: how guests see and reject them, and who asks plugins about them again.

    May be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[str, Wait] = {}
        """By the pod's UID, in the order in which they began."""
        self._closed = False
        self._changes = 0
        self.woken = threading.Event()
        """Set when a round of questions is due."""

    # -- waiting -----------------------------------------------------------------------------------

    @property
    def changes(self) -> int:
        """How many changes of pods and nodes there were. Who is asked afterwards knows of all of them."""
        return self._changes

    @contextmanager
    def waiting(self, wait: Wait) -> Iterator[None]:
        """Has a pod be found among those that wait, as long as the context lasts. At the end of the process none is."""
        with self._lock:
            if self._closed:
                wait.reject(_ENDS)
            self._waits[wait.pod.uid] = wait
            if wait.asked_at != self._changes:
                self.woken.set()
        try:
            yield
        finally:
            with self._lock:
                if self._waits.get(wait.pod.uid) is wait:
                    del self._waits[wait.pod.uid]

    def change(self) -> None:
        """Says that pods or nodes have changed, so that plugins may let pods go on."""
        with self._lock:
            self._changes += 1
            if self._waits:
                self.woken.set()

    def ask_again(self) -> None:
        """A round: asks the plugins about each pod that waits since a change. To be done by one thread."""
        for wait in self.waits():
            changes = self._changes
            if wait.asked_at != changes and wait.is_asked_about:
                if wait.ask():
                    wait.asked_at = changes
                else:
                    self.woken.set()

    def close(self) -> None:
        """Rejects all pods that wait, and all that are to wait from now on: the process ends."""
        with self._lock:
            self._closed = True
        for wait in self.waits():
            wait.reject(_ENDS)

    # -- who knows of a pod that waits -------------------------------------------------------------

    def waits(self) -> list[Wait]:
        """All waits that are not over, the oldest first."""
        with self._lock:
            return [wait for wait in self._waits.values() if not wait.is_over]

    def find(self, uid: str) -> Wait | None:
        """The wait of a pod; None if it does not wait, or not any more."""
        with self._lock:
            wait = self._waits.get(uid)
        return wait if wait and not wait.is_over else None

    def count(self, plugin: str) -> int:
        """How many pods wait for a plugin."""
        return sum(plugin in wait.plugins for wait in self.waits())

    def delete(self, uid: str) -> None:
        """Takes note that a pod has ended."""
        if wait := self.find(uid):
            wait.reject("the pod was deleted while it waited")

    def waiting_pod(self, uid: str, /) -> bytes | None:
        """The pod that waits, a protobuf v1.Pod; None if none of that UID does."""
        wait = self.find(uid)
        return wait.pod.object if wait else None

    def reject_waiting_pod(self, uid: str, /) -> bool:
        """Ends a pod's wait with a rejection by a guest. False if none of that UID waits."""
        wait = self.find(uid)
        return wait is not None and wait.reject("the pod was rejected while it waited")


_ENDS: Final = "the extender ends, and the pod waited; kube-scheduler tries the pod again"
