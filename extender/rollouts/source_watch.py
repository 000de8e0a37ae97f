"""Sources, looked at time and again."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Final

from extender.sources import Fetched, Source, SourceError, UnreachableError

JITTER: Final = 0.1
"""Part of an interval by which looks at a source come earlier or later: many extenders are not to ask at once."""

MAX_PAUSE_S: Final = 300.0
"""Seconds between two looks at a source that cannot be reached, however often that has failed."""


class Watch:
    """Knows what a source has given last, and when to look at it again: twice as late each time that it is not reached.

    Used by one thread at a time.
    """

    def __init__(self, source: Source, version: str | None = None) -> None:
        self.source = source
        self.version = version
        """Of what the source has given last; None if all that it gives is news."""
        self._failures = 0

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        interval = self.source.interval
        seconds = min(interval * 2.0**self._failures, max(MAX_PAUSE_S, interval))
        return seconds * random.uniform(1 - JITTER, 1 + JITTER)

    def look(self) -> Fetched | None:
        """What the source gives, if that is news. Raises SourceError."""
        try:
            fetched = self.source.fetch(self.version)
        except SourceError as error:
            self._failures = min(self._failures + 1, 16) if isinstance(error, UnreachableError) else 0
            raise
        self._failures = 0
        if fetched:
            self.version = fetched.version
        return fetched


class Awaited:
    """Sources of which one has to give something else before it is worth to try again what was refused."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        """Each knows of which version that was which was refused; of none if there was nothing to be had."""
        self._due = {watch: time.monotonic() + watch.pause for watch in watches}
        self._problems: dict[Watch, str] = {}

    @property
    def interval(self) -> float:
        """Seconds between two looks at the source that is looked at most seldom."""
        return max((watch.source.interval for watch in self._due), default=0.0)

    def has_come(self) -> bool:
        """Whether a source whose turn it is gives something else, or another reason why it gives nothing."""
        return any(self._is_news(watch) for watch, due in self._due.items() if time.monotonic() >= due)

    def _is_news(self, watch: Watch) -> bool:
        try:
            return watch.look() is not None
        except SourceError as error:
            before = self._problems.setdefault(watch, str(error))
            return watch.version is None and str(error) != before
        finally:
            self._due[watch] = time.monotonic() + watch.pause
