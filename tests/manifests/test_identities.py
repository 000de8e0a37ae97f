"""The identities of the overlays may do what their programs do, and nothing else."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bench.controlplane import ControlPlane
from extender.cluster import (
    ApiBinder,
    ApiServer,
    EventRecorder,
    NodeCache,
    PodCache,
    PodKey,
    failed_scheduling_event,
    read_pod,
)
from tests.extender.cluster.support import Ends, running
from tests.patience import eventually
from wasm_runtime.nodes.node_table import NodeTable

from .overlay import BIND, NAMESPACE, SERVICE, SIDECAR, Overlay

EXTENDER_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["scheduling.k8s.io", "scheduling.x-k8s.io"],
        "resources": ["podgroups"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]
BIND_RULES = [{"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}]
LEASE_RULES = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["kwx-scheduler"],
        "verbs": ["get", "update"],
    }
]
FORBIDDEN = [
    ("GET", "/api/v1/nodes/node-0"),
    ("DELETE", "/api/v1/nodes/node-0"),
    ("PATCH", "/api/v1/nodes/node-0"),
    ("GET", "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/train"),
    ("DELETE", "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups/train"),
    ("GET", "/api/v1/secrets"),
    ("GET", "/api/v1/namespaces/kube-system/secrets"),
    ("GET", "/api/v1/namespaces/default/pods/web-0/log"),
    ("DELETE", "/api/v1/namespaces/default/pods/web-0"),
    ("PATCH", "/api/v1/namespaces/default/pods/web-0"),
    ("PATCH", "/api/v1/namespaces/default/pods/web-0/status"),
    ("POST", "/api/v1/namespaces/default/pods"),
    ("POST", "/api/v1/namespaces/default/pods/web-0/binding"),
    ("POST", "/api/v1/namespaces/default/pods/web-0/eviction"),
    ("POST", "/api/v1/namespaces/default/events"),
    ("GET", "/apis/events.k8s.io/v1/namespaces/default/events"),
    ("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events"),
    ("GET", "/api/v1/namespaces/kwx-system/configmaps"),
    ("POST", "/apis/coordination.k8s.io/v1/namespaces/kwx-system/leases"),
]


def test_the_roles_hold_these_rules_and_no_others(control_plane: ControlPlane, overlay: Overlay) -> None:
    roles = {each["kind"]: each["rules"] for each in overlay.objects(control_plane) if "rules" in each}
    lease = {"Role": LEASE_RULES} if overlay is SIDECAR else {}
    assert roles == {"ClusterRole": EXTENDER_RULES, **lease}


def test_the_account_has_these_roles_and_no_others(control_plane: ControlPlane, overlay: Overlay) -> None:
    bindings = [each for each in overlay.objects(control_plane) if "roleRef" in each]
    roles = {(each["kind"], each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings}
    expected = {("ClusterRoleBinding", "ClusterRole", "kwx-extender")}
    if overlay is SIDECAR:
        expected |= {
            ("ClusterRoleBinding", "ClusterRole", "system:kube-scheduler"),
            ("ClusterRoleBinding", "ClusterRole", "system:volume-scheduler"),
            ("RoleBinding", "Role", "kwx-scheduler-lease"),
        }
    assert roles == expected
    subject = {"kind": "ServiceAccount", "name": overlay.account, "namespace": NAMESPACE}
    assert all(each["subjects"] == [subject] for each in bindings)


def test_the_lease_of_the_role_is_the_one_that_is_configured(control_plane: ControlPlane) -> None:
    election = SIDECAR.load("scheduler.yaml")["leaderElection"]
    (role,) = [each for each in SIDECAR.objects(control_plane) if each["kind"] == "Role"]
    assert role["metadata"]["namespace"] == election["resourceNamespace"]
    assert role["rules"][0]["resourceNames"] == [election["resourceName"]]


def test_the_identity_is_enough_for_all_that_the_extender_does(control_plane: ControlPlane, overlay: Overlay) -> None:
    kubeconfig = overlay.identity(control_plane)
    (name,) = control_plane.create_nodes(1)
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    created = control_plane.client.post(pods, json=pod).json()

    async def scenario() -> None:
        api = ApiServer.from_kubeconfig(kubeconfig)
        node_table, key = NodeTable(), PodKey("default", "web-0", created["metadata"]["uid"])
        nodes, pods, recorder = (
            NodeCache(api, node_table, Ends()),
            PodCache(api, Ends()),
            EventRecorder(api, interval=0.1),
        )
        async with running(nodes), running(pods), running(recorder):
            await eventually(
                lambda: nodes.synced and len(node_table) == 1,
                lambda: f"{len(node_table)} nodes of 1: {nodes.problem}",
            )
            await eventually(lambda: pods.get(key.uid) is not None, lambda: f"the watch shows no pod: {pods.problem}")
            # The problem would be a watch that is forbidden.
            await asyncio.sleep(0.2)
            assert (nodes.problem, pods.problem) == (None, None)
            failed = failed_scheduling_event(await read_pod(api, key), "PluginFailed", "plugin spin: interrupted")
            recorder.record(failed)
            await eventually(lambda: counts(control_plane) == [1], lambda: recorded(control_plane))
            recorder.record(failed)
            await eventually(lambda: counts(control_plane) == [2], lambda: recorded(control_plane))
            await ApiBinder(api).bind(key, name, {})
        await api.aclose()

    try:
        with BIND.applied(control_plane):
            asyncio.run(scenario())
        assert control_plane.client.get(f"{pods}/web-0").json()["spec"]["nodeName"] == name
    finally:
        control_plane.clear()


def counts(control_plane: ControlPlane) -> list[int]:
    """How often each of them was observed."""
    return [(each.get("series") or {"count": 1})["count"] for each in recorded(control_plane)]


def recorded(control_plane: ControlPlane) -> list[dict[str, Any]]:
    """The Events about plugins that failed."""
    answer = control_plane.client.get("/apis/events.k8s.io/v1/events", params={"fieldSelector": "reason=PluginFailed"})
    events: list[dict[str, Any]] = answer.json()["items"]
    return events


def client_of(control_plane: ControlPlane, kubeconfig: Path) -> httpx.Client:
    """A client with the token of a kubeconfig."""
    token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    return httpx.Client(
        base_url=control_plane.server,
        headers={"Authorization": f"Bearer {token}"},
        verify=ssl.create_default_context(cafile=str(control_plane.certificate_authority)),
        trust_env=False,
    )


@pytest.mark.parametrize(("method", "path"), FORBIDDEN)
def test_anything_else_is_forbidden_to_the_extender(control_plane: ControlPlane, method: str, path: str) -> None:
    patch = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    with client_of(control_plane, SERVICE.identity(control_plane)) as client:
        answer = client.request(method, path, json={}, headers=patch)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")


def rules_of(control_plane: ControlPlane, kubeconfig: Path) -> list[dict[str, Any]]:
    """What the API server itself says that an identity may do."""
    review = {"spec": {"namespace": "default"}}
    with client_of(control_plane, kubeconfig) as client:
        answer = client.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json=review)
    status: dict[str, list[dict[str, Any]]] = answer.json()["status"]
    return status["resourceRules"] + status["nonResourceRules"]


def test_the_extender_may_do_no_more_than_any_account_and_its_rules(control_plane: ControlPlane) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    control_plane.client.post(accounts, json={"metadata": {"name": "ordinary"}})
    ordinary = rules_of(control_plane, control_plane.service_account_kubeconfig("default", "ordinary"))
    extender = rules_of(control_plane, SERVICE.identity(control_plane))
    own = [rule for rule in extender if rule not in ordinary]
    assert sorted(own, key=_place) == sorted(EXTENDER_RULES, key=_place)


def test_the_component_bind_adds_just_that(control_plane: ControlPlane) -> None:
    kubeconfig = SERVICE.identity(control_plane)
    before = rules_of(control_plane, kubeconfig)
    with BIND.applied(control_plane):
        control_plane.wait_until(lambda: rules_of(control_plane, kubeconfig) != before, "the rules of the component")
        assert [rule for rule in rules_of(control_plane, kubeconfig) if rule not in before] == BIND_RULES
    control_plane.wait_until(lambda: rules_of(control_plane, kubeconfig) == before, "the rules without the component")


def _place(rule: dict[str, Any]) -> tuple[list[str], list[str]]:
    return rule["apiGroups"], rule["resources"]
