"""What happens to plugins, for those who wait for it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.state.store import PluginState, Store
from extender.rollouts.state.writer import Writer

logger = logging.getLogger(__name__)

MAX_ENTRIES: Final = 256
"""Entries that are kept, so that a listener that was away can catch up."""

MAX_ROLLOUTS: Final = 32
"""Rollouts that are known as they are now, besides those under way: one takes some 20 KB with its report."""

Listener = Callable[[int, Rollout], object]
"""Takes the number of an entry, which counts up from the start of the process, and the rollout as it is now."""

_SAID: Final = {
    RolloutStage.ACTIVE: (logging.INFO, "revision is live"),
    RolloutStage.FAILED: (logging.ERROR, "revision refused, what serves stays live: %s"),
    RolloutStage.REHEARSED: (logging.INFO, "dry run ended well"),
    RolloutStage.DRAINING: (logging.INFO, "revision is replaced"),
    RolloutStage.RETIRED: (logging.INFO, "revision is retired"),
}
"""What the log says of a stage."""


START: Final = "start"
"""Who brings live what a process begins with."""

_TOLD_BY_THE_START: Final = {RolloutStage.ACTIVE, RolloutStage.FAILED}
"""Stages that the log does not tell of the start: the start itself logs that a plugin serves, or why not."""


class Journal:
    """Takes each step of each rollout: for the log, the history on disk and listeners. May be used from any thread.

    No caller waits for the disk: a thread of the journal's own writes, in the order in which steps came. Listeners are
    told of a step once it is written, with all steps before it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer = Writer("journal")
        self._lock = threading.RLock()  # Listeners are called with it, so that none is once it is removed.
        self._entries: deque[tuple[int, Rollout]] = deque(maxlen=MAX_ENTRIES)
        self._rollouts: dict[int, Rollout] = {}
        self._listeners: list[Listener] = []
        self._sequence = 0

    def record(self, rollout: Rollout) -> Rollout:
        """Takes a step, and returns it. One that is taken again is told again."""
        with self._lock:
            self._rollouts.pop(rollout.id, None)
            self._rollouts[rollout.id] = rollout
            over = [number for number, each in self._rollouts.items() if each.is_over]
            if len(over) > MAX_ROLLOUTS:
                del self._rollouts[over[0]]
            self._writer.submit(partial(self._tell, rollout))  # With the lock, so that it keeps their order.
        _log(rollout)
        return rollout

    def save(self, profile: str, plugin: str, state: PluginState) -> None:
        """Keeps what is known of a plugin, before any step is told that is recorded from now on."""
        self._writer.submit(partial(self._store.save, profile, plugin, state))

    def flush(self, timeout_s: float | None = None) -> bool:
        """Returns when all until now is written and told; False if that was not so in time."""
        return self._writer.flush(timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Writes down what is left, and no more; False if the disk does not take it in time."""
        return self._writer.close(timeout_s)

    def get(self, number: int) -> Rollout | None:
        """A rollout as it is now, if it is under way or one of the last of this process."""
        with self._lock:
            return self._rollouts.get(number)

    def under_way(self) -> list[Rollout]:
        """The rollouts that are not over."""
        with self._lock:
            return [rollout for rollout in self._rollouts.values() if not rollout.is_over]

    def since(self, sequence: int) -> list[tuple[int, Rollout]]:
        """The entries after one, as far as they are kept."""
        with self._lock:
            return [entry for entry in self._entries if entry[0] > sequence]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Adds a listener, which is called in another thread and must be quick. Returns what removes it."""
        with self._lock:
            self._listeners.append(listener)

        def remove() -> None:
            with self._lock:
                self._listeners.remove(listener)

        return remove

    def _tell(self, rollout: Rollout) -> None:
        """Takes a step to the history and to listeners. A start with what served before is no line of the history."""
        is_news = rollout.revision is None or rollout.revision != rollout.replaces
        if rollout.is_over and rollout.stage is not RolloutStage.RETIRED and is_news:
            self._store.append(rollout)  # First: who is told looks there.
        with self._lock:
            self._sequence += 1
            self._entries.append((self._sequence, rollout))
            for listener in self._listeners:
                try:
                    listener(self._sequence, rollout)
                except Exception:  # It is its own loss, not that of those after it.
                    logger.exception("a step could not be told to who listens", extra={"rollout": rollout.id})


def _log(rollout: Rollout) -> None:
    if rollout.stage not in _SAID or (rollout.by == START and rollout.stage in _TOLD_BY_THE_START):
        return
    level, message = _SAID[rollout.stage]
    fields = {
        "plugin": rollout.plugin,
        "profile": rollout.profile,
        "rollout": rollout.id,
        "requested_by": rollout.by,
        "origin": rollout.origin,
        "revision": rollout.revision,
        "module_digest": rollout.module,
        "replaces": rollout.replaces,
    }
    arguments = (rollout.problem,) if "%s" in message else ()
    if rollout.stage is RolloutStage.DRAINING and rollout.problem:
        level, message, arguments = logging.WARNING, "revision is rolled back: %s", (rollout.problem,)
    logger.log(level, message, *arguments, extra={key: value for key, value in fields.items() if value})
