"""What a scheduler's metrics tell of its attempts to place pods."""

from __future__ import annotations

from collections import Counter
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from bench.statistics import histogram_quantile

ATTEMPTS: Final = "scheduler_schedule_attempts_total"
SECONDS: Final = "scheduler_scheduling_attempt_duration_seconds_bucket"
SCHEDULED: Final = "scheduled"


class Attempts:
    """Attempts until a moment; `-` tells of those between two.

    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/metrics/metrics.go
    """

    def __init__(self, results: Counter[str], buckets: Counter[float]) -> None:
        self.results = results
        """How many had a result: `scheduled`, `unschedulable` or `error`."""
        self.buckets = buckets
        """How many of those that placed a pod took at most as many seconds."""

    @classmethod
    def read(cls, metrics: str) -> Attempts:
        """Those that a scheduler's metrics tell of, given as text."""
        found = cls(Counter(), Counter())
        lines = [line for line in metrics.splitlines() if line.startswith((ATTEMPTS, SECONDS))]
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                result = sample.labels["result"]
                if sample.name == ATTEMPTS:
                    found.results[result] += int(sample.value)
                elif result == SCHEDULED:
                    found.buckets[float(sample.labels["le"])] += int(sample.value)
        return found

    def quantile(self, q: float) -> float:
        """Seconds within which this part of those that placed a pod were done; nan without any."""
        return histogram_quantile(list(self.buckets.items()), q)

    def __sub__(self, earlier: Attempts) -> Attempts:
        results, buckets = Counter(self.results), Counter(self.buckets)
        results.subtract(earlier.results)
        buckets.subtract(earlier.buckets)
        return Attempts(results, buckets)
