"""What all tests share."""

from hypothesis import settings

from tests.controlplane.fixture import control_plane

__all__ = ["control_plane"]

settings.register_profile("kwx", deadline=None)  # How long an example takes tells of the machine's load only.
settings.load_profile("kwx")
