"""A real Kubernetes control plane on a bare machine, built from source and started on loopback."""

from .binaries import Binaries, build
from .cluster import ControlPlane
from .gobuild import BuildError
from .process import ControlPlaneError, Process

__all__ = ["Binaries", "BuildError", "ControlPlane", "ControlPlaneError", "Process", "build"]
