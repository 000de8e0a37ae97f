"""Records what a real kube-scheduler sends, for `kwx run`: `python -m tests.e2e.capture_cycle`.

One pod's filter, prioritize and bind and another one's preempt, with whole nodes, taken from a stock
kube-scheduler that schedules on ten fake nodes with the example plugins.
"""

from __future__ import annotations

import http.server
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from tests.controlplane import ControlPlane
from tests.controlplane.ports import LOOPBACK, free_port
from tests.e2e.stack import EXAMPLES, Stack, example

ACCELERATOR = "kwx.dev/accelerator"
POD, PREEMPTOR = "train-3", "urgent-5"
NODES = {f"node-{at}": {ACCELERATOR: "h100"} if at < 6 else {ACCELERATOR: "a100"} if at < 9 else {} for at in range(10)}


class Recorder(http.server.ThreadingHTTPServer):
    """Passes requests on to the extender and keeps those of two pods by verb."""

    def __init__(self, port: int, target: str) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.target = target
        self.bodies: dict[str, bytes] = {}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verb = self.path.rpartition("/")[2]
        wanted = PREEMPTOR if verb == "preempt" else POD
        if f'"{wanted}"'.encode() in body[:200]:
            self.server.bodies.setdefault(verb, body)
        answer = httpx.post(self.server.target + self.path, content=body, trust_env=False)
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        pass


def capture(target: Path) -> None:
    """Writes VERB.json for each verb."""
    port, extender_port = free_port(), free_port()
    recorder = Recorder(port, f"http://{LOOPBACK}:{extender_port}")
    threading.Thread(target=recorder.serve_forever, daemon=True).start()
    with ControlPlane() as control_plane, TemporaryDirectory() as directory:
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
            proxy=f"http://{LOOPBACK}:{port}",
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
    recorder.shutdown()
    target.mkdir(parents=True, exist_ok=True)
    for verb, body in sorted(recorder.bodies.items()):
        (target / f"{verb}.json").write_bytes(body)
        print(f"{verb}: {len(body)} bytes")


if __name__ == "__main__":
    capture(EXAMPLES / "cycle")
