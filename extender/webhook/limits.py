"""How many nodes, victims and values a request may have: the length of its body alone does not bound its memory."""

from __future__ import annotations

from typing import Final

from extender.scheduling.requests import RequestError

KUBERNETES: Final = "5000 nodes and 150000 pods"
"""What a cluster may have (https://kubernetes.io/docs/setup/best-practices/cluster-large/)."""

MAX_NODES: Final = 100_000
"""Nodes of a request: twenty times what Kubernetes is made for."""

MAX_VICTIMS: Final = 300_000
"""Pods that would be evicted from all nodes of a request: twice what Kubernetes is made for."""

MAX_UNCOUNTED_BYTES: Final = 4 * 1024 * 1024
"""Of a longer body the values are counted before it is decoded, since the smallest become forty times as large."""

MIN_VALUE_BYTES: Final = 16
"""Bytes of such a body for each value, on average: in what kube-scheduler sends it is about 30."""

_COUNTED: Final = (
    (b'"NodeNames":[', "NodeNames", b",", MAX_NODES),
    (b'"NodeNameToMetaVictims":{', "nodes and victims", b",", MAX_NODES * 2 + MAX_VICTIMS),
    (b'"NodeNameToVictims":{', "nodes with victims", b'"Pods"', MAX_NODES),
)
"""The fields that Go writes after the pod: how each begins, what it holds, the bytes that are counted from there to the
end of the body, and how many of these it may have."""


def require_size(body: bytes) -> None:
    """Refuses a body of more than `MAX_UNCOUNTED_BYTES` that would take too much memory once decoded.

    Raises RequestError.
    """
    for beginning, what, token, most in _COUNTED:
        begins = body.find(beginning, 0, MAX_UNCOUNTED_BYTES)
        if begins >= 0:
            require_few(what, body.count(token, begins) + 1, most)
    if body.count(b",") > len(body) // MIN_VALUE_BYTES:
        raise RequestError(
            f"the body has more than a value to {MIN_VALUE_BYTES} bytes, which no objects of Kubernetes have;"
            " send what kube-scheduler sends"
        )


def require_few(what: str, count: int, most: int = MAX_NODES) -> None:
    """Raises RequestError."""
    if count > most:
        raise RequestError(f"{what}: more than {most} are too many; Kubernetes is made for {KUBERNETES}, send fewer")
