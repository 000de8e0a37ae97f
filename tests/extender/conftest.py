"""What the tests of the extender share."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("extender", deadline=None)  # How long an example takes tells of the machine's load only.
settings.load_profile("extender")
