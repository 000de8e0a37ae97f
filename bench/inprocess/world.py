"""The nodes and the pods that both hosts get."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from bench.peers import objects
from wasm_runtime import Pod, Snapshot
from wasm_runtime.protobuf import encode_node, encode_pod


class Nodes:
    """Nodes of 4 KB, in a snapshot and in a file."""

    def __init__(self, count: int, folder: Path) -> None:
        made = [_node(at) for at in range(count)]
        self.names = [node["metadata"]["name"] for node in made]
        self.snapshot = Snapshot()
        self.snapshot.put(zip(self.names, map(encode_node, made), strict=True))
        self.file = folder / f"nodes-{count}.pb"
        """A protobuf v1.NodeList."""
        self.file.write_bytes(self.snapshot.node_list())


def _node(at: int) -> objects.Object:
    """A node whose name ends in a digit: some guests look for one."""
    made = objects.node(at, version=1)
    made["metadata"]["name"] = f"worker-{at:05d}"
    return made


def pods() -> Iterator[Pod]:
    """Pods that wait: half of them wish a zone, a third an instance type; some request more than a node has."""
    types = list(objects.INSTANCE_TYPES)
    for at in itertools.count():
        wishes = {"example.com/zone": objects.ZONES[at % len(objects.ZONES)]} if at % 2 else {}
        if at % 3 == 0:
            wishes["example.com/instance-type"] = types[at % len(types)]
        made = objects.requesting(at, f"{250 * (1 + at % 24)}m", f"{1 + at % 40}Gi", wishes)
        metadata = made["metadata"]
        yield Pod(metadata["uid"], f"{metadata['namespace']}/{metadata['name']}", encode_pod(made))
