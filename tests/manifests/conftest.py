"""Fixtures of the tests of the manifests."""

from __future__ import annotations

import pytest

from .overlay import SERVICE, SIDECAR, Overlay


@pytest.fixture(params=[SERVICE, SIDECAR], ids=lambda overlay: overlay.name)
def overlay(request: pytest.FixtureRequest) -> Overlay:
    """Each overlay."""
    assert isinstance(request.param, Overlay)
    return request.param
