"""The nodes and pods of a measurement, as the bodies of the requests that create them."""

from __future__ import annotations

from typing import Final, NamedTuple

from bench.controlplane.cluster import FAKE_NODE
from bench.peers import objects
from bench.peers.protobuf import enveloped
from bench.plugin import workload
from wasm_runtime.protobuf import encode_node, encode_pod

NAMESPACE: Final = "shop"
ZONE: Final = "example.com/zone"
INSTANCE_TYPE: Final = "example.com/instance-type"
"""Labels of pods that the policy reads as wishes: a zone must be, a type of instance had better be."""
NODE_ZONE: Final = "topology.kubernetes.io/zone"
NODE_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"

CPU_REQUESTS: Final = range(10, 200, 7)
"""CPU requests of pods, in millicores."""
MEMORY_REQUESTS: Final = range(16, 400, 13)
"""MiB: a thousand pods fit onto a hundred nodes although all prefer the same ones."""


class Pod(NamedTuple):
    """A pod that will be created."""

    name: str
    zone: str
    """The only zone that the pod may be placed in; empty if it may be placed in any."""
    instance_type: str
    """The instance type that the pod prefers; empty if it has no wish."""
    body: bytes
    """The body of the request that creates it, in protobuf."""


class Node(NamedTuple):
    """A node that will be created."""

    name: str
    zone: str
    instance_type: str
    body: bytes
    """The body of the request that creates it, in protobuf."""


def pod(at: int) -> Pod:
    """The pod of a number: that of the plugin level, but smaller, for all are to find room."""
    manifest = _fresh(workload.pod(at, CPU_REQUESTS, MEMORY_REQUESTS)) | {"status": {}}
    metadata = manifest["metadata"]
    zone, instance_type = (metadata["labels"].get(label, "") for label in (ZONE, INSTANCE_TYPE))
    return Pod(metadata["name"], zone, instance_type, enveloped(encode_pod(manifest), "Pod"))


def alike(at: int) -> Pod:
    """The pod of a number, which differs from that of another one by its name alone. A node has room for one.

    kube-scheduler 1.36 takes what it has found for a pod for the next one only where that has no room beside it.
    """
    manifest = _fresh(objects.requesting(0, f"{CPU_REQUESTS[0]}m", f"{MEMORY_REQUESTS[0]}Mi", {})) | {"status": {}}
    metadata, container = manifest["metadata"], manifest["spec"]["containers"][0]
    metadata["name"] = f"{metadata['generateName']}{at:06d}"
    port = {**container["ports"][0], "hostPort": container["ports"][0]["containerPort"]}
    spec = {**manifest["spec"], "containers": [{**container, "ports": [port]}]}
    return Pod(metadata["name"], "", "", enveloped(encode_pod({**manifest, "spec": spec}), "Pod"))


def node(at: int) -> Node:
    """The node of a number: as a cloud's, but that its conditions are left to kwok."""
    manifest = _fresh(objects.node(at, 0))
    metadata, status = manifest["metadata"], manifest["status"]
    key, value = FAKE_NODE
    del metadata["finalizers"], status["conditions"]
    metadata["annotations"][key] = value
    labels = metadata["labels"]
    body = enveloped(encode_node(manifest), "Node")
    return Node(metadata["name"], labels[NODE_ZONE], labels[NODE_INSTANCE_TYPE], body)


def _fresh(manifest: objects.Object) -> objects.Object:
    """A manifest without the fields that an API server sets."""
    given = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
    return manifest | {"metadata": {name: value for name, value in manifest["metadata"].items() if name not in given}}
