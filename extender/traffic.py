"""The requests that were judged last: what a new revision of a plugin is tried on before it has a say."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from typing import Final, Literal, NamedTuple, get_args

from extender.verbs.preempt import Victims
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.guest import Pod

MOST_SAMPLES: Final = 16
"""Requests that are kept of a verb of a profile, the last ones."""

LARGEST: Final = 8 * MEBIBYTE
"""Bytes that they may hold together, about 100,000 names of nodes; one alone may hold more."""

A_NAME: Final = 80
"""Bytes that a node's name takes, its place in a list included."""

INTERVAL: Final = 0.1
"""Seconds between two requests that are kept, once there are enough: of thousands a second the others cost nothing."""

MOST_SHADOWED: Final = 50
"""Requests a second that are handed to one who listens."""

SampledVerb = Literal["filter", "prioritize", "preempt"]
SAMPLED: Final[tuple[SampledVerb, ...]] = get_args(SampledVerb)


class Sample(NamedTuple):
    """A request that was judged."""

    verb: SampledVerb
    pod: Pod
    names: Sequence[str]
    """The nodes that it was about, all of them, however few a plugin has left to the next one."""
    victims: Victims | None = None
    """With preempt. What could be had then may not be had later: pods come and go."""
    held: int = 0
    """Bytes that `victims` keeps alive: those of the request's body, if its victims came whole."""

    @property
    def size(self) -> int:
        """Bytes that it takes, by a rule of thumb."""
        return A_NAME * len(self.names) + len(self.pod.object) + self.held


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
        first = max(0, len(samples) - MOST_SAMPLES)
        size = sum(each.size for _, each in samples[first:])
        while size > LARGEST and first < len(samples) - 1:
            size -= samples[first][1].size
            first += 1
        self.samples = samples[first:]
        if first or len(samples) == MOST_SAMPLES:
            self.due = now + INTERVAL


class _Listener:
    """One who wants to see what comes."""

    __slots__ = ("due", "profile", "queue")

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.queue: queue.Queue[Sample] = queue.Queue(MOST_SAMPLES)
        self.due = 0.0

    def offer(self, sample: Sample, now: float) -> None:
        """Hands over a sample if that is due, and if those before it do not wait."""
        if now >= self.due:
            self.due = now + 1 / MOST_SHADOWED
            with suppress(queue.Full):
                self.queue.put_nowait(sample)


class Traffic:
    """The last requests of each profile and verb. Memory is bounded, and so is what it costs to keep them."""

    def __init__(self) -> None:
        self._rings: dict[tuple[str, str], _Ring] = {}
        self._listeners: tuple[_Listener, ...] = ()
        self._lock = threading.Lock()

    def record(self, profile: str, sample: Sample) -> None:
        """Takes note of a request that was judged. For the serving thread only."""
        now = time.monotonic()
        ring = self._rings.get((profile, sample.verb))
        if ring is None:
            ring = self._rings[profile, sample.verb] = _Ring()
        if now >= ring.due and sample.names:
            ring.take(sample, now)
        for listener in self._listeners:
            if listener.profile == profile and sample.names:
                listener.offer(sample, now)

    def last(self, profile: str) -> list[Sample]:
        """What is kept of a profile, in the order in which it came. May be called from any thread."""
        rings = [self._rings.get((profile, verb)) for verb in SAMPLED]
        kept = chain.from_iterable(ring.samples for ring in rings if ring)
        return [sample for _, sample in sorted(kept, key=itemgetter(0))]

    @contextmanager
    def listening(self, profile: str) -> Iterator[queue.Queue[Sample]]:
        """What comes while the context lasts, at most `MOST_SHADOWED` a second. May be entered in any thread.

        The queue is short: who takes too long misses some.
        """
        listener = _Listener(profile)
        with self._lock:
            self._listeners += (listener,)
        try:
            yield listener.queue
        finally:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)
