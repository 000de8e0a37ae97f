"""The plugins that are live: loaded from their sources, exchanged when something else is wanted."""

from extender.registry.load import Loaded, load
from extender.registry.registry import Registry
from extender.registry.slot import Slot

__all__ = ["Loaded", "Registry", "Slot", "load"]
