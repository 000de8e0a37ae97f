"""Fixtures of the tests of `kwx plugin`."""

from tests.extender.command import command

__all__ = ["command"]
