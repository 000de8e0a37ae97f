"""A real API server takes what kustomize makes of the overlays."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from bench.controlplane import ControlPlane, ControlPlaneError
from extender import config

from .overlay import CHECKOUT, MANIFESTS, NAMESPACE, SIDECAR, Overlay
from .pair import PLUGINS_OF_THE_IMAGE

KINDS = {
    "service": [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "Namespace",
        "NetworkPolicy",
        "Service",
        "ServiceAccount",
    ],
    "sidecar": [
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterRoleBinding",
        "ClusterRoleBinding",
        "ConfigMap",
        "ConfigMap",
        "Deployment",
        "Namespace",
        "NetworkPolicy",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ],
}


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """The namespace, with the labels that the manifests give it."""
    control_plane.kubectl("apply", "-f", str(MANIFESTS / "base" / "namespace.yaml"))
    return NAMESPACE


def containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The containers of a pod's specification, those that start first included."""
    return {each["name"]: each for each in pod.get("initContainers", []) + pod["containers"]}


def test_an_overlay_has_these_objects_and_no_others(control_plane: ControlPlane, overlay: Overlay) -> None:
    assert sorted(each["kind"] for each in overlay.objects(control_plane)) == KINDS[overlay.name]


@pytest.mark.usefixtures("namespace")
def test_the_api_server_accepts_every_object(control_plane: ControlPlane, overlay: Overlay) -> None:
    objects = yaml.safe_dump_all(overlay.objects(control_plane))
    answer = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=objects)
    assert len(answer.splitlines()) == len(KINDS[overlay.name])
    assert "Warning" not in answer


def test_both_overlays_can_live_in_one_cluster(control_plane: ControlPlane) -> None:
    names = [
        [(each["kind"], each["metadata"]["name"]) for each in Overlay(name, "").objects(control_plane)]
        for name in KINDS
    ]
    assert set(names[0]) & set(names[1]) == {("Namespace", NAMESPACE), ("ClusterRole", "kwx-extender")}


def test_the_pods_meet_the_restricted_security_standard(
    control_plane: ControlPlane, overlay: Overlay, namespace: str
) -> None:
    template = overlay.deployment(control_plane)["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": template["spec"]}
    create = ("create", "--dry-run=server", f"--namespace={namespace}", "-f", "-")
    assert control_plane.kubectl(*create, stdin=yaml.safe_dump(pod)) == "pod/probe created (server dry run)\n"
    # The standard is indeed enforced.
    del containers(pod["spec"])["extender"]["securityContext"]["capabilities"]
    with pytest.raises(ControlPlaneError, match="violates PodSecurity"):
        control_plane.kubectl(*create, stdin=yaml.safe_dump(pod))


def test_every_container_can_write_to_its_volumes_only_and_asks_for_a_core(
    control_plane: ControlPlane, overlay: Overlay
) -> None:
    for container in containers(overlay.deployment(control_plane)["spec"]["template"]["spec"]).values():
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["resources"]["requests"]["cpu"] == "1"
        assert "cpu" not in container["resources"]["limits"]


def test_there_is_one_extender_at_a_time(control_plane: ControlPlane, overlay: Overlay) -> None:
    specification = overlay.deployment(control_plane)["spec"]
    assert (specification["replicas"], specification["strategy"]) == (1, {"type": "Recreate"})


def test_the_scheduler_starts_after_the_extender_beside_it(control_plane: ControlPlane) -> None:
    pod = SIDECAR.deployment(control_plane)["spec"]["template"]["spec"]
    (first,), (second,) = pod["initContainers"], pod["containers"]
    assert (first["name"], first["restartPolicy"]) == ("extender", "Always")
    assert first["startupProbe"]["httpGet"] == {"path": "/livez", "port": "admin"}
    assert second["name"] == "kube-scheduler"


def test_the_extender_listens_where_probes_and_services_look(control_plane: ControlPlane, overlay: Overlay) -> None:
    server = config.read(overlay.directory / "extender.yaml").server
    pod = overlay.deployment(control_plane)["spec"]["template"]["spec"]
    ports = {port["name"]: port["containerPort"] for port in containers(pod)["extender"]["ports"]}
    assert ports == {"verbs": server.address.port, "admin": server.admin_address.port}
    assert server.admin_address.host == "0.0.0.0"
    assert server.address.host == ("127.0.0.1" if overlay is SIDECAR else "0.0.0.0")


SCHEDULER_OF_THE_CLUSTER = [
    {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"component": "kube-scheduler"}},
    },
    {"ipBlock": {"cidr": "192.0.2.1/32"}},
]
PROMETHEUS = [
    {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
    }
]


def test_the_ports_are_open_to_those_who_need_them_alone(control_plane: ControlPlane, overlay: Overlay) -> None:
    """To everybody only the port that asks for a token itself."""
    (policy,) = [each["spec"] for each in overlay.objects(control_plane) if each["kind"] == "NetworkPolicy"]
    labels = overlay.deployment(control_plane)["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress"]
    opened = {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}
    first = {"scheduler": None} if overlay is SIDECAR else {"verbs": SCHEDULER_OF_THE_CLUSTER}
    assert opened == {**first, "admin": PROMETHEUS}


def test_the_extender_reads_its_configuration_from_the_config_map(
    control_plane: ControlPlane, overlay: Overlay
) -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in overlay.objects(control_plane)}
    pod = overlay.deployment(control_plane)["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    extender = containers(pod)["extender"]
    (mount,) = [each["mountPath"] for each in extender["volumeMounts"] if each["name"] == "config"]
    data = objects["ConfigMap", volumes["config"]["configMap"]["name"]]["data"]
    assert extender["args"] == ["serve", f"--config={mount}/extender.yaml"]
    assert yaml.safe_load(data["extender.yaml"]) == overlay.load("extender.yaml")


def test_the_plugins_are_in_the_image(overlay: Overlay) -> None:
    configuration = config.read(overlay.directory / "extender.yaml")
    urls = [plugin.guest_url for profile in configuration.profiles for plugin in profile.plugins]
    folders = ("examples", "policies")
    copied = {path.name for folder in folders for path in CHECKOUT.glob(f"extender/{folder}/*.wasm")}
    assert urls
    for url in urls:
        assert url.startswith(PLUGINS_OF_THE_IMAGE)
        assert url.removeprefix(PLUGINS_OF_THE_IMAGE) in copied
    assert (
        "COPY extender/examples/*.wasm extender/policies/*.wasm /opt/kwx/plugins/"
        in (MANIFESTS / "Dockerfile").read_text()
    )
