"""A cache of the cluster's nodes, as far as requests are concerned: the test brings the nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Cache:
    """To be answered from, or not; current, or not."""

    unusable: str | None = None
    problem: str | None = None
