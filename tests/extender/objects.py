"""Requests as kube-scheduler sends them, of small pods and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NODE_NAMES = [f"node-{at}" for at in range(10)]

Object = dict[str, Any]


def pod(name: str = "web-7", *, scheduler: str = "", annotations: Mapping[str, str] | None = None) -> Object:
    """A pod, its UID made from its name."""
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
    if annotations:
        metadata["annotations"] = dict(annotations)
    spec: Object = {"containers": [{"name": "main", "image": "registry.example/app:1"}]}
    if scheduler:
        spec["schedulerName"] = scheduler
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def node(name: str, *, version: str = "1", labels: Mapping[str, str] | None = None) -> Object:
    """A node."""
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": version, "labels": dict(labels or {})},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
    }


def names_args(names: Sequence[str] = NODE_NAMES, the_pod: Object | None = None) -> Object:
    """ExtenderArgs with `nodeCacheCapable: true`."""
    return {"Pod": the_pod or pod(), "Nodes": None, "NodeNames": list(names)}


def nodes_args(nodes: Sequence[Object], the_pod: Object | None = None) -> Object:
    """ExtenderArgs with `nodeCacheCapable: false`."""
    return {"Pod": the_pod or pod(), "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}


def meta_victims(*uids: str, violations: int = 0) -> Object:
    """MetaVictims: victims by UID."""
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}


def preemption_args(victims: Mapping[str, Object], the_pod: Object | None = None) -> Object:
    """ExtenderPreemptionArgs with `nodeCacheCapable: true`."""
    return {"Pod": the_pod or pod(), "NodeNameToVictims": None, "NodeNameToMetaVictims": dict(victims)}


def victims_args(victims: Mapping[str, Sequence[Object]], the_pod: Object | None = None) -> Object:
    """ExtenderPreemptionArgs with `nodeCacheCapable: false`: victims whole."""
    whole = {name: {"Pods": list(pods), "NumPDBViolations": 0} for name, pods in victims.items()}
    return {"Pod": the_pod or pod(), "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}


def binding_args(node_name: str = "node-7", pod_name: str = "web-7") -> Object:
    """ExtenderBindingArgs."""
    return {"PodName": pod_name, "PodNamespace": "default", "PodUID": f"uid-of-{pod_name}", "Node": node_name}


def filtered(
    names: Sequence[str] | None,
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
    error: str = "",
) -> Object:
    """The whole answer of a filter that was asked about names."""
    return {
        "Nodes": None,
        "NodeNames": None if names is None else list(names),
        "FailedNodes": dict(failed or {}),
        "FailedAndUnresolvableNodes": dict(unresolvable or {}),
        "Error": error,
    }


def filter_error(error: str) -> Object:
    """The whole answer of a filter that failed."""
    return filtered(None, error=error)


def scores(**by_node: int) -> list[Object]:
    """The whole answer of prioritize; `node_3=10` is the score of node-3."""
    return priorities({name.replace("_", "-"): score for name, score in by_node.items()})


def priorities(by_node: Mapping[str, int]) -> list[Object]:
    """The whole answer of prioritize, in which nodes with a score of 0 are left out."""
    return [{"Host": name, "Score": score} for name, score in by_node.items() if score]
