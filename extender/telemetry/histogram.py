"""Histograms of durations in which counting costs little."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NamedTuple

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


class Durations(NamedTuple):
    """A summary of a series since the start, for people."""

    labels: tuple[str, ...]
    times: int
    mean: float
    """The mean in seconds."""
    median: float
    """The upper bound in seconds of the median's bucket; infinite in the last bucket."""
    p99: float
    """The upper bound in seconds of the 99th percentile's bucket."""


class Series:
    """The durations that were counted under one combination of labels. May be used from any thread."""

    __slots__ = ("_buckets", "_lock", "_total")

    def __init__(self) -> None:
        self._buckets = [0] * len(_BOUNDS)
        self._total = 0.0
        self._lock = threading.Lock()

    def count(self, seconds: float) -> None:
        """Counts a duration."""
        at = bisect_left(BUCKETS, seconds)
        with self._lock:
            self._buckets[at] += 1
            self._total += seconds

    def read(self) -> tuple[list[int], float]:
        """How many durations were at most each of BUCKETS and infinity, and the sum of all in seconds."""
        with self._lock:
            return list(accumulate(self._buckets)), self._total


class Histogram(Collector):
    """Seconds by the values of labels. May be used from any thread.

    Each verb counts some ten times, so what prometheus_client's own histogram takes would show: ten times as much.
    Who counts often keeps the series.
    """

    def __init__(self, name: str, help_text: str, *labels: str) -> None:
        self._name = name
        self._help_text = help_text
        self._labels = labels
        self._series: dict[tuple[str, ...], Series] = {}

    def series(self, *values: str) -> Series:
        """The series under these values of the labels, which begins if there is none."""
        return self._series.setdefault(values, Series())

    def durations(self) -> list[Durations]:
        """A summary of each series with durations, sorted by the values of the labels."""
        found: list[Durations] = []
        for labels, series in sorted(self._series.items(), key=lambda each: each[0]):
            counts, total = series.read()
            if count := counts[-1]:
                median, p99 = (_bound(bisect_left(counts, share * count)) for share in (0.5, 0.99))
                found.append(Durations(labels, count, total / count, median, p99))
        return found

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The metric as Prometheus reads it."""
        family = HistogramMetricFamily(self._name, self._help_text, labels=self._labels)
        for values, series in list(self._series.items()):
            counts, total = series.read()
            if counts[-1]:
                buckets = zip(_BOUNDS, map(float, counts), strict=True)
                family.add_metric(values, list(buckets), total)
        yield family


def _bound(bucket: int) -> float:
    return BUCKETS[bucket] if bucket < len(BUCKETS) else float("inf")
