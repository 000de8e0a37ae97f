"""What all failures of the harness have in common."""

from __future__ import annotations


class BenchError(Exception):
    """A measurement cannot begin or go on. `str()` says why, and what to do."""
