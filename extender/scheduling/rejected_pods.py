"""Pods that no node takes, and when they are worth another attempt."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

EARLY_S: Final = 2.0
"""Seconds by which kube-scheduler may see earlier than the extender that a pod has ended."""


class RejectedPods:
    """Has rejected pods tried again when room comes free. Not for two threads at a time."""

    def __init__(self, wake: Callable[[], object], clock: Callable[[], float]) -> None:
        """`wake` has rejected pods tried again; `clock` in seconds."""
        self._wake = wake
        self._clock = clock
        self._vacated = 0
        """The position at which a pod last left room somewhere."""
        self._rejected_at = -math.inf
        """When a pod was last rejected everywhere, unless such pods were woken since."""

    def vacate(self, position: int, *, is_seen: bool) -> None:
        """Takes note that a pod has left room: pods that were rejected are worth another attempt.

        With `is_seen` kube-scheduler sees it by itself, and tries them again. It may have done so a moment too early.
        """
        self._vacated = position
        if self._rejected_at > (self._clock() - EARLY_S if is_seen else -math.inf):
            self._rejected_at = -math.inf
            self._wake()

    def reject(self, since: int) -> bool:
        """Takes note that no node takes a pod. Returns False if room came free after the position `since`.

        The pod has to be judged again then. Otherwise rejected pods are woken as soon as room comes free.
        """
        if self._vacated > since:
            return False
        self._rejected_at = self._clock()
        return True
