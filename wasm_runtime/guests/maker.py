"""The thread of a pool that makes guests."""

from __future__ import annotations

import threading


class Maker(threading.Thread):
    """Makes guests, and ends when none is left to be made."""

    _was_started = False

    def start(self) -> None:
        """Begins. Raises what keeps a thread from it."""
        super().start()
        self._was_started = True

    @property
    def has_died(self) -> bool:
        """Whether it has ended too early. A maker with nothing left to do is taken from the pool before it ends."""
        return self._was_started and not self.is_alive()

    @property
    def death(self) -> str:
        """What to say of one that has died."""
        return f"thread {self.name}, which was to make one, has died"
