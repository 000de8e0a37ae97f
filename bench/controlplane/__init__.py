"""A real Kubernetes control plane on a bare machine, built from source and started on loopback."""

from .binaries import NEWEST, OLDEST, SCHEDULERS, Binaries, build
from .cluster import ControlPlane
from .gobuild import BuildError
from .process import ControlPlaneError, Process

__all__ = [
    "NEWEST",
    "OLDEST",
    "SCHEDULERS",
    "Binaries",
    "BuildError",
    "ControlPlane",
    "ControlPlaneError",
    "Process",
    "build",
]
