"""The component that lets the extender wake rejected pods adds one right and one object to either overlay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.controlplane import ControlPlane
from extender.cluster.waker import COMPONENT, NAME, NAMESPACE

from .overlay import CHECKOUT, SERVICE, SIDECAR, WAKE_PODS, Overlay
from .test_identities import client_of

RULES = [
    {
        "apiGroups": ["storage.k8s.io"],
        "resources": ["csistoragecapacities"],
        "resourceNames": [NAME],
        "verbs": ["patch"],
    }
]
CAPACITIES = f"/apis/storage.k8s.io/v1/namespaces/{NAMESPACE}/csistoragecapacities"
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
FORBIDDEN = [
    ("GET", CAPACITIES),
    ("POST", CAPACITIES),
    ("DELETE", CAPACITIES),
    ("GET", f"{CAPACITIES}/{NAME}"),
    ("PUT", f"{CAPACITIES}/{NAME}"),
    ("DELETE", f"{CAPACITIES}/{NAME}"),
    ("PATCH", f"{CAPACITIES}/another"),
    ("PATCH", f"/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities/{NAME}"),
    ("PATCH", "/apis/storage.k8s.io/v1/storageclasses/standard"),
    ("PATCH", "/api/v1/nodes/node-0"),
    ("PATCH", "/api/v1/namespaces/default/pods/web-0"),
]


def key(each: dict[str, Any]) -> tuple[str, str]:
    """What tells objects of a namespace apart."""
    return each["kind"], each["metadata"]["name"]


def test_it_is_where_the_log_says_it_is() -> None:
    assert WAKE_PODS.directory == CHECKOUT / COMPONENT


def test_it_adds_these_objects_to_an_overlay_and_changes_none(
    control_plane: ControlPlane, overlay: Overlay, tmp_path: Path
) -> None:
    before = {key(each): each for each in overlay.objects(control_plane)}
    after = {key(each): each for each in overlay.with_component(WAKE_PODS, control_plane, tmp_path)}
    added = [("CSIStorageCapacity", NAME), ("Role", NAME), ("RoleBinding", NAME)]
    assert sorted(after.keys() - before.keys()) == added
    assert {each: after[each] for each in before} == before
    assert {after[each]["metadata"]["namespace"] for each in added} == {NAMESPACE}
    assert after["Role", NAME]["rules"] == RULES


def test_the_api_server_accepts_every_object(control_plane: ControlPlane) -> None:
    SERVICE.identity(control_plane)  # makes the namespace
    objects = yaml.safe_dump_all(WAKE_PODS.objects(control_plane))
    answer = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=objects)
    assert len(answer.splitlines()) == 3
    assert "Warning" not in answer


@pytest.fixture(scope="module")
def applied(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with both overlays' accounts and the component."""
    for overlay in SERVICE, SIDECAR:
        overlay.identity(control_plane)
    with WAKE_PODS.applied(control_plane):
        yield control_plane


def test_the_account_of_an_overlay_may_patch_the_object(applied: ControlPlane, overlay: Overlay) -> None:
    body = {"metadata": {"annotations": {"kwx.dev/woken-at": overlay.name}}}
    with client_of(applied, overlay.identity(applied)) as client:
        answer = client.patch(f"{CAPACITIES}/{NAME}", json=body, headers=MERGE_PATCH)
    assert (answer.status_code, answer.json()["metadata"]["annotations"]["kwx.dev/woken-at"]) == (200, overlay.name)


@pytest.mark.parametrize(("method", "path"), FORBIDDEN)
def test_anything_else_stays_forbidden(applied: ControlPlane, method: str, path: str) -> None:
    headers = MERGE_PATCH if method == "PATCH" else {}
    with client_of(applied, SERVICE.identity(applied)) as client:
        answer = client.request(method, path, json={}, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
