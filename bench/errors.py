"""The base of the harness's errors."""

from __future__ import annotations


class BenchError(Exception):
    """A measurement cannot begin or go on. `str()` says why, and what to do."""
