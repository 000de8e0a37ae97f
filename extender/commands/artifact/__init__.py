"""Modules on their way between authors, registries and extenders: `kwx push`, `pull`, `verify`, `digest`."""
