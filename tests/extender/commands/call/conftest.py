"""Fixtures of the tests of calls."""

from tests.extender.commands.command import command

__all__ = ["command"]
