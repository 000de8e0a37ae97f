"""A healthy setup, and others that differ from it in something."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import yaml
from msgspec import convert

from extender.commands.doctor.facts import Account, Activity, Facts, Readiness, SchedulerFile, Unread
from extender.commands.doctor.objects import NamedService, PodSpec, Version, Workload
from extender.commands.doctor.scheduler import decode
from extender.rollouts.registration import Registration

MORNING = datetime(2026, 1, 31, 8, tzinfo=timezone.utc)
NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)

ENTRY = {
    "urlPrefix": "http://127.0.0.1:8888",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "bindVerb": "bind",
    "weight": 1,
    "nodeCacheCapable": True,
    "httpTimeout": "121s",
    "ignorable": False,
}
SCHEDULER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": True, "resourceNamespace": "kwx-system", "resourceName": "kwx-scheduler"},
    "profiles": [{"schedulerName": "kwx-scheduler"}],
    "extenders": [ENTRY],
}
PLUGIN = {
    "name": "gang",
    "timeoutSeconds": 0.5,
    "bindingPoints": ["permit"],
    "wantsNodes": True,
    "wantsPods": True,
    "wantsVictims": False,
    "wantsGroups": True,
    "wakesPods": True,
}
PROFILE = {
    "name": "kwx-scheduler",
    "verbs": ["filter", "prioritize", "preempt", "bind"],
    "scoreRange": 10,
    "topNodes": None,
    "plugins": [PLUGIN],
}
EXTENDER = {
    "host": "127.0.0.1",
    "port": 8888,
    "clusterMode": "in-cluster",
    "bindTimeoutSeconds": 120.0,
    "profiles": [PROFILE],
}
POD: dict[str, Any] = {
    "serviceAccountName": "kwx-scheduler",
    "initContainers": [{"name": "extender", "image": "kube-wasm-extender:0.1.0", "args": ["serve", "--config=x.yaml"]}],
    "containers": [
        {
            "name": "kube-scheduler",
            "image": "registry.k8s.io/kube-scheduler:v1.36.3",
            "command": ["kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml"],
        }
    ],
}
APART = {"serviceAccountName": "kwx-extender", "containers": POD["initContainers"]}
"""The pod of an extender that is a Service."""


def workload(
    name: str = "kwx-scheduler", replicas: int = 1, kind: str = "Deployment", pod: Mapping[str, Any] = POD, **spec: Any
) -> Workload:
    """A workload that has run since the morning."""
    return Workload(kind, "kwx-system", name, replicas, convert({**pod, **spec}, PodSpec), MORNING)


def facts(
    scheduler: Mapping[str, Any] | None = None,
    entry: Mapping[str, Any] | None = None,
    extender: Mapping[str, Any] | None = None,
    profile: Mapping[str, Any] | None = None,
    plugin: Mapping[str, Any] | None = None,
    **others: Any,
) -> Facts:
    """A healthy sidecar, with other keys at each of these places, and other facts."""
    entries = {"extenders": [{**ENTRY, **(entry or {})}]}
    plugins = {"plugins": [{**PLUGIN, **(plugin or {})}]}
    profiles = {"profiles": [{**PROFILE, **plugins, **(profile or {})}]}
    healthy: dict[str, Any] = {
        "scheduler": decode(yaml.safe_dump({**SCHEDULER, **entries, **(scheduler or {})})),
        "scheduler_file": SchedulerFile("ConfigMap kwx-system/scheduler-config", MORNING),
        "scheduler_workload": workload(),
        "scheduler_version": Version(1, 36),
        "extender": Registration.model_validate({**EXTENDER, **profiles, **(extender or {})}),
        "certificate_hosts": ["DNS:kwx-extender.kwx-system.svc", "DNS:localhost", "IP:127.0.0.1"],
        "extender_workload": workload(),
        "service": NamedService("", None),
        "api_version": Version(1, 36),
        "group_apis": frozenset({"scheduling.x-k8s.io"}),
        "account": Account("ServiceAccount kwx-system/kwx-scheduler", []),
        "wake_object": True,
        "nodes": 50,
        "unscheduled": [],
        "scheduled": [],
        "activity": Activity(MORNING, {"filter": 3, "prioritize": 2, "bind": 3}),
        "readiness": Readiness([], []),
    }
    return Facts(**(healthy | others))


def unread() -> Facts:
    """A setup of which nothing could be read."""
    return Facts(**{name: Unread(f"no {name}") for name in Facts.__dataclass_fields__ if name != "entry"})
