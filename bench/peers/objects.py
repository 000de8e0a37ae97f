"""Nodes and pods of the size and the look that those of a cloud's cluster have, each made from its number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

Object = dict[str, Any]

BEGIN: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
ZONES: Final = ("region-1a", "region-1b", "region-1c")
INSTANCE_TYPES: Final[Mapping[str, tuple[int, int]]] = {
    "general.large": (4, 16),
    "general.xlarge": (8, 32),
    "compute.xlarge": (16, 32),
    "memory.xlarge": (8, 64),
}
"""Cores and GiB by the type's name."""
IMAGES: Final = 12
MOST_IMAGES: Final = 50
"""Images that a node tells of, and a large one; a kubelet tells of 50 at most."""
DEVICES: Final = 28
"""Devices of a large node, each described by an annotation of a kilobyte."""
GPU: Final = "nvidia.com/gpu"
CHANGE_EVERY: Final = 10
"""Updates of a node are heartbeats, but each tenth changes what is allocatable as well."""


def node_name(at: int) -> str:
    """The name of the node of this number."""
    return f"worker-{at:05d}.cluster.example"


def node(at: int, version: int, update: int = 0) -> Object:
    """A v1.Node: 4 KB of protobuf, 6 KB of JSON.

    Args:
        at: the node's number. Zones and instance types take turns.
        version: its resourceVersion.
        update: the number of the update that made it so: its heartbeats have the time of that, and what is
            allocatable depends on it where it can be divided by CHANGE_EVERY.
    """
    name = node_name(at)
    instance_type = list(INSTANCE_TYPES)[at // len(ZONES) % len(INSTANCE_TYPES)]
    cores, gibibytes = INSTANCE_TYPES[instance_type]
    reserved = 80 + (update // CHANGE_EVERY % 7 * 10 if update % CHANGE_EVERY == 0 else 0)
    return {
        "metadata": {
            "name": name,
            "uid": _uid("node", at),
            "resourceVersion": str(version),
            "creationTimestamp": _time(0),
            "labels": _labels(name, at, instance_type),
            "annotations": _annotations(at),
            "finalizers": ["networking.example.com/node"],
            "managedFields": [
                _managed("cloud-controller-manager", "metadata", "labels", "annotations", "finalizers"),
                _managed("kubelet", "status", *(condition[0] for condition in _CONDITIONS)),
            ],
        },
        "spec": {
            "podCIDR": f"10.{at >> 8 & 255}.{at & 255}.0/24",
            "podCIDRs": [f"10.{at >> 8 & 255}.{at & 255}.0/24"],
            "providerID": f"cloud:///{ZONES[at % len(ZONES)]}/i-{_digest('instance', at)[:17]}",
        },
        "status": {
            "capacity": _resources(str(cores), gibibytes * 1_048_576 - 325_412),
            "allocatable": _resources(f"{cores * 1000 - reserved}m", gibibytes * 1_048_576 - 1_041_236),
            "conditions": [_condition(*each, update) for each in _CONDITIONS],
            "addresses": [
                {"type": "InternalIP", "address": f"172.16.{at >> 8 & 255}.{at & 255}"},
                {"type": "Hostname", "address": name},
                {"type": "InternalDNS", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _node_info(at),
            "images": [_image(number) for number in range(at, at + IMAGES)],
        },
    }


def large_node(at: int, version: int) -> Object:
    """A v1.Node of a cluster with many devices and operators: 40 KB of protobuf."""
    made = node(at, version)
    made["status"]["images"] = [_image(number) for number in range(at, at + MOST_IMAGES)]
    made["metadata"]["annotations"] |= {
        f"devices.example.com/slot-{slot:02d}": "".join(_digest(f"device {slot} {part}", at) for part in range(16))
        for slot in range(DEVICES)
    }
    return made


def with_gpus(node: Object, gpus: int) -> Object:
    """The node with so many GPUs."""
    node["status"]["allocatable"][GPU] = str(gpus)
    return node


def running_pod(at: int, node_name: str, gpus: int = 0, update: int = 0) -> Object:
    """A v1.Pod as an API server has it: 2 KB of protobuf.

    Args:
        at: the pod's number.
        node_name: where it runs.
        gpus: how many it asks for.
        update: the number of the update that made it so, which an annotation has.
    """
    pod = _pod(at, {"cpu": "250m", "memory": "256Mi", **({GPU: str(gpus)} if gpus else {})})
    pod["metadata"]["annotations"] = {"update.example.com/number": str(update)}
    pod["metadata"]["managedFields"] = [
        _managed("kube-controller-manager", "spec", *pod["spec"], *pod["spec"]["containers"][0]),
        _managed("kubelet", "status", "conditions", "containerStatuses", "hostIP", "phase", "podIP", "podIPs"),
    ]
    pod["spec"]["nodeName"] = node_name
    pod["status"]["phase"] = "Running"
    return pod


def requesting(at: int, cpu: str, memory: str, wishes: Mapping[str, str]) -> Object:
    """A v1.Pod that waits, as kube-scheduler sends it: without managedFields.

    Args:
        at: the pod's number.
        cpu: what its container requests of it, a quantity.
        memory: the same.
        wishes: its labels beside those of its Deployment.

    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/scheduler.go (newPodInformer)
    """
    pod = _pod(at, {"cpu": cpu, "memory": memory})
    pod["metadata"]["labels"] |= wishes
    return pod


def _pod(at: int, requests: Mapping[str, str]) -> Object:
    """A pod of a Deployment that has ten."""
    template = _digest("replicas", at // 10)[:9]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"web-{template}",
        "uid": _uid("replicas", at // 10),
    }
    return {
        "metadata": {
            "name": f"web-{template}-{at:06d}",
            "generateName": f"web-{template}-",
            "namespace": "shop",
            "uid": _uid("pod", at),
            "resourceVersion": str(at + 1),
            "creationTimestamp": _time(at),
            "labels": {"app": "web", "pod-template-hash": template},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"containers": [{**_CONTAINER, "resources": {"requests": dict(requests)}}], **_SPEC},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


_TOKEN: Final = "kube-api-access-x7k2p"
_CONTAINER: Final = {
    "name": "web",
    "image": "registry.example.com/shop/web:4.17.2",
    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
    "env": [{"name": "LISTEN", "value": ":8080"}, {"name": "LOG_LEVEL", "value": "info"}],
    "volumeMounts": [
        {"name": _TOKEN, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ],
    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
_SPEC: Final[Mapping[str, Any]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "tolerations": [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ],
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "volumes": [
        {
            "name": _TOKEN,
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ],
                "defaultMode": 420,
            },
        }
    ],
}
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def _labels(name: str, at: int, instance_type: str) -> dict[str, str]:
    zone = ZONES[at % len(ZONES)]
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.example.com/capacity-type": "on-demand",
        "node.example.com/image": f"image-{_digest('image', at % 3)[:17]}",
        "node.example.com/node-group": f"{instance_type}-{zone}",
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/region": zone[:-1],
        "topology.kubernetes.io/zone": zone,
    }


def _annotations(at: int) -> dict[str, str]:
    return {
        "csi.volume.kubernetes.io/nodeid": f'{{"csi.example.com":"i-{_digest("instance", at)[:17]}"}}',
        "node.alpha.kubernetes.io/ttl": "0",
        "networking.example.com/tunnel": f"172.16.{at >> 8 & 255}.{at & 255}/16",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }


def _managed(manager: str, part: str, *keys: str) -> Object:
    """Which fields a manager has set."""
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _time(0),
        "fieldsType": "FieldsV1",
        "fieldsV1": {f"f:{part}": {f"f:{key}": {".": {}, "f:value": {}} for key in keys}},
    }


def _resources(cpu: str, kibibytes: int) -> dict[str, str]:
    return {
        "cpu": cpu,
        "ephemeral-storage": "94372865706",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{kibibytes}Ki",
        "pods": "110",
    }


def _condition(kind: str, status: str, reason: str, message: str, update: int) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": _time(300 + update),
        "lastTransitionTime": _time(0),
        "reason": reason,
        "message": message,
    }


def _node_info(at: int) -> dict[str, str]:
    return {
        "machineID": _digest("machine", at)[:32],
        "systemUUID": _uid("system", at),
        "bootID": _uid("boot", at),
        "kernelVersion": "6.12.37-cloud-amd64",
        "osImage": "Debian GNU/Linux 13 (trixie)",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": "v1.37.0",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _image(number: int) -> Object:
    name = f"registry.example.com/team-{number % 7}/service-{number % 90}"
    return {
        "names": [f"{name}@sha256:{_digest('layers', number % 90)}", f"{name}:1.{number % 20}.0"],
        "sizeBytes": 40_000_000 + 1_000_003 * (number % 90),
    }


def _uid(kind: str, at: int) -> str:
    digest = _digest(kind, at)
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _digest(kind: str, at: int) -> str:
    """64 digits that a kind and a number always have."""
    return hashlib.sha256(f"{kind} {at}".encode()).hexdigest()


def _time(seconds: int) -> str:
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
