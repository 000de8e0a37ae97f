"""Samples of the requests that are judged: the last ones, on which a new revision is probed, and those to come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from typing import Final

from extender.scheduling.filter_recording import FilterRecording
from extender.scheduling.requests import Candidates
from extender.scheduling.sample import Sample
from extender.scheduling.verb import JudgingVerbName
from extender.scheduling.verbs import JUDGING
from wasm_runtime.engine import MEBIBYTE

MAX_SAMPLES: Final = 16
"""The last requests that are kept for each verb of a profile; also how many may wait for a shadow."""

MAX_SAMPLES_BYTES: Final = 8 * MEBIBYTE
"""Bytes that they may hold together, about 100,000 names of nodes; one alone may hold more."""

SAMPLE_INTERVAL_S: Final = 0.1
"""Seconds between two requests that are kept, once there are enough: of thousands a second the others cost nothing."""

MAX_SHADOWED_PER_S: Final = 50
"""Requests of a verb a second that are handed to a shadow. One of another verb may follow at once."""


class _Ring:
    """The last samples of a verb. `samples` is exchanged whole, so that any thread may read it."""

    __slots__ = ("due", "samples")

    def __init__(self) -> None:
        self.samples: tuple[tuple[float, Sample], ...] = ()
        self.due = 0.0
        """When the next one is taken, on the clock of `time.monotonic`."""

    def take(self, sample: Sample, now: float) -> None:
        """Keeps a sample; the oldest make room."""
        samples = (*self.samples, (now, sample))
        first = max(0, len(samples) - MAX_SAMPLES)
        size = sum(each.size for _, each in samples[first:])
        while size > MAX_SAMPLES_BYTES and first < len(samples) - 1:
            size -= samples[first][1].size
            first += 1
        self.samples = samples[first:]
        if first or len(samples) == MAX_SAMPLES:
            self.due = now + SAMPLE_INTERVAL_S


class _Listener:
    """A queue of the requests that are judged from now on, for a shadow."""

    __slots__ = ("due", "profile", "queue")

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.queue: queue.Queue[Sample] = queue.Queue(MAX_SAMPLES)
        self.due: dict[JudgingVerbName, float] = {}
        """When the next one of a verb is handed over, on the clock of `time.monotonic`."""

    def offer(self, sample: Sample, _: Candidates | None, now: float) -> None:
        """Hands over a sample if that is due, and if there is room for it beside those that wait."""
        if now >= self.due.get(sample.verb, 0.0):
            self.due[sample.verb] = now + 1 / MAX_SHADOWED_PER_S
            with self.queue.mutex:
                waiting = sum(each.size for each in self.queue.queue)
            if not waiting or waiting + sample.size <= MAX_SAMPLES_BYTES:
                with suppress(queue.Full):
                    self.queue.put_nowait(sample)


class RequestSamples:
    """The last requests of each profile and verb, and whoever wants those to come.

    Memory is bounded, and so is what it costs to keep them.
    """

    def __init__(self) -> None:
        self._rings: dict[tuple[str, str], _Ring] = {}
        self._listeners: tuple[_Listener | FilterRecording, ...] = ()
        self._lock = threading.Lock()

    def record(self, profile: str, sample: Sample, asked: Candidates | None = None) -> None:
        """Takes note of a request that was judged. May be called from any thread: a sample may get lost, without harm.

        `asked` is the whole of a filter request. Only the serving thread gives it.
        """
        now = time.monotonic()
        ring = self._rings.get((profile, sample.verb))
        if ring is None:
            ring = self._rings[profile, sample.verb] = _Ring()
        if now >= ring.due and sample.names:
            ring.take(sample, now)
        for listener in self._listeners:
            if listener.profile == profile and sample.names:
                listener.offer(sample, asked, now)

    def last(self, profile: str) -> list[Sample]:
        """What is kept of a profile, in the order in which it came. May be called from any thread."""
        rings = [self._rings.get((profile, verb)) for verb in JUDGING]
        kept = chain.from_iterable(ring.samples for ring in rings if ring)
        return [sample for _, sample in sorted(kept, key=itemgetter(0))]

    def retain(self, profiles: Collection[str]) -> None:
        """Drops what is kept of other profiles, and ends their recordings. May be called from any thread."""
        for key in [key for key in list(self._rings) if key[0] not in profiles]:
            self._rings.pop(key, None)
        for listener in self._listeners:
            if isinstance(listener, FilterRecording) and listener.profile not in profiles:
                listener.is_gone = True

    @contextmanager
    def listening(self, profile: str) -> Iterator[queue.Queue[Sample]]:
        """What comes while the context lasts, of each verb `MAX_SHADOWED_PER_S` at most. May be entered in any thread.

        The queue is short: who takes too long misses some.
        """
        listener = _Listener(profile)
        with self._adding(listener):
            yield listener.queue

    @contextmanager
    def recording(self, profile: str) -> Iterator[FilterRecording]:
        """Records filter requests while the context lasts. May be entered in any thread."""
        recording = FilterRecording(profile)
        with self._adding(recording):
            yield recording

    @contextmanager
    def _adding(self, listener: _Listener | FilterRecording) -> Iterator[None]:
        with self._lock:
            self._listeners += (listener,)
        try:
            yield
        finally:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)
