"""Fixtures of the tests of `kwx new` and `kwx build`."""

from tests.extender.commands.command import command

__all__ = ["command"]
