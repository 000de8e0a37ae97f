"""Fixtures of the tests of planted faults."""

from tests.extender.commands.command import command

__all__ = ["command"]
