"""Takes the results of rounds into a case of a run."""

from __future__ import annotations

from bench.plugin.rounds import METRICS, Round
from bench.run import Case, Timeline


class Ledger:
    """Adds rounds to a case."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def take(self, variant: str, found: Round, suffix: str = "") -> None:
        """Adds a variant's round; the suffix goes behind the metrics' names."""
        for metric in METRICS:
            self.case.add(variant, metric + suffix, "us", found.samples[metric], found.parts[metric])

    def take_one(self, variant: str, metric: str, milliseconds: float) -> None:
        """Adds a round of one sample."""
        self.case.add(variant, metric, "ms", [round(milliseconds, 3)])

    def extend(self, variant: str, found: Round, begun: float, marks: list[float]) -> None:
        """Adds a round to the timeline, behind what is there; `begun` and marks are of `time.monotonic`."""
        if not self.case.timelines:
            self.case.timelines.append(
                Timeline(variant=variant, metric="cycle", unit="us", seconds=[], values=[], marks=[])
            )
        timeline = self.case.timelines[0]
        offset = max(timeline.seconds, default=0.0) - begun
        timeline.seconds.extend(round(at + offset, 4) for at in found.at)
        timeline.values.extend(found.samples["cycle"])
        timeline.marks.extend(round(at + offset, 4) for at in marks)
