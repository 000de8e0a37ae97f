"""Fixtures of the tests of `kwx record` and `kwx replay`."""

from tests.extender.commands.command import command

__all__ = ["command"]
