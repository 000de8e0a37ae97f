"""What is said of Events that will never be written."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Final

logger = logging.getLogger(__name__)

REPEAT_INTERVAL_S: Final = 600.0
"""Seconds before the log says again that Events are lost for a cause that lasts."""


@dataclass(slots=True)
class _Cause:
    explanation: str = ""
    events: int = 0
    due: float = float("-inf")
    """When it may be logged, on the clock of `time.monotonic`."""


class Losses:
    """Counts lost Events by cause. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._causes: dict[str, _Cause] = {}

    def add(self, cause: str, explanation: str, events: int = 1) -> None:
        """Counts lost Events by their cause, of which there are few. The explanation may have names in it."""
        with self._lock:
            found = self._causes.setdefault(cause, _Cause())
            found.explanation = explanation
            found.events += events

    def report(self, now: float) -> None:
        """Logs each cause when it is new, and from time to time how many Events it has cost since."""
        for cause in self._take(now):
            logger.warning("Events were lost", extra={"error": cause.explanation, "events": cause.events})

    def _take(self, now: float) -> list[_Cause]:
        with self._lock:
            due = {name: cause for name, cause in self._causes.items() if cause.events and cause.due <= now}
            self._causes.update({name: _Cause(due=now + REPEAT_INTERVAL_S) for name in due})
            return list(due.values())
