"""A plugin's place in a profile: what it is configured to be, and what serves there."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from extender.config import PluginConfig
from extender.config.urls import public
from extender.rollouts.revision import Revision
from extender.rollouts.rollout import Rollout
from extender.scheduling.profile import SHORT_DIGEST, PluginOutcomes, ProfilePlugin
from extender.sources import Source
from wasm_runtime.guests.plugin import Plugin

RECENT_S: Final = 300.0
"""Seconds for which it is told that a plugin has failed."""


@dataclass(frozen=True, slots=True, eq=False)
class ActiveRevision:
    """A revision that serves, or has served and is still there."""

    revision: Revision
    profile_plugin: ProfilePlugin
    rollout: Rollout
    """The rollout that made it active, as it was at that time."""

    @property
    def plugin(self) -> Plugin:
        """What runs its module."""
        return self.profile_plugin.plugin


@dataclass(slots=True, eq=False)
class Slot:
    """A plugin's place. Any thread may read its attributes. What serves changes under `Switch.lock` alone."""

    key: str
    """Where the configuration speaks of it, as in `profiles[0].plugins[1]`."""
    profile: str
    config: PluginConfig
    source: Source
    version: str | None = None
    """The version of what the source gave last; None if it is not known."""
    outcomes: PluginOutcomes = field(default_factory=PluginOutcomes)
    """What became of the calls of all its revisions since the start."""
    live: ActiveRevision | None = None
    """What serves. None if nothing could be had yet."""
    standby: ActiveRevision | None = None
    """What comes back at once if `live` fails on probation; None once it has proven good."""
    revisions: list[Revision] = field(default_factory=list)
    """Revisions that have served, the newest first. A rollback does not change the order, so a second one leads further
    back."""
    offered: str | None = None
    """The revision that the source gave last, whatever became of it. It is not rolled out again if the source still
    gives it."""
    problem: str = ""
    """What is wrong with the source now; empty if nothing is."""
    refusal: str = ""
    """Why what the source gives now was refused; empty if it was not."""
    unmet: str = ""
    """Why what serves could not go live now: something else is required than when it did. Empty if it could."""
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held during a rollout: there is one at a time. A rollback does not wait for it."""
    _observed: dict[str, tuple[str, float]] = field(default_factory=dict, init=False)
    """The status that each type of condition was seen with last, and since when."""

    @property
    def name(self) -> str:
        """The plugin's."""
        return self.config.name

    @property
    def place(self) -> tuple[str, str]:
        """The profile's name and the plugin's."""
        return self.profile, self.config.name

    def serves(self, revision: str | None) -> bool:
        """Whether the revision of an id is the one that serves."""
        return self.live is not None and self.live.revision.id == revision

    def observe(self, condition: str, status: str) -> float:
        """Since when a condition has the status that it has now, in seconds since 1970."""
        seen = self._observed.get(condition)
        if seen is None or seen[0] != status:
            seen = self._observed[condition] = (status, time.time())
        return seen[1]

    @property
    def recent_failures(self) -> str:
        """Says so if calls of the plugin have failed lately.

        Everybody may read it, so what the guest said is not in it.
        """
        outcomes = self.outcomes
        ago = time.monotonic() - outcomes.failed_at
        if not outcomes.last_failure or ago > RECENT_S:
            return ""
        times = "once" if outcomes.total_failures == 1 else f"{outcomes.total_failures} times"
        return (
            f"has failed {times} since the start, last {ago:.0f} s ago;"
            f" kwx plugin show {self.name} has the last failure"
        )

    @property
    def notice(self) -> str:
        """Says so if what serves is not what the source gives, or could not go live any more."""
        unmet = f"serves on, but could not go live now: {self.unmet}" if self.unmet else ""
        return "; ".join(filter(None, [self.difference, unmet]))

    @property
    def difference(self) -> str:
        """How what serves differs from what the source gives; empty if it does not."""
        if self.live and self.refusal:
            return f"what {public(self.config.guest_url)} gives is refused: {self.refusal}"
        if self.live is None or self.offered is None or self.live.revision.id == self.offered:
            return ""
        return (
            f"revision {self.live.revision.id[:SHORT_DIGEST]} serves, not {self.offered[:SHORT_DIGEST]} that"
            f" {public(self.config.guest_url)} gives; kwx plugin history {self.name} tells why"
        )
