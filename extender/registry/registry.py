"""The profiles that are live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from extender.config import ProfileConfig
from extender.profile import FailurePolicy, Profile
from extender.registry.slot import Slot
from wasm_runtime.plugin import Plugin


class _Live(NamedTuple):
    """All that is exchanged by a switch."""

    profiles: dict[str, Profile]
    default: Profile
    slots: tuple[Slot, ...]
    binds: bool


class Registry:
    """All profiles and the plugins' places in them. May be used from any thread.

    What is live is exchanged as a whole, by one assignment: a request that asks for its profile once has plugins that
    belong together.
    """

    def __init__(self, profiles: Iterable[Profile], slots: Iterable[Slot] = ()) -> None:
        self.switch(profiles, slots)

    def switch(self, profiles: Iterable[Profile], slots: Iterable[Slot]) -> None:
        """Makes profiles live for all requests that come from now on; those in flight keep what they have."""
        named = {profile.name: profile for profile in profiles}
        default = named.get("default") or next(iter(named.values()))
        binds = any(profile.binds or profile.problem for profile in named.values())
        self._live = _Live(named, default, tuple(slots), binds)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """In the order of the configuration."""
        return self._live.slots

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """In the order of the configuration."""
        return tuple(self._live.profiles.values())

    @property
    def plugins(self) -> list[Plugin]:
        """Those that serve, and those that are kept ready to come back."""
        lives = {id(live): live for slot in self.slots for live in (slot.live, slot.standby) if live}
        return [live.entry.plugin for live in lives.values()]

    @property
    def binds(self) -> bool:
        """Whether any profile may have a plugin with a part in the binding cycle."""
        return self._live.binds

    @property
    def wants_pods(self) -> bool:
        """Whether any plugin asks for the pods that a preemption would evict."""
        return any(profile.runs("addpod") or profile.runs("removepod") for profile in self.profiles)

    def named(self, name: str) -> Profile | None:
        """The profile of that name."""
        return self._live.profiles.get(name)

    def of_scheduler(self, name: str) -> Profile:
        """The profile named like a scheduler, else `default`, else the first."""
        live = self._live
        return live.profiles.get(name, live.default)

    def close(self) -> None:
        """Gives all guests back."""
        for plugin in self.plugins:
            plugin.close()


def assemble(configs: Sequence[ProfileConfig], slots: Sequence[Slot]) -> Iterator[Profile]:
    """The profiles of a configuration, of what serves in the slots of their plugins."""
    for config in configs:
        places = {slot.name: slot for slot in slots if slot.profile == config.name}
        ordered = [places[plugin.name] for plugin in config.plugins]
        missing = [slot for slot in ordered if not slot.live and slot.config.failure_policy is FailurePolicy.FAIL]
        yield Profile(
            config.name,
            [slot.live.entry for slot in ordered if slot.live],
            config.score_range,
            config.zero_scores,
            "; ".join(f"plugin {slot.name} is not there yet: {slot.problem}" for slot in missing),
        )
