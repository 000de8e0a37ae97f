"""The profiles that are live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from extender.scheduling.profile import Profile

DEFAULT_PROFILE: Final = "default"
"""The name of the profile for pods whose `schedulerName` matches no other profile."""


class _Live(NamedTuple):
    """All that is exchanged by a switch."""

    profiles: dict[str, Profile]
    default: Profile


class LiveProfiles:
    """All profiles, in the order of the configuration. May be used from any thread.

    What is live is exchanged as a whole, by one assignment: a request that asks for its profile once has plugins that
    belong together.
    """

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self.switch(profiles)

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._live.profiles.values())

    def switch(self, profiles: Iterable[Profile]) -> None:
        """Makes profiles live for all requests that come from now on; those in flight keep what they have."""
        named = {profile.name: profile for profile in profiles}
        default = named.get(DEFAULT_PROFILE) or next(iter(named.values()))
        self.has_binding_points = any(profile.has_binding_points or profile.problem for profile in named.values())
        """Whether any profile may have a plugin with a part in the binding cycle."""
        self._live = _Live(named, default)

    def named(self, name: str) -> Profile | None:
        """The profile of that name."""
        return self._live.profiles.get(name)

    def of_scheduler(self, name: str) -> Profile:
        """The profile named like a scheduler, else `default`, else the first."""
        live = self._live
        return live.profiles.get(name, live.default)
