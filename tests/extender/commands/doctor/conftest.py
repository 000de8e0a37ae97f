"""Fixtures of the tests of `kwx doctor`."""

from tests.extender.commands.command import command

__all__ = ["command"]
