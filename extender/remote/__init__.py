"""A running extender, reached by its admin address: the commands of `kwx plugin`."""

from extender.remote.commands import app

__all__ = ["app"]
