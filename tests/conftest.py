"""Fixtures of all tests."""

from tests.controlplane.fixture import control_plane

__all__ = ["control_plane"]
