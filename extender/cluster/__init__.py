"""The Kubernetes cluster: its nodes and pods, kept current for the guests, the binding of pods, their Events."""

from extender.cluster.access import pod_namespace
from extender.cluster.api import ApiServer
from extender.cluster.binder import ApiBinder, Binder, BindError, DryRunBinder, NoBinder
from extender.cluster.errors import AccessError, ClusterError, PodGoneError
from extender.cluster.events import Event, LogRecorder, ObjectReference, Recorder, not_judged
from extender.cluster.nodes import NodeCache
from extender.cluster.pods import PodCache, PodKey, read_pod
from extender.cluster.recorder import EventRecorder
from extender.cluster.reflector import Reflector
from extender.cluster.waker import Waker

__all__ = [
    "AccessError",
    "ApiBinder",
    "ApiServer",
    "BindError",
    "Binder",
    "ClusterError",
    "DryRunBinder",
    "Event",
    "EventRecorder",
    "LogRecorder",
    "NoBinder",
    "NodeCache",
    "ObjectReference",
    "PodCache",
    "PodGoneError",
    "PodKey",
    "Recorder",
    "Reflector",
    "Waker",
    "not_judged",
    "pod_namespace",
    "read_pod",
]
