"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.controlplane import ControlPlane
from tests.extender.commands.command import command
from tests.manifests.overlay import BIND, SERVICE

__all__ = ["command"]


@pytest.fixture(scope="module")
def identity(control_plane: ControlPlane) -> Iterator[Path]:
    """The extender's kubeconfig: the account of the manifests, with the least rights that it needs to bind, too."""
    kubeconfig = SERVICE.identity(control_plane)
    with BIND.applied(control_plane):
        yield kubeconfig
