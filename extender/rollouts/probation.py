"""Watches over a revision while it is new."""

from __future__ import annotations

import time
from typing import Final

from extender.config import SwapConfig
from extender.scheduling.profile import ProfilePlugin, Spent

MIN_SAMPLES: Final = 20
"""Calls of which a mean time tells something."""


class Probation:
    """Compares a revision's failures and processor time with those of the revision before it."""

    def __init__(self, current: ProfilePlugin, before: ProfilePlugin, limits: SwapConfig) -> None:
        self._current = current
        self._before = before
        self._limits = limits
        self._until = time.monotonic() + limits.rollback_time

    @property
    def is_over(self) -> bool:
        """Whether the time of probation has passed."""
        return time.monotonic() >= self._until

    @property
    def problem(self) -> str | None:
        """Why the revision has to go; None while it does well enough."""
        return self._failures() or self._slowness()

    def _failures(self) -> str | None:
        tally, limits = self._current.tally, self._limits
        share = tally.failures / max(tally.calls, 1)
        before = self._before.tally.failures / max(self._before.tally.calls, 1)
        if tally.failures < limits.rollback_failures or share < limits.rollback_share or share <= before:
            return None
        return f"{tally.failures} of {tally.calls} calls since the switch have failed, the last one by: {tally.last}"

    def _slowness(self) -> str | None:
        for verb, spent in list(self._current.tally.spent.items()):
            now, before = _mean(spent), _mean(self._before.tally.spent[verb])
            if now is None or before is None:
                continue
            if now > before * self._limits.slowdown_factor and now - before > self._limits.slowdown_floor:
                return (
                    f"{verb} takes {now * 1000:.2f} ms of the processor (mean of {spent.calls}), {before * 1000:.2f} ms"
                    f" before the switch; that is more than swap.slowdownFactor {self._limits.slowdown_factor:g} and"
                    f" swap.slowdownFloor {self._limits.slowdown_floor * 1000:g} ms allow"
                )
        return None


def _mean(spent: Spent) -> float | None:
    return spent.seconds / spent.calls if spent.calls >= MIN_SAMPLES else None
