"""Which modules may go live: pinned digests and required public keys."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from extender.config import PluginConfig, ProfileConfig
from extender.rollouts.live_plugins import LivePlugins
from extender.rollouts.pipeline import Pipeline
from extender.rollouts.runs import RolloutRuns
from extender.rollouts.slot import Slot
from extender.rollouts.switch import Switch

logger = logging.getLogger(__name__)

REQUIRED: Final = "the configuration requires something else of the plugin's modules now"


class ModuleAdmission:
    """Enforces the digests and public keys that the configuration requires of modules.

    They count for everything that goes live from then on. A revision that serves goes on serving even if it does not
    meet them, since otherwise no pod would be scheduled. `Slot.unmet`, the log and a condition tell operators.
    """

    def __init__(self, live: LivePlugins, pipeline: Pipeline, switch: Switch, runs: RolloutRuns) -> None:
        self._live = live
        self._pipeline = pipeline
        self._switch = switch
        self._runs = runs

    def enforce(self, profiles: Sequence[ProfileConfig]) -> None:
        """Puts the requirements of a configuration in force, even if the rest of it is refused."""
        read = {(profile.name, plugin.name): plugin for profile in profiles for plugin in profile.plugins}
        with self._switch.lock:
            for slot in self._live.slots:
                configured = self._switch.configured(slot)
                config = _stricter(configured, read.get(slot.place, configured))
                if config != slot.config:
                    self._runs.cancel([slot], REQUIRED)
                    slot.version = None  # Before the source: who follows it looks here.
                    slot.config, slot.source = config, self._pipeline.open(config)
        self.review(self._live.slots)

    def review(self, slots: Iterable[Slot]) -> None:
        """Notes in `Slot.unmet` which requirements the revisions that serve do not meet, and logs new ones."""
        for slot in slots:
            config, live = slot.config, slot.live
            unmet = self._pipeline.unmet(config, live.revision) if live else ""
            with self._switch.lock:
                if (slot.config, slot.live) != (config, live):
                    continue  # Whoever has changed that has it reviewed, or has verified it.
                if unmet and unmet != slot.unmet:
                    fields = {"plugin": slot.name, "profile": slot.profile}
                    logger.warning("a revision serves on that could not go live now: %s", unmet, extra=fields)
                slot.unmet = unmet


def _stricter(configured: PluginConfig, read: PluginConfig) -> PluginConfig:
    """A plugin as it is configured, of which is required what a configuration says that is not live.

    A pin that is to be exchanged stays as it is: the module of the other one belongs to the rest of that configuration.
    """
    key = read.source.public_key or configured.source.public_key
    source = configured.source.model_copy(update={"public_key": key})
    return configured.model_copy(update={"digest": configured.digest or read.digest, "source": source})
