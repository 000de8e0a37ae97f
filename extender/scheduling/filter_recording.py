"""Records whole filter requests, for one who writes them to a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from extender.scheduling.requests import Candidates
from extender.scheduling.sample import Sample
from wasm_runtime.engine import MEBIBYTE

MAX_WAITING_BYTES: Final = 64 * MEBIBYTE
"""Bytes of requests that wait for a recorder. While they are that many, none is added."""


class RecordedRequest(NamedTuple):
    """A whole filter request that was judged."""

    at: float
    """On the clock of `time.monotonic`."""
    sample: Sample
    asked: Candidates

    @property
    def size(self) -> int:
        """Bytes that it takes, by a rule of thumb."""
        return self.sample.size + self.asked.held


class FilterRecording:
    """Records the filter requests of a profile, from `start` until there are as many as wanted.

    The serving thread offers requests. One other thread takes them. Neither waits for the other.
    """

    __slots__ = ("_left", "_offered", "_taken", "_waiting", "dropped", "is_gone", "profile")

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.dropped = 0
        """Requests that came while too many waited."""
        self.is_gone = False
        """Whether the profile is not live any more, so that none comes."""
        self._left = 0
        self._waiting: deque[RecordedRequest] = deque()
        self._offered = 0
        """Bytes that have ever waited, counted by the serving thread alone."""
        self._taken = 0
        """Bytes that wait no more, counted by the other thread alone."""

    def start(self, requests: int) -> None:
        """Begins: the next so many requests are taken."""
        self._left = requests

    @property
    def is_full(self) -> bool:
        """Whether all that were wanted have come."""
        return not self._left

    def offer(self, sample: Sample, asked: Candidates | None, now: float) -> None:
        """Takes a filter request, if there is room for it."""
        if not (asked and self._left):
            return
        if self._offered - self._taken >= MAX_WAITING_BYTES:
            self.dropped += 1
            return
        request = RecordedRequest(now, sample, asked)
        self._offered += request.size
        self._waiting.append(request)
        self._left -= 1

    def take(self) -> Iterator[RecordedRequest]:
        """Those that wait, in the order in which they came. Each makes room when the next one is asked for."""
        while self._waiting:
            request = self._waiting.popleft()
            yield request
            self._taken += request.size
