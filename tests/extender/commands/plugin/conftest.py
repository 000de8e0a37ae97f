"""Fixtures of the tests of `kwx plugin`."""

from tests.extender.commands.command import command

__all__ = ["command"]
