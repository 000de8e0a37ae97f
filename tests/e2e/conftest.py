"""Fixtures of the end-to-end tests."""

from pathlib import Path

import pytest

from bench.controlplane import ControlPlane
from tests.manifests.overlay import SERVICE


@pytest.fixture(scope="session")
def identity(control_plane: ControlPlane) -> Path:
    """The extender's kubeconfig: the account of the manifests, with the least rights that it needs."""
    return SERVICE.identity(control_plane)
