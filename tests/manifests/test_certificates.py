"""The certificates that the manifests and their how-to page make are those that the Service's extender asks for."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.controlplane import ControlPlane
from extender import config
from extender.http.certificates import ServerCertificates

from .overlay import CHECKOUT, MANIFESTS, NAMESPACE, SERVICE, Component

PAGE = CHECKOUT / "docs" / "how-to" / "encrypt-and-authorise.md"
CERT_MANAGER = Component("cert-manager")
HOST = f"kwx-extender.{NAMESPACE}.svc"
FORWARDED = "127.0.0.1"
"""Where a port-forward of kubectl or of `kubectl kwx` listens."""


def test_the_commands_of_the_page_make_certificates_that_both_sides_accept(tmp_path: Path) -> None:
    (commands,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    (tmp_path / "ca.crt").rename(tmp_path / "extender" / "ca.crt")
    server = config.read(SERVICE.directory / "extender.yaml").server
    assert server.tls
    files = {name: Path(path.name) for name, path in server.tls if isinstance(path, Path)}
    served = ServerCertificates("server.tls", server.tls.model_copy(update=files), tmp_path / "extender")
    client = ssl.create_default_context(cafile=str(tmp_path / "extender" / "ca.crt"))
    client.verify_flags &= ~ssl.VERIFY_X509_STRICT
    client.load_cert_chain(tmp_path / "kube-scheduler" / "tls.crt", tmp_path / "kube-scheduler" / "tls.key")
    for name in (HOST, FORWARDED):
        seen = handshake(served.context, client, name)
        assert served.denial(seen) is None
    assert dict(each[0] for each in seen["subject"]) == {"commonName": "kube-scheduler"}
    assert round(served.days_left["certFile"]()) == 365
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        client.load_cert_chain(tmp_path / "extender" / "tls.crt", tmp_path / "extender" / "tls.key")
        handshake(served.context, client)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str = HOST) -> dict[str, Any]:
    """What the server, by a name, sees of the client's certificate."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    asked = server.wrap_bio(incoming, outgoing, server_side=True)
    asking = client.wrap_bio(outgoing, incoming, server_hostname=name)
    for _ in range(4):
        for side in (asking, asked):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return dict(asked.getpeercert() or {})


def test_the_component_makes_the_same_names_and_secrets(control_plane: ControlPlane) -> None:
    objects = CERT_MANAGER.objects(control_plane)
    specs = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Certificate"}
    assert {each["metadata"]["namespace"] for each in objects} == {NAMESPACE}
    assert {name: spec["secretName"] for name, spec in specs.items()} == {name: name for name in specs}
    server, client = specs["kwx-extender-tls"], specs["kwx-kube-scheduler-tls"]
    assert (server["dnsNames"], server["ipAddresses"]) == ([HOST], [FORWARDED])
    assert server["usages"] == ["digital signature", "server auth"]
    assert client["usages"] == ["digital signature", "client auth"]
    tls = SERVICE.load("extender.yaml")["server"]["tls"]
    assert tls["clientNames"] == [f"CN:{client['commonName']}"]
    pod = SERVICE.deployment(control_plane)["spec"]["template"]["spec"]
    (volume,) = [each["secret"] for each in pod["volumes"] if "secret" in each]
    assert volume == {"secretName": "kwx-extender-tls", "defaultMode": 0o440}
    (mounted,) = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"] if each["name"] == "tls"]
    assert {tls[key] for key in ("certFile", "keyFile", "clientCAFile")} == {
        f"{mounted}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")
    }


def test_no_manifest_serves_or_asks_verbs_off_loopback_without_certificates() -> None:
    found = [
        each
        for file in MANIFESTS.rglob("*.yaml")
        for content in yaml.safe_load_all(file.read_text())
        if isinstance(content, dict)
        for each in content.get("extenders", [])
    ]
    assert sorted(each["urlPrefix"].split(":")[0] for each in found) == ["http", "https"]
    for each in found:
        assert each["urlPrefix"] == "http://127.0.0.1:8888" or set(each["tlsConfig"]) == {
            "caFile",
            "certFile",
            "keyFile",
        }
