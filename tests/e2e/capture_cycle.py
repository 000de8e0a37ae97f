"""Records what a real kube-scheduler sends, for `kwx run`: `python -m tests.e2e.capture_cycle`.

One pod's filter, prioritize and bind and another one's preempt, with whole nodes, taken from a stock
kube-scheduler that schedules on ten fake nodes with the example plugins.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.controlplane import ControlPlane
from bench.controlplane.ports import LOOPBACK, free_port
from tests.e2e.recorder import Recorder
from tests.e2e.stack import EXAMPLES, Stack, example

ACCELERATOR = "kwx.dev/accelerator"
POD, PREEMPTOR = "train-3", "urgent-5"
NODES = {f"node-{at}": {ACCELERATOR: "h100"} if at < 6 else {ACCELERATOR: "a100"} if at < 9 else {} for at in range(10)}


def capture(target: Path) -> None:
    """Writes VERB.json for each verb."""
    extender_port = free_port()
    recorder = Recorder(f"http://{LOOPBACK}:{extender_port}")
    with recorder.running(), ControlPlane() as control_plane, TemporaryDirectory() as directory:
        for name, labels in NODES.items():
            control_plane.create_nodes(
                1, name=name, labels=labels, allocatable={"cpu": "4", "memory": "32Gi", "pods": "110"}
            )
        for name, value in (("low", 10), ("urgent", 1000)):
            control_plane.client.post(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                json={"metadata": {"name": name}, "value": value},
            ).raise_for_status()
        with Stack(
            control_plane,
            Path(directory),
            [example("accelerator"), example("nodenumber")],
            control_plane.kubeconfig("admin"),
            full_nodes=True,
            proxy=recorder.url,
            port=extender_port,
        ) as stack:
            wants = {ACCELERATOR: "h100"}
            stack.create_pod(POD, annotations=wants, requests={"cpu": "2500m"}, priority_class="low")
            stack.wait_until(lambda: POD in stack.placements(), f"placement of {POD}")
            for at in range(9):
                stack.create_pod(f"batch-{at}", requests={"cpu": "2500m"}, priority_class="low")
            stack.wait_until(lambda: len(stack.placements()) == 10, "placement of the batch")
            stack.create_pod(PREEMPTOR, annotations=wants, requests={"cpu": "3"}, priority_class="urgent")
            stack.wait_until(lambda: PREEMPTOR in stack.placements(), f"placement of {PREEMPTOR}")
            print(stack.placements(), file=sys.stderr)
    target.mkdir(parents=True, exist_ok=True)
    for verb, pod in (("filter", POD), ("prioritize", POD), ("preempt", PREEMPTOR), ("bind", POD)):
        body = recorder.bodies(verb, pod)[0]
        (target / f"{verb}.json").write_bytes(body)
        print(f"{verb}: {len(body)} bytes")


if __name__ == "__main__":
    capture(EXAMPLES / "cycle")
