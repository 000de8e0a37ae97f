"""The errors of measuring schedulers."""

from __future__ import annotations

from bench.errors import BenchError


class MeasureError(BenchError):
    """There are no figures that could be trusted. `str()` says why, with the end of the logs where they tell more."""


class TooLateError(MeasureError):
    """Pods were not created, or not bound, when they had to be: the machine was held up, or is too slow for it."""
