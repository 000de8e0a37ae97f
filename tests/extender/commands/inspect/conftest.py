"""Fixtures of the tests of inspections."""

from tests.extender.commands.command import command

__all__ = ["command"]
