"""One control plane for all tests of a session: a pytest fixture, and a hook that builds it before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from bench.controlplane import BuildError, ControlPlane, build


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane without nodes and without a scheduler; tests add theirs and `clear` afterwards."""
    with ControlPlane() as running:
        yield running


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds it where a test wants it: the first time that takes longer than any test may."""
    if any("control_plane" in getattr(item, "fixturenames", ()) for item in session.items):
        with suppress(BuildError):  # Those tests tell.
            build()
