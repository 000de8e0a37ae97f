"""Groups of pods that kube-scheduler places together or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.controlplane import ControlPlane

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
SCHEDULER_FLAGS = ("--feature-gates=GenericWorkload=true",)
"""Flags by which kube-scheduler places groups, which it does not by default."""
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


@contextmanager
def created(cluster: ControlPlane, name: str, members: int) -> Iterator[Mapping[str, Any]]:
    """A group of so many pods at least; what the specs of its pods have in common."""
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": members}}}}
    cluster.client.post(GROUPS, json=body).raise_for_status()
    try:
        yield {"schedulingGroup": {"podGroupName": name}}
    finally:
        cluster.client.delete(f"{GROUPS}/{name}").raise_for_status()


def verdict(cluster: ControlPlane, name: str) -> tuple[str, str] | None:
    """Status (True or False) and reason of the condition that kube-scheduler last gave a group."""
    group = cluster.client.get(f"{GROUPS}/{name}").raise_for_status().json()
    conditions = group.get("status", {}).get("conditions", [])
    said = {each["type"]: (each["status"], each["reason"]) for each in conditions}
    return said.get(INITIALLY_SCHEDULED)
