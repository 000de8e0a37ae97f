"""The nodes and the waiting pods that variants are asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from bench.peers import objects
from extender.commands.traffic.recording import Recording
from wasm_runtime.protobuf import encode_node, encode_pod

FIRST_VERSION: Final = 1_000_000
"""The resourceVersion of all nodes at the start, as the stand-in for the API server has it."""

PERIOD: Final = 12
"""Pods after which their wishes repeat."""

TURNS: Final = 8
"""Orders of the nodes: kube-scheduler begins each cycle at another one and goes round."""

CPU_REQUESTS: Final = range(100, 4000, 70)
"""Millicores."""
MEMORY_REQUESTS: Final = range(64, 20_000, 311)
"""MiB."""


class Cycle(NamedTuple):
    """A pod's scheduling cycle: filter about some nodes, and prioritize about those that passed."""

    pod: bytes
    """Protobuf v1.Pod."""
    start: int = 0
    """Index of the node that is the first, if all are asked about; the others follow, and then those before it."""
    names: Sequence[str] | None = None
    """Names of the nodes that are asked about; None for all."""
    changes: Mapping[str, bytes] = {}
    """Nodes that have changed since the cycle before, by name: protobuf v1.Node."""


class Workload(Protocol):
    """Nodes, and one cycle after the other."""

    @property
    def nodes(self) -> Mapping[str, bytes]:
        """Protobuf v1.Node by name."""
        ...

    def cycle(self, at: int) -> Cycle:
        """The cycle of a number: every number's pod is another one."""
        ...


class Synthetic:
    """Nodes of a cloud, and pods of Deployments that fit onto most of them.

    Each sixth pod wishes one of the zones, each twelfth an instance type: most have none, and the median is theirs.
    """

    def __init__(self, count: int, *, large: bool = False) -> None:
        """`large` nodes have 40 KB instead of 4."""
        make = objects.large_node if large else objects.node
        names = [objects.node_name(at) for at in range(count)]
        self.nodes = {name: encode_node(make(at, FIRST_VERSION)) for at, name in enumerate(names)}

    def cycle(self, at: int) -> Cycle:
        """The cycle with a number."""
        return Cycle(encode_pod(pod(at)), at % TURNS * len(self.nodes) // TURNS)

    def update(self, at: int) -> bytes:
        """A node after the update of a number, the nodes one after the other: protobuf v1.Node."""
        return encode_node(objects.node(at % len(self.nodes), FIRST_VERSION + at, at))


def pod(at: int, cpus: Sequence[int] = CPU_REQUESTS, memories: Sequence[int] = MEMORY_REQUESTS) -> objects.Object:
    """A waiting pod, which requests one of these millicores and one of these MiB."""
    # All come in turn, and neighbours differ: neither number of them can be divided by 5 or by 11, respectively.
    cpu, memory = cpus[at * 5 % len(cpus)], memories[at * 11 % len(memories)]
    wishes = {}
    if at % 6 == 0:
        wishes["example.com/zone"] = objects.ZONES[at // 6 % len(objects.ZONES)]
    if at % 12 == 3:
        wishes["example.com/instance-type"] = list(objects.INSTANCE_TYPES)[at // 12 % len(objects.INSTANCE_TYPES)]
    return objects.requesting(at, f"{cpu}m", f"{memory}Mi", wishes)


class Recorded:
    """The traffic of a recording, again and again."""

    def __init__(self, recording: Recording) -> None:
        self.nodes = recording.nodes
        self._cycles = recording.cycles
        self._changing = {name for cycle in recording.cycles for name, node in cycle.changes.items() if node}

    def cycle(self, at: int) -> Cycle:
        """The recorded cycle of a number, from the beginning once all have been: nodes are then as they were there."""
        number = at % len(self._cycles)
        recorded = self._cycles[number]
        changes = _there(recorded.changes) if number else self.state(0)
        return Cycle(recorded.pod, names=recorded.nodes, changes=changes)

    def state(self, at: int) -> Mapping[str, bytes]:
        """The nodes that ever change, as they are at the cycle of a number."""
        state = {name: self.nodes[name] for name in self._changing}
        for recorded in self._cycles[: at % len(self._cycles) + 1]:
            state |= _there(recorded.changes)
        return state


def _there(changes: Mapping[str, bytes]) -> dict[str, bytes]:
    """Without the nodes that were removed: here they stay."""
    return {name: node for name, node in changes.items() if node}
