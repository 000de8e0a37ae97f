"""The plugins that are live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from extender.config import FailurePolicy, ProfileConfig
from extender.rollouts.slot import Slot
from extender.scheduling.live_profiles import LiveProfiles
from extender.scheduling.profile import Profile
from extender.telemetry.plugin_collector import PluginSample
from wasm_runtime.guests.plugin import Plugin

NO_CANDIDATES: Final[Mapping[Slot, Plugin]] = {}


class LivePlugins:
    """The plugins' slots, and the profiles that they make. May be used from any thread."""

    def __init__(self, configs: Sequence[ProfileConfig], slots: Sequence[Slot]) -> None:
        """`configs` is what is configured now."""
        self.slots = tuple(slots)
        """In the order of the configuration."""
        self.profiles = LiveProfiles(_assemble(configs, slots))

    def switch(self, configs: Sequence[ProfileConfig], slots: Sequence[Slot]) -> None:
        """Makes profiles live of what is in the slots now."""
        self.profiles.switch(_assemble(configs, slots))
        self.slots = tuple(slots)

    def slot(self, profile: str, plugin: str) -> Slot | None:
        """The place of a plugin."""
        return next((slot for slot in self.slots if slot.place == (profile, plugin)), None)

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins that serve, and those of standbys."""
        lives = {id(live): live for slot in self.slots for live in (slot.live, slot.standby) if live}
        return [live.plugin for live in lives.values()]

    def samples(self) -> Iterator[PluginSample]:
        """What is measured of each plugin."""
        for slot in self.slots:
            outcomes, revision = slot.outcomes, slot.live.revision if slot.live else None
            yield PluginSample(
                slot.profile,
                slot.name,
                {fault.value: count for fault, count in outcomes.failures.items()},
                outcomes.rejected_nodes,
                revision.id if revision else "",
                revision.module if revision else "",
            )

    @property
    def wants_pods(self) -> bool:
        """Whether any of them wants to know pods: those that run, or those that a preemption would evict."""
        exports = ("addpod", "removepod")
        return any(plugin.wants_pods or any(map(plugin.runs, exports)) for plugin in self.plugins)

    @property
    def wants_groups(self) -> bool:
        """Whether any of them wants to know groups of pods."""
        return any(plugin.wants_groups for plugin in self.plugins)

    def close(self) -> None:
        """Gives all guests back."""
        for plugin in self.plugins:
            plugin.close()


def top_nodes_problems(
    profiles: Sequence[ProfileConfig], slots: Iterable[Slot], candidates: Mapping[Slot, Plugin] = NO_CANDIDATES
) -> Iterator[str]:
    """Why profiles cannot choose the best nodes, with the `candidates` in place of what serves.

    A profile can as soon as one plugin has a score, and may as long as one is not there yet.
    """
    for at, profile in enumerate(profiles):
        plugins = [candidates.get(slot) or _served(slot) for slot in slots if slot.profile == profile.name]
        if profile.top_nodes and not any(plugin is None or plugin.runs("score") for plugin in plugins):
            yield (
                f"profiles[{at}].topNodes: the best nodes are chosen by score, and no plugin of profile {profile.name}"
                " scores: leave out topNodes, or have a plugin that exports score (see kwx inspect) and whose"
                " extensionPoints do not leave it out"
            )


def _served(slot: Slot) -> Plugin | None:
    return slot.live.plugin if slot.live else None


def _assemble(configs: Sequence[ProfileConfig], slots: Sequence[Slot]) -> Iterator[Profile]:
    """The profiles of a configuration, of what serves in the slots of their plugins."""
    for config in configs:
        places = {slot.name: slot for slot in slots if slot.profile == config.name}
        ordered = [places[plugin.name] for plugin in config.plugins]
        missing = [slot for slot in ordered if not slot.live and slot.config.failure_policy is FailurePolicy.FAIL]
        yield Profile(
            config.name,
            [slot.live.profile_plugin for slot in ordered if slot.live],
            config.score_range,
            config.zero_scores,
            config.top_nodes,
            config.simulator_results,
            "; ".join(f"plugin {slot.name} is not there yet: {slot.problem}" for slot in missing),
        )
