"""What all tests share."""

from hypothesis import settings

from tests.controlplane.fixture import control_plane, pytest_collection_finish

__all__ = ["control_plane", "pytest_collection_finish"]

pytest_plugins = ["tests.suite.timeouts"]

settings.register_profile("kwx", deadline=None)  # How long an example takes tells of the machine's load only.
settings.load_profile("kwx")
