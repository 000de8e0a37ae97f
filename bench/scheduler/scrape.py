"""What a scheduler's metrics tell of its attempts to place pods."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from bench.scheduler.errors import MeasureError
from bench.statistics import histogram_quantile

T = TypeVar("T")
Span = Literal["attempt", "algorithm"]
"""An attempt until its pod is bound, and what of it is the choice of a node: there extenders are asked.

Both are of `bench.run.HISTOGRAMS`.
"""

ATTEMPTS: Final = "scheduler_schedule_attempts_total"
BATCHED: Final = "scheduler_batch_attempts_total"
SCHEDULED: Final = "scheduled"
SPANS: Final[Mapping[str, Span]] = {
    "scheduler_scheduling_attempt_duration_seconds": "attempt",
    "scheduler_scheduling_algorithm_duration_seconds": "algorithm",
}
"""The spans by the names of histograms. The choice has no result in its labels: it is observed where there is a node.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/metrics/metrics.go
"""


class Attempts:
    """Attempts until a moment; `-` tells of those between two."""

    def __init__(
        self, results: Counter[str], buckets: Mapping[Span, Counter[float]], seconds: Mapping[Span, float], batched: int
    ) -> None:
        self.results = results
        """The number of attempts by result: `scheduled`, `unschedulable` or `error`."""
        self.buckets = buckets
        """How many attempts that placed a pod took at most so many seconds, by span and seconds."""
        self.seconds = seconds
        """The seconds of all attempts that placed a pod, by span."""
        self.batched = batched
        """The number of attempts that took the next best node of an earlier pod's results (opportunistic batching)."""

    @classmethod
    def read(cls, metrics: str) -> Attempts:
        """The attempts until now, from the text of a scheduler's metrics."""
        results: Counter[str] = Counter()
        buckets: dict[Span, Counter[float]] = {span: Counter() for span in SPANS.values()}
        seconds: dict[Span, float] = dict.fromkeys(SPANS.values(), 0.0)
        batched = 0
        lines = [line for line in metrics.splitlines() if line.startswith((ATTEMPTS, BATCHED, *SPANS))]
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                name, _, kind = sample.name.rpartition("_")
                result = sample.labels.get("result", SCHEDULED)
                if sample.name == ATTEMPTS:
                    results[result] += int(sample.value)
                elif sample.name == BATCHED:
                    batched += int(sample.value) * (result == "hint_used")
                elif result == SCHEDULED and kind == "bucket":
                    buckets[SPANS[name]][float(sample.labels["le"])] += int(sample.value)
                elif result == SCHEDULED and kind == "sum":
                    seconds[SPANS[name]] += sample.value
        return cls(results, buckets, seconds, batched)

    def mean(self, span: Span) -> float:
        """Seconds that this part of those that placed a pod took. Raises MeasureError without any."""
        return self.seconds[span] / self._count(span)

    def quantile(self, span: Span, q: float) -> float:
        """Seconds within which this part of those that placed a pod were done. Raises MeasureError without any."""
        self._count(span)
        return histogram_quantile(list(self.buckets[span].items()), q)

    def _count(self, span: Span) -> int:
        """The number of attempts that placed a pod. Raises MeasureError if there is none."""
        count = self.buckets[span][math.inf]
        if not count:
            raise MeasureError(f"the scheduler's metrics tell of no {span} that placed a pod")
        return count

    def __sub__(self, earlier: Attempts) -> Attempts:
        buckets = {span: _difference(counts, earlier.buckets[span]) for span, counts in self.buckets.items()}
        seconds = {span: taken - earlier.seconds[span] for span, taken in self.seconds.items()}
        batched = self.batched - earlier.batched
        return Attempts(_difference(self.results, earlier.results), buckets, seconds, batched)


def _difference(later: Counter[T], earlier: Counter[T]) -> Counter[T]:
    """The difference of two counters with its zeros, which `-` leaves out."""
    found = Counter(later)
    found.subtract(earlier)
    return found
