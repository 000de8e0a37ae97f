"""Fixtures of the tests of inspections."""

from tests.extender.command import command

__all__ = ["command"]
