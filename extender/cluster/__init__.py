"""The Kubernetes cluster: nodes, pods and groups of pods, kept current for the guests, binding, and Events."""

from extender.cluster.binder import ApiBinder, Binder, BindError, DryRunBinder, NoBinder
from extender.cluster.client.access import pod_namespace
from extender.cluster.client.api import ApiServer
from extender.cluster.client.errors import AccessError, ClusterError, PodGoneError
from extender.cluster.events.event import Event, LogRecorder, ObjectReference, Recorder, failed_scheduling_event
from extender.cluster.events.recorder import EventRecorder
from extender.cluster.waker import Waker
from extender.cluster.watch.group_objects import GROUP_APIS, GroupObject
from extender.cluster.watch.groups import GroupCache
from extender.cluster.watch.nodes import NodeCache
from extender.cluster.watch.pods import PodCache, PodKey, read_pod
from extender.cluster.watch.reflector import Reflector

__all__ = [
    "GROUP_APIS",
    "AccessError",
    "ApiBinder",
    "ApiServer",
    "BindError",
    "Binder",
    "ClusterError",
    "DryRunBinder",
    "Event",
    "EventRecorder",
    "GroupCache",
    "GroupObject",
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
    "failed_scheduling_event",
    "pod_namespace",
    "read_pod",
]
