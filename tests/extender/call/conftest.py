"""Fixtures of the tests of calls."""

from tests.extender.command import command

__all__ = ["command"]
