"""A stand-in for the cache of the cluster's nodes, whose nodes the test brings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Cache:
    """A cache that a test declares usable or not, and current or not."""

    unusable: str | None = None
    problem: str | None = None
