"""A running extender, reached by its admin address: the commands of `kwx plugin`."""

from extender.commands.plugin.commands import app

__all__ = ["app"]
