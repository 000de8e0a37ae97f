"""Fixtures of the end-to-end tests."""

from pathlib import Path

import pytest

from tests.controlplane import ControlPlane


@pytest.fixture(scope="session")
def identity(control_plane: ControlPlane) -> Path:
    return control_plane.kubeconfig("admin")
