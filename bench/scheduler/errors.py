"""What goes wrong while schedulers are measured."""

from __future__ import annotations

from bench.errors import BenchError


class MeasureError(BenchError):
    """There are no figures that could be trusted. `str()` says why, with the end of the logs where they tell more."""


class TooLateError(MeasureError):
    """Pods came later than they were to: it is not the scheduler's pace that was measured."""
