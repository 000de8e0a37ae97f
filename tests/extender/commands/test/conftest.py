"""Fixtures of the tests of `kwx test`."""

from tests.extender.commands.command import command

__all__ = ["command"]
