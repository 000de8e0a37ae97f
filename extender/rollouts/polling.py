"""When a source is polled, and whether what it gives is new."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Final

from extender.sources import Fetched, Source, SourceError, SourceUnreachableError

JITTER: Final = 0.1
"""Share of an interval by which a poll comes earlier or later, so that many extenders do not poll at once."""

MAX_PAUSE_S: Final = 300.0
"""Most seconds between two polls of a source that cannot be reached."""


class SourcePollState:
    """The version that a source has given last, and the time until its next poll.

    The time doubles with each poll in a row that does not reach the source. For one thread at a time.
    """

    def __init__(self, source: Source, version: str | None = None) -> None:
        self.source = source
        self.version = version
        """The version that the source has given last. None if everything that it gives is new."""
        self._failures = 0

    @property
    def pause_s(self) -> float:
        """Seconds until the next poll."""
        interval = self.source.interval
        seconds = min(interval * 2.0**self._failures, max(MAX_PAUSE_S, interval))
        return seconds * random.uniform(1 - JITTER, 1 + JITTER)

    def poll(self) -> Fetched | None:
        """The module if it is new, else None. Raises SourceError."""
        try:
            fetched = self.source.fetch(self.version)
        except SourceError as error:
            self._failures = min(self._failures + 1, 16) if isinstance(error, SourceUnreachableError) else 0
            raise
        self._failures = 0
        if fetched:
            self.version = fetched.version
        return fetched


class RetryTrigger:
    """Fires when a refused configuration is worth another try, since one of its sources gives something else."""

    def __init__(self, polls: Sequence[SourcePollState]) -> None:
        """Each state has the version that was refused, or None if the source gave nothing."""
        self._due = {poll: time.monotonic() + poll.pause_s for poll in polls}
        self._problems: dict[SourcePollState, str] = {}

    @property
    def interval(self) -> float:
        """The longest interval of its sources, in seconds."""
        return max((poll.source.interval for poll in self._due), default=0.0)

    def has_fired(self) -> bool:
        """Polls the sources that are due. True if one gives something else, or another reason for giving nothing."""
        return any(self._is_new(poll) for poll, due in self._due.items() if time.monotonic() >= due)

    def _is_new(self, poll: SourcePollState) -> bool:
        try:
            return poll.poll() is not None
        except SourceError as error:
            before = self._problems.setdefault(poll, str(error))
            return poll.version is None and str(error) != before
        finally:
            self._due[poll] = time.monotonic() + poll.pause_s
