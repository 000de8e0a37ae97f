"""Faults befall the binds of some pods, always the same ones, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import yaml

from bench.controlplane import ControlPlane
from tests.e2e.faulty_binds import FAULTS, FaultyBinds
from tests.e2e.stack import pod

PODS = "/api/v1/namespaces/default/pods"
NAMES = [f"pod-{at}" for at in range(40)]
CUT = 0
"""In the place of a status: there was no answer."""


def bind(client: httpx.Client, name: str) -> int:
    """The status of the answer to a bind."""
    try:
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-0"}}
        return client.post(f"{PODS}/{name}/binding", json=binding).status_code
    except httpx.RemoteProtocolError:
        return CUT


def test_a_bind_meets_its_fault_and_is_carried_out_or_not(cluster: ControlPlane, tmp_path: Path) -> None:
    for name in NAMES:
        cluster.client.post(PODS, json=pod(name)).raise_for_status()
    binds = FaultyBinds(cluster, seed=2, share=0.7)
    with binds.serving(cluster.kubeconfig(), tmp_path) as kubeconfig:
        content = yaml.safe_load(kubeconfig.read_text())
        headers = {"Authorization": f"Bearer {content['users'][0]['user']['token']}"}
        server = content["clusters"][0]["cluster"]["server"]
        with httpx.Client(base_url=server, headers=headers, trust_env=False) as client:
            answers = {name: bind(client, name) for name in NAMES}
            listed = client.get(PODS).json()["items"]
            bound = {each["metadata"]["name"] for each in listed if "nodeName" in each["spec"]}
    met = {name: binds.fault_of(f"{PODS}/{name}/binding") for name in NAMES}
    assert answers == {name: status(fault) for name, fault in met.items()}
    assert bound == {name for name, fault in met.items() if fault is None or FAULTS[fault].is_carried_out}
    assert binds.met == Counter(fault for fault in met.values() if fault)
    assert set(binds.met) == set(FAULTS)


def status(fault: str | None) -> int:
    """What whoever binds is answered."""
    answer = FAULTS[fault].answer if fault else b"HTTP/1.1 201"
    return int(answer.split()[1]) if answer else CUT
