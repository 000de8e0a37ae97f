"""Samples of the requests that are judged: the last ones, on which a new revision is probed, and those to come."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

from extender.scheduling.requests import Candidates
from extender.scheduling.verb import JudgingVerbName, Victims
from extender.scheduling.verbs import JUDGING
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.guests.guest import Pod

MAX_SAMPLES: Final = 16
"""Requests that are kept of a verb of a profile, the last ones; and those that wait for one who listens."""

MAX_SAMPLES_BYTES: Final = 8 * MEBIBYTE
"""Bytes that they may hold together, about 100,000 names of nodes; one alone may hold more."""

NAME_BYTES: Final = 80
"""Bytes that a node's name takes, its place in a list included."""

SAMPLE_INTERVAL_S: Final = 0.1
"""Seconds between two requests that are kept, once there are enough: of thousands a second the others cost nothing."""

MAX_SHADOWED_PER_S: Final = 50
"""Requests of a verb a second that are handed to one who listens. One of another verb may follow at once."""

MAX_WAITING_BYTES: Final = 64 * MEBIBYTE
"""Bytes of requests that wait for one who records, beyond which none is added."""


class Sample(NamedTuple):
    """A request that was judged."""

    verb: JudgingVerbName
    pod: Pod
    names: Sequence[str]
    """The nodes that it was about, all of them, however few a plugin has left to the next one."""
    victims: Victims | None = None
    """With preempt. What could be had then may not be had later: pods come and go."""
    held: int = 0
    """Bytes that `victims` keeps alive."""

    @property
    def size(self) -> int:
        """Bytes that it takes, by a rule of thumb."""
        return NAME_BYTES * len(self.names) + len(self.pod.object) + self.held


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
    """One who wants to see what comes."""

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
        """From now on so many are taken."""
        self._left = requests

    @property
    def is_full(self) -> bool:
        """Whether all that were wanted have come."""
        return not self._left

    def offer(self, sample: Sample, asked: Candidates | None, now: float) -> None:
        """Takes a request, if it is one of filter and there is room."""
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


class RequestSamples:
    """The last requests of each profile and verb, and whoever wants those to come.

    Memory is bounded, and so is what it costs to keep them.
    """

    def __init__(self) -> None:
        self._rings: dict[tuple[str, str], _Ring] = {}
        self._listeners: tuple[_Listener | FilterRecording, ...] = ()
        self._lock = threading.Lock()

    def record(self, profile: str, sample: Sample, asked: Candidates | None = None) -> None:
        """Takes note of a request that was judged. May be called from any thread: a sample that two lose does no harm.

        `asked` is one of filter, whole; it comes from the serving thread only.
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
