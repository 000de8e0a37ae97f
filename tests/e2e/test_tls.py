"""A stock kube-scheduler asks over TLS and shows a client certificate; certificates of both sides change meanwhile."""

from __future__ import annotations

import socket
import ssl
from collections import Counter
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bench.controlplane import ControlPlane
from bench.controlplane.ports import LOOPBACK
from tests.certificates import Authority
from tests.e2e.stack import Stack, example, guest

WANTS_H100 = {"kwx.dev/accelerator": "h100"}
PODS = 100
NAME = "kube-scheduler"


def samples(stack: Stack, name: str, label: str) -> Counter[str]:
    """The samples of a metric of the extender, added up by a label."""
    text = httpx.get(f"{stack.admin_url}/metrics", trust_env=False).text
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                found[sample.labels[label]] += int(sample.value)
    return found


def handshakes(stack: Stack) -> int:
    """How many have been done."""
    return samples(stack, "kwx_tls_handshakes_total", "end")["done"]


def shown(stack: Stack, tls: ssl.SSLContext) -> int:
    """The number of the certificate that a new connection gets."""
    with (
        socket.create_connection((LOOPBACK, stack.port), timeout=20) as plain,
        tls.wrap_socket(plain, server_hostname=LOOPBACK) as secured,
    ):
        return int(str((secured.getpeercert() or {})["serialNumber"]), 16)


@pytest.mark.oldest
@pytest.mark.timeout(300)
def test_no_pod_is_lost_and_no_verb_fails_while_certificates_change(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    for name, value in (("low", 10), ("urgent", 1000)):
        body = {"metadata": {"name": name}, "value": value}
        cluster.client.post("/apis/scheduling.k8s.io/v1/priorityclasses", json=body)
    cluster.create_nodes(5, name="plain-{}-x")
    one = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    cluster.create_nodes(1, name="special", labels=WANTS_H100, allocatable=one)
    ca = Authority(tmp_path)
    server, client = ca.server(), ca.issue("scheduler", NAME)
    tls = {"certFile": str(server.cert), "keyFile": str(server.key), "clientCAFile": str(ca.file)}
    options: list[str | Path] = ["--ca-file", ca.file, "--cert-file", client.cert, "--key-file", client.key]
    plugins = [guest("drain", tmp_path, instances=64), example("accelerator"), example("nodenumber")]
    with Stack(
        cluster,
        tmp_path,
        plugins,
        identity,
        server={"tls": tls | {"clientNames": [f"CN:{NAME}"]}},
        scheduler_options=options,
    ) as stack:
        (extender,) = yaml.safe_load(stack.scheduler_config.read_text())["extenders"]
        assert extender["urlPrefix"] == f"https://{LOOPBACK}:{stack.port}"
        stack.create_pod("victim", annotations=WANTS_H100, requests={"cpu": "3"}, priority_class="low")
        stack.wait_until(lambda: "victim" in stack.placements(), "placement of the victim")
        stack.create_pod("urgent", annotations=WANTS_H100, requests={"cpu": "3"}, priority_class="urgent")
        stack.wait_until(lambda: "urgent" in stack.placements(), "placement of the preemptor")
        for at in range(PODS // 2):
            stack.create_pod(f"web-{at}")
        new = ca.server("new")
        number = new.serial
        client.renew(ca.issue("new-scheduler", NAME))
        server.renew(new)
        for at in range(PODS // 2, PODS):
            stack.create_pod(f"web-{at}")
        stack.wait_until(lambda: shown(stack, ca.trusting(client)) == number, "the new certificate")
        stack.wait_until(lambda: len(stack.placements()) == PODS + 1, "placement of all pods", 120)
        before, late = handshakes(stack), 0

        def has_come_anew() -> bool:
            """Binds at the same time need more connections than kube-scheduler keeps."""
            nonlocal late
            for _ in range(10):
                stack.create_pod(f"late-{late}")
                late += 1
            stack.wait_until(lambda: len(stack.placements()) == PODS + 1 + late, "placement of late pods")
            return handshakes(stack) > before

        stack.wait_until(has_come_anew, "a connection of kube-scheduler's with its new certificate")
        assert stack.placements()["urgent"] == "special"
        failed = {name: told for name in stack.pods() if (told := stack.events(name, "FailedScheduling"))}
        failed.pop("urgent", None)  # Its first attempt makes room.
        assert failed == {}
        verbs = samples(stack, "kwx_verb_phase_seconds_count", "verb")
        assert all(verbs[verb] for verb in ("filter", "prioritize", "preempt"))
        assert samples(stack, "kwx_guest_seconds_count", "export")["prebind"] == PODS + 2 + late, "bind"
        ends = samples(stack, "kwx_tls_handshakes_total", "end")
        assert {end for end, count in ends.items() if count} == {"done"}
        log = stack.extender.log.read_text()
        assert " failed: " not in log
        assert log.count("certificates read again") == 1
