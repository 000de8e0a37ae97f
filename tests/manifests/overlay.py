"""An overlay of the manifests: its files, its objects, and the identity that they give."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.controlplane import ControlPlane

CHECKOUT = Path(__file__).parents[2]
MANIFESTS = CHECKOUT / "manifests"
NAMESPACE = "kwx-system"
IDENTITY_KINDS = {
    "Namespace",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
}


@dataclass(frozen=True)
class Overlay:
    """A folder under manifests/overlays."""

    name: str
    account: str
    """The ServiceAccount that the extender runs under."""

    @property
    def directory(self) -> Path:
        """"""
        return MANIFESTS / "overlays" / self.name

    def load(self, file: str) -> dict[str, Any]:
        """One of its files of one document."""
        content: dict[str, Any] = yaml.safe_load((self.directory / file).read_text())
        return content

    def objects(self, control_plane: ControlPlane) -> list[dict[str, Any]]:
        """What kustomize makes of it."""
        return list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(self.directory))))

    def with_component(self, component: Component, control_plane: ControlPlane, folder: Path) -> list[dict[str, Any]]:
        """What kustomize makes of it and a component, by a kustomization in a folder."""
        content = {
            "resources": [os.path.relpath(self.directory, folder.resolve())],
            "components": [os.path.relpath(component.directory, folder.resolve())],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
        return list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(folder))))

    def deployment(self, control_plane: ControlPlane) -> dict[str, Any]:
        """Its Deployment."""
        (found,) = [each for each in self.objects(control_plane) if each["kind"] == "Deployment"]
        return found

    def identity(self, control_plane: ControlPlane) -> Path:
        """Apply its accounts and roles; returns a kubeconfig with a token of `account`."""
        objects = [each for each in self.objects(control_plane) if each["kind"] in IDENTITY_KINDS]
        control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
        return control_plane.service_account_kubeconfig(NAMESPACE, self.account)


SERVICE = Overlay("service", "kwx-extender")
SIDECAR = Overlay("sidecar", "kwx-scheduler")


@dataclass(frozen=True)
class Component:
    """A folder under manifests/components, for overlays that ask for it."""

    name: str

    @property
    def directory(self) -> Path:
        """"""
        return MANIFESTS / "components" / self.name

    def objects(self, control_plane: ControlPlane) -> list[dict[str, Any]]:
        """What kustomize makes of it alone."""
        return list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(self.directory))))

    @contextmanager
    def applied(self, control_plane: ControlPlane) -> Iterator[None]:
        """Its objects are there, in the namespace of an overlay's `identity`; afterwards they are not."""
        objects = yaml.safe_dump_all(self.objects(control_plane))
        control_plane.kubectl("apply", "-f", "-", stdin=objects)
        try:
            yield
        finally:
            control_plane.kubectl("delete", "-f", "-", stdin=objects)


WAKE_PODS = Component("wake-pods")
BIND = Component("bind")
REPLICAS = Component("replicas")
