"""Watches over a revision while it is new."""

from __future__ import annotations

import math
import time
from typing import Final

from extender.config import SwapConfig
from extender.scheduling.profile import CpuTime, ProfilePlugin

MIN_SAMPLES: Final = 20
"""Calls of which a mean time tells something."""


class Probation:
    """Compares a revision's failures and processor time with those of the revision before it."""

    def __init__(
        self, current: ProfilePlugin, before: ProfilePlugin, limits: SwapConfig, *, from_first_call: bool = False
    ) -> None:
        """With `from_first_call` the time of probation begins then: who is not asked proves nothing."""
        self._current = current
        self._before = before
        self._limits = limits
        self._until = math.inf if from_first_call else time.monotonic() + limits.rollback_time

    @property
    def is_over(self) -> bool:
        """Whether the time of probation has passed."""
        if self._until == math.inf and self._current.stats.calls:
            self._until = time.monotonic() + self._limits.rollback_time
        return time.monotonic() >= self._until

    @property
    def problem(self) -> str | None:
        """Why the revision has to go; None while it does well enough."""
        return self._failures() or self._slowness()

    def _failures(self) -> str | None:
        stats, limits = self._current.stats, self._limits
        share = stats.failures / max(stats.calls, 1)
        before = self._before.stats.failures / max(self._before.stats.calls, 1)
        if stats.failures < limits.rollback_failures or share < limits.rollback_share or share <= before:
            return None
        return f"{stats.failures} of {stats.calls} calls since the switch have failed, the last one by: {stats.last}"

    def _slowness(self) -> str | None:
        for verb, cpu in list(self._current.stats.cpu_time.items()):
            now, before = _mean(cpu), _mean(self._before.stats.cpu_time[verb])
            if now is None or before is None:
                continue
            if now > before * self._limits.slowdown_factor and now - before > self._limits.slowdown_floor:
                return (
                    f"{verb} takes {now * 1000:.2f} ms of the processor (mean of {cpu.calls}), {before * 1000:.2f} ms"
                    f" before the switch; that is more than swap.slowdownFactor {self._limits.slowdown_factor:g} and"
                    f" swap.slowdownFloor {self._limits.slowdown_floor * 1000:g} ms allow"
                )
        return None


def _mean(cpu: CpuTime) -> float | None:
    return cpu.seconds / cpu.calls if cpu.calls >= MIN_SAMPLES else None
