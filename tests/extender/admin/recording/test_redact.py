"""What of a pod is not for others."""

from __future__ import annotations

from typing import Any

import pytest

from bench.peers.objects import requesting
from extender.admin.recording.redact import redact
from wasm_runtime.protobuf import encode_pod
from wasm_runtime.protobuf.errors import DecodeError

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def container(secret: str, token: str, key: str) -> dict[str, Any]:
    asked = {"host": secret, "path": token}
    return {
        "name": "web",
        "image": "registry.example/web:1",
        "command": [secret, secret],
        "args": [token],
        "env": [
            {"name": "KEY", "value": key},
            {"name": "EMPTY", "value": ""},
            {"name": "REFERRED", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "one"}}},
        ],
        "livenessProbe": {"exec": {"command": [token]}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {**asked, "port": 80, "httpHeaders": [{"name": "Key", "value": key}]}},
        "startupProbe": {"tcpSocket": {"host": secret, "port": 80}},
        "lifecycle": {"preStop": {"httpGet": {**asked, "scheme": "HTTPS"}}, "postStart": {"sleep": {"seconds": 1}}},
        "resources": {"requests": {"cpu": "250m"}},
        "ports": [{"containerPort": 8080}],
    }


def pod(secret: str, token: str, key: str, applied: str) -> dict[str, Any]:
    containers = [container(secret, token, key)]
    return {
        "metadata": {
            "name": "web-1",
            "labels": {"app": "web"},
            "annotations": {"kwx.dev/accelerator": "h100", APPLIED: applied},
            "generation": 300,
        },
        "spec": {
            "containers": containers * 2,
            "initContainers": containers,
            "ephemeralContainers": [{**containers[0], "targetContainerName": "web"}],
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
        },
    }


def test_what_containers_run_with_is_blank_and_all_else_as_it_was() -> None:
    secret = pod("hidden", "/?token=hidden", "hidden" * 50, '{"spec": "hidden"}')
    blank = pod("xxxxxx", "x" * 14, "x" * 300, "x" * 18)
    assert redact(encode_pod(secret)) == encode_pod(blank)


@pytest.mark.parametrize(
    ("name", "is_blank"),
    [
        ("example.com/api-token", True),
        ("example.com/db-PASSWORD", True),
        ("example.com/passwd", True),
        ("secrets.example.com/inject", True),
        ("example.com/aws-credentials", True),
        ("example.com/apikey", True),
        ("example.com/private-key", True),
        ("kwx.dev/accelerator", False),
        ("example.com/pass", False),
        ("keys.example.com/zone", False),
    ],
)
def test_an_annotation_is_blank_if_its_name_says_that_it_is_secret(name: str, is_blank: bool) -> None:
    def annotated(value: str) -> bytes:
        return encode_pod({"metadata": {"name": "web-1", "annotations": {name: value, "example.com/team": "blue"}}})

    assert redact(annotated("hidden")) == annotated("xxxxxx" if is_blank else "hidden")


def test_a_pod_without_secrets_stays_as_it_is() -> None:
    plain = requesting(7, "250m", "256Mi", {})
    for part in ("env", "readinessProbe"):
        del plain["spec"]["containers"][0][part]
    assert redact(encode_pod(plain)) == encode_pod(plain)


def test_what_is_no_message_is_no_pod() -> None:
    with pytest.raises(DecodeError, match=r"^100 bytes are due from byte 2 on, 1 are there$"):
        redact(b"\x0a\x64x")
