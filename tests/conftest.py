"""What all tests share."""

import signal

from hypothesis import settings

pytest_plugins = ["tests.suite.timeouts", "tests.controlplane.fixture"]

signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell that starts a run in the background ignores it.

settings.register_profile("kwx", deadline=None)  # How long an example takes tells of the machine's load only.
settings.load_profile("kwx")
