"""Gangs of pods with devices, by the policies gang and gpu-pack together: what others have tried, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from bench.controlplane import ControlPlane
from tests.e2e.gangs import PROFILE, SERVER, Gang, gang_policy, settle
from tests.e2e.gpu_pods import LABELS, allocatable, gpu_pack, whole
from tests.e2e.stack import Stack
from tests.e2e.witness import Pods
from tests.manifests.overlay import WAKE_PODS

pytestmark = pytest.mark.timeout(300)  # More than QUIET_S.


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane, identity: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One for all: what a test leaves behind would disturb the next."""
    control_plane.clear()
    folder = tmp_path_factory.mktemp("devices")
    running = Stack(control_plane, folder, [gang_policy(), gpu_pack()], identity, profile=PROFILE, server=SERVER)
    with running, WAKE_PODS.applied(control_plane):
        yield running
    control_plane.clear()


@dataclass(frozen=True)
class Case:
    """Gangs of pods of one device each, whose pods come in some steps."""

    nodes: int
    devices: int
    """Of a node."""
    minimum: int
    """Of each gang."""
    steps: Sequence[Sequence[int]]
    """How many pods of each gang come, those of different gangs in turn."""
    bound: Sequence[Sequence[int]]
    """By step, how many pods of each gang have nodes when nothing goes on any more, the most first."""
    used: int
    """Nodes that have pods in the end."""


CASES: Mapping[str, Case] = {
    "members-on-different-nodes": Case(2, 1, 2, steps=[[2]], bound=[[2]], used=2),
    "members-on-one-node": Case(2, 4, 2, steps=[[2]], bound=[[2]], used=1),
    "too-few-members": Case(2, 4, 4, steps=[[2]], bound=[[0]], used=0),
    "late-members": Case(2, 4, 4, steps=[[2], [2]], bound=[[0], [4]], used=1),
    "members-across-nodes": Case(2, 4, 6, steps=[[6]], bound=[[6]], used=2),
    "members-beyond-the-minimum": Case(1, 5, 4, steps=[[6]], bound=[[5]], used=1),
    "gangs-on-one-node": Case(1, 4, 2, steps=[[2, 2, 2]], bound=[[2, 2, 0]], used=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_gangs_run_whole_or_not_at_all(stack: Stack, case: Case) -> None:
    stack.control_plane.clear()
    stack.control_plane.create_nodes(case.nodes, labels=LABELS, allocatable=allocatable(case.devices))
    sizes = [sum(step) for step in zip(*case.steps, strict=True)]
    gangs = [Gang(f"gang-{at}", size, case.minimum) for at, size in enumerate(sizes)]
    coming = [iter(gang.members) for gang in gangs]
    for step, bound in zip(case.steps, case.bound, strict=True):
        for turn in range(max(step)):
            for gang, members, count in zip(gangs, coming, step, strict=True):
                if turn < count:
                    gang.create(stack, [next(members)], **whole(1))
        settle(stack, gangs, partial(_are_bound, gangs, bound))
    assert len(set(stack.placements().values())) == case.used


def _are_bound(gangs: Sequence[Gang], bound: Sequence[int], pods: Pods) -> bool:
    """Whether so many pods of each gang have nodes, the most first."""
    return sorted((gang.bound(pods) for gang in gangs), reverse=True) == bound
