"""The Kubernetes cluster: its nodes, kept current for the guests, and the binding of pods."""

from .api import ApiServer
from .binder import ApiBinder, Binder, BindError, DryRunBinder, NoBinder, PodKey
from .errors import AccessError, ClusterError
from .nodes import NodeCache

__all__ = [
    "AccessError",
    "ApiBinder",
    "ApiServer",
    "BindError",
    "Binder",
    "ClusterError",
    "DryRunBinder",
    "NoBinder",
    "NodeCache",
    "PodKey",
]
