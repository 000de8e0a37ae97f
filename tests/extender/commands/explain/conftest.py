"""Fixtures of the tests of `kwx explain`."""

from tests.extender.commands.command import command

__all__ = ["command"]
