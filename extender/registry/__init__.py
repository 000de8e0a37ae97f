"""The plugins that are live: loaded from their sources, exchanged when a source changes."""

from extender.registry.registry import Registry, Slot, load

__all__ = ["Registry", "Slot", "load"]
