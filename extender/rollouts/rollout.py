"""A rollout: one attempt to bring a module and its configuration live."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from extender.rollouts.probe import ProbeReport
from extender.rollouts.revision import NEXT, RolloutStage


class Rollout(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known of an attempt: who wants what and why, how far it has come."""

    id: int
    """Counts up, over restarts, too."""
    profile: str
    plugin: str
    stage: RolloutStage = RolloutStage.FETCHING
    by: str
    """Who asked for it: `source`, `configuration`, `start`, `rollback`, or a user of the admin API."""
    why: str = ""
    dry_run: bool = False
    revision: str | None = None
    """Its id, once the module is there."""
    module: str | None = None
    """The module's digest, once it is there."""
    origin: str = ""
    """Where the module is from."""
    replaces: str | None = None
    """The revision that was active when this one took over, or would have."""
    problem: str = ""
    """Why it has failed, or has been rolled back."""
    report: ProbeReport | None = None
    """What the probe has seen."""
    began: float = msgspec.field(default_factory=time.time)
    """Seconds since 1970."""
    changed: float = msgspec.field(default_factory=time.time)
    settled: float | None = None
    """When `succeeded` became what it is. None before that, and in what older versions have written."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be waited for: it is live, or never will be."""
        return self.stage not in _ON_THE_WAY

    @property
    def succeeded(self) -> bool | None:
        """Whether it ended well and was not rolled back. None until it is over."""
        return self.stage is not RolloutStage.FAILED and not self.problem if self.is_over else None

    @property
    def end(self) -> str | None:
        """How it has just ended: live, refused, or taken back. None for other steps."""
        return _ENDS.get((self.stage, bool(self.problem)))

    def at(self, stage: RolloutStage, **more: object) -> Rollout:
        """The same, one stage further. Raises ValueError for one that cannot follow."""
        if stage not in NEXT[self.stage]:
            raise ValueError(f"{stage.value} does not follow {self.stage.value}")
        now = time.time()
        further = msgspec.structs.replace(self, stage=stage, changed=now, **more)
        return further if further.succeeded == self.succeeded else msgspec.structs.replace(further, settled=now)


_ENDS: Final = {
    (RolloutStage.ACTIVE, False): "active",
    (RolloutStage.FAILED, True): "failed",
    (RolloutStage.DRAINING, True): "rolled back",
}
"""By the stage and whether there is a problem."""

ENDS: Final = tuple(_ENDS.values())
"""The values of `Rollout.end`."""

_ON_THE_WAY: Final = {stage for stage, following in NEXT.items() if RolloutStage.FAILED in following}
