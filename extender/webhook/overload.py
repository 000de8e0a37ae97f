"""What is refused since it would be answered too late."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import Final

MAX_WAIT_S: Final = 1.0
"""Seconds that a request waits at most for the event loop, and again for a thread. kube-scheduler gives up after 5 s or
more."""

MAX_BACKLOG_S: Final = MAX_WAIT_S / 2
"""Once the first request in the queue for a thread has waited so many seconds, further ones are refused at once."""

BEAT_INTERVAL_S: Final = 0.1
"""Seconds between two beats of a loop that is not late."""

STALLED_S: Final = 5.0
"""Seconds without a beat after which verbs count as not served: about as long as kube-scheduler waits for an answer."""

REPORT_INTERVAL_S: Final = 1.0
"""Between two lines of the log about what was refused."""

logger = logging.getLogger(__name__)


class OverloadedError(Exception):
    """A request had to wait too long for its turn. `str()` says so, and what mends it."""

    def __init__(self) -> None:
        super().__init__(
            f"overloaded: no turn within {MAX_WAIT_S:g} s, so the answer would come too late; ask again later, have"
            " fewer clients ask, or make plugins faster (kwx_guest_seconds)"
        )


class Overload:
    """How late the event loop of the verbs is, and what was refused. `problem` may be asked from any thread."""

    def __init__(self) -> None:
        self.refuses_from = math.inf
        """From when on requests are refused, by `time.perf_counter`: any that is not answered by then has waited since
        about the last beat. Infinite before the first beat. Infinite once the server ends, too: what is there is
        answered then."""
        self._problem: str | None = "the verbs are not served yet"
        self._has_ended = self._is_reading = False
        self._refused = 0

    def beat(self) -> None:
        """Says that the loop has come round; called every `BEAT_INTERVAL_S`."""
        if not self._has_ended:
            self.refuses_from = time.perf_counter() + BEAT_INTERVAL_S + MAX_WAIT_S
            self._problem = None

    def hear(self) -> None:
        """Says, on the loop, that a client has sent something. The first call in a turn of the loop is a beat.

        After a callback that held the loop for long, the loop first reads and then runs its timers. What it reads may
        have come just now, so it must not be refused by the age of the last beat that a timer made.
        """
        if not self._is_reading:
            self._is_reading = True
            asyncio.get_running_loop().call_soon(self._stop_reading)
            self.beat()

    def _stop_reading(self) -> None:
        self._is_reading = False

    def end(self) -> None:
        """Says that no new client is served."""
        self._has_ended = True
        self.refuses_from = math.inf
        self._problem = "the extender ends"

    def refuse(self) -> OverloadedError:
        """Why a request is refused. The log has how many."""
        self._refused += 1
        if self._refused == 1:
            asyncio.get_running_loop().call_later(REPORT_INTERVAL_S, self._report)
        return OverloadedError()

    @property
    def problem(self) -> str | None:
        """Why verbs are not answered now, if that is so."""
        late_s = time.perf_counter() - self.refuses_from + BEAT_INTERVAL_S + MAX_WAIT_S
        return self._problem or (f"no verb was answered for {late_s:.0f} s" if late_s > STALLED_S else None)

    def _report(self) -> None:
        count, self._refused = self._refused, 0
        logger.warning("%d requests were refused: %s", count, OverloadedError())
