"""The plugins that are live: loaded from their sources, exchanged when something else is wanted."""

from extender.rollouts.live_plugins import LivePlugins
from extender.rollouts.slot import Slot
from extender.rollouts.startup import Loaded, load

__all__ = ["LivePlugins", "Loaded", "Slot", "load"]
