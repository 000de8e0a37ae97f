"""The annotations of kube-scheduler-simulator beside a stock kube-scheduler."""

from __future__ import annotations

import json
from pathlib import Path

from bench.controlplane import ControlPlane
from tests.e2e.stack import Stack, example

DOMAIN = "kube-scheduler-simulator.sigs.k8s.io"
LABEL = "kwx.dev/accelerator"


def test_a_bound_pod_has_what_plugins_said_of_nodes(cluster: ControlPlane, identity: Path, tmp_path: Path) -> None:
    cluster.create_nodes(2, name="gpu-{}", labels={LABEL: "h100"}, timeout=60)
    cluster.create_nodes(1, name="cpu-{}", timeout=60)
    plugins = [example("accelerator"), example("nodenumber", weight=3)]
    with Stack(cluster, tmp_path, plugins, identity, profile={"simulatorResults": True}) as stack:
        stack.create_pod("web-1", annotations={LABEL: "h100"})
        stack.wait_until(lambda: "web-1" in stack.placements(), "placement of the pod")
        given = stack.pods()["web-1"]["metadata"]["annotations"]
        assert given.pop(LABEL) == "h100"
        assert given.pop(f"{DOMAIN}/selected-node") == stack.placements()["web-1"]
        history = json.loads(given.pop(f"{DOMAIN}/result-history"))
        assert history[-1] == {**given, f"{DOMAIN}/selected-node": stack.placements()["web-1"]}
        found = {key.removeprefix(f"{DOMAIN}/"): json.loads(value) for key, value in given.items()}
        gpus = {f"gpu-{at}": {"accelerator": "passed"} for at in range(2)}
        none = {"cpu-0": {"accelerator": f"node has no label {LABEL}=h100"}}
        assert found == {
            "filter-result": gpus | none,
            "score-result": {"gpu-0": {"nodenumber": "0"}, "gpu-1": {"nodenumber": "100"}},
            "finalscore-result": {"gpu-0": {"nodenumber": "0"}, "gpu-1": {"nodenumber": "300"}},
        }
