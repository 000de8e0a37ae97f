"""Revisions of plugins, and what becomes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from extender.config import PluginConfig
from extender.config.quantity import size_text

REVISED: Final = (
    "guest_config",
    "args",
    "log_severity",
    "weight",
    "engine",
    "allow_unlimited",
    "failure_policy",
    "timeout",
    "memory_limit",
    "table_limit",
    "output_limit",
    "instances",
    "extension_points",
)
"""What of a plugin's configuration is part of its revisions; the rest is where modules come from and how they swap."""


_SIZES: Final = frozenset({"memoryLimit", "outputLimit"})
"""Keys of `REVISED` whose values are bytes."""


class RolloutStage(str, Enum):
    """How far a rollout has come."""

    FETCHING = "fetching"
    FETCHED = "fetched"
    VERIFIED = "verified"
    """The digest and the signature are those that are required."""
    COMPILED = "compiled"
    """It has started, too."""
    PROBED = "probed"
    """It has judged recorded requests beside the active revision."""
    WARMED = "warmed"
    """Its first guest knows the nodes."""
    ACTIVE = "active"
    """All cycles that begin are on it."""
    DRAINING = "draining"
    """Another one is active; cycles that began on it end on it."""
    RETIRED = "retired"
    """Its guests are given back."""
    FAILED = "failed"
    REHEARSED = "rehearsed"
    """A dry run has ended well."""
    UNCHANGED = "unchanged"
    """The revision was active already."""


_STEPS: Final[Mapping[RolloutStage, tuple[RolloutStage, ...]]] = {
    RolloutStage.FETCHING: (
        RolloutStage.FETCHED,
        RolloutStage.WARMED,
    ),  # WARMED at once: the guests of an earlier revision are still there.
    RolloutStage.FETCHED: (RolloutStage.VERIFIED,),
    RolloutStage.VERIFIED: (
        RolloutStage.COMPILED,
        RolloutStage.WARMED,
        RolloutStage.UNCHANGED,
    ),  # WARMED: what has served is not probed again.
    RolloutStage.COMPILED: (RolloutStage.PROBED,),
    RolloutStage.PROBED: (RolloutStage.WARMED, RolloutStage.REHEARSED),
    RolloutStage.WARMED: (RolloutStage.ACTIVE,),
}

NEXT: Final[Mapping[RolloutStage, frozenset[RolloutStage]]] = {
    **{stage: frozenset({*steps, RolloutStage.FAILED}) for stage, steps in _STEPS.items()},
    RolloutStage.ACTIVE: frozenset({RolloutStage.DRAINING}),
    RolloutStage.DRAINING: frozenset({RolloutStage.RETIRED}),
    **{
        stage: frozenset()
        for stage in (RolloutStage.RETIRED, RolloutStage.FAILED, RolloutStage.REHEARSED, RolloutStage.UNCHANGED)
    },
}
"""The stages that may follow each."""


class Revision(msgspec.Struct, frozen=True, rename="camel"):
    """A module and the configuration that it runs with."""

    id: str
    """`sha256:` and a digest over the module's and the settings."""
    module: str
    """The module's digest."""
    settings: dict[str, Any]
    """`REVISED` as the configuration file writes it."""
    origin: str
    """Where the module was found when this revision was first made."""
    signer: str | None = None
    """Fingerprint of the public key by which its signature was verified."""

    @classmethod
    def of(cls, module: str, config: PluginConfig, origin: str, signer: str | None = None) -> Revision:
        """The revision of a module under a configuration."""
        settings = settings_of(config)
        named = msgspec.json.encode({"module": module, "settings": settings}, order="deterministic")
        return cls(f"sha256:{hashlib.sha256(named).hexdigest()}", module, settings, origin, signer)

    def under(self, config: PluginConfig) -> Revision:
        """The revision of the same module under another configuration, not verified."""
        return Revision.of(self.module, config, self.origin)

    def configure(self, config: PluginConfig) -> PluginConfig:
        """The plugin's configuration with this revision's settings."""
        return configure(config, self.settings)


def settings_as_written(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a revision with their sizes as quantities: `256Mi`. Its id is made of plain numbers."""
    return {
        key: size_text(value) if key in _SIZES and isinstance(value, int) else value for key, value in settings.items()
    }


def settings_of(config: PluginConfig) -> dict[str, Any]:
    """`REVISED` of a plugin's configuration, as the file writes it."""
    return config.model_dump(mode="json", by_alias=True, include=set(REVISED))


def configure(config: PluginConfig, settings: Mapping[str, Any]) -> PluginConfig:
    """A plugin's configuration with other settings. Raises ValidationError."""
    return PluginConfig.model_validate({**config.model_dump(mode="json", by_alias=True), **settings})
