"""Histograms that cost little to count in."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

BUCKETS: Final = (
    *(0.00005, 0.0001, 0.0002, 0.00035, 0.0005, 0.00075),
    *(0.001, 0.0015, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
"""Upper bounds in seconds: a verb takes a fraction of a millisecond, a guest that spins its timeout."""

_BOUNDS: Final = (*map(floatToGoString, BUCKETS), "+Inf")


class _Counts:
    """How often a value fell into each bucket, and the sum of all."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * len(_BOUNDS)
        self.total = 0.0


class Histogram(Collector):
    """Seconds by the values of labels. May be used from any thread.

    Each verb counts some ten times, so what prometheus_client's own histogram takes would show: ten times as much.
    """

    def __init__(self, name: str, help_text: str, *labels: str) -> None:
        self._name = name
        self._help_text = help_text
        self._labels = labels
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], _Counts] = {}

    def count(self, seconds: float, *values: str) -> None:
        """Counts a value under the values of the labels."""
        with self._lock:
            counts = self._counts.get(values)
            if counts is None:
                counts = self._counts[values] = _Counts()
            counts.buckets[bisect_left(BUCKETS, seconds)] += 1
            counts.total += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """What was counted until now."""
        family = HistogramMetricFamily(self._name, self._help_text, labels=self._labels)
        with self._lock:
            for values, counts in self._counts.items():
                buckets = zip(_BOUNDS, map(float, accumulate(counts.buckets)), strict=True)
                family.add_metric(values, list(buckets), counts.total)
        yield family
