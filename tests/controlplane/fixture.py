"""The pytest fixture: one control plane for all tests of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.controlplane.cluster import ControlPlane


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane without nodes and without a scheduler; tests add theirs and `clear` afterwards."""
    with ControlPlane() as running:
        yield running
