"""A stock kube-scheduler runs gangs whole or not at all, by the policy gang."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from bench.controlplane import ControlPlane
from extender.scheduling.group_claim import TIMEOUT
from tests.e2e.gangs import PROFILE, REQUEST, SERVER, Gang, allocatable, gang_policy, settle
from tests.e2e.stack import Stack
from tests.e2e.witness import PODS, Pods, has_node
from tests.manifests.overlay import WAKE_PODS

pytestmark = pytest.mark.timeout(600)  # QUIET_S, more than once.


@pytest.mark.oldest
def test_of_two_gangs_one_runs_and_the_other_when_the_first_has_gone(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """There is room for one and a half."""
    cluster.create_nodes(3, allocatable=allocatable(4))
    first, second = gangs = Gang("first", 8, 8), Gang("second", 8, 8)
    stack = Stack(cluster, tmp_path, [gang_policy()], identity, profile=PROFILE, server=SERVER)
    with stack, WAKE_PODS.applied(cluster):
        for gang in gangs:
            gang.create(stack)
        settle(stack, gangs, first.runs)
        assert set(stack.placements()) == set(first.members)
        first.delete(stack)
        settle(stack, gangs, second.runs)
        assert set(stack.placements()) == set(second.members)


FAILED = "FailedScheduling"
POOL = {"example.com/pool": "gangs"}
NOBODY = {"labelSelector": {"matchLabels": {"example.com/is": "nobody"}}, "topologyKey": "kubernetes.io/hostname"}
NOWHERE = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NOBODY]}}


def test_a_gang_waits_whole_for_a_node_that_another_pod_has(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """There is room enough, but on a node that is not for it."""
    cluster.create_nodes(2, name="pool-{}", labels=POOL, allocatable=allocatable(1))
    cluster.create_nodes(1, allocatable=allocatable(4))
    gang = Gang("gang", 2, 2)
    stack = Stack(cluster, tmp_path, [gang_policy()], identity, profile=PROFILE, server=SERVER)
    with stack, WAKE_PODS.applied(cluster):
        stack.create_pod("before", requests=REQUEST, nodeSelector=POOL)
        stack.wait_until(lambda: "before" in stack.placements(), "placement of the pod before")
        gang.create(stack, nodeSelector=POOL)
        settle(stack, [gang], lambda pods: set(pods) == {"before", *gang.members})
        assert set(stack.placements()) == {"before"}
        cluster.client.delete(f"{PODS}/before").raise_for_status()
        settle(stack, [gang], gang.runs)


def test_a_gang_of_which_one_pod_fits_nowhere_does_not_keep_others_out(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """It is the older one, and asks for all room. kube-scheduler alone knows of the pod that fits nowhere."""
    cluster.create_nodes(1, allocatable=allocatable(4))
    stuck, other = gangs = Gang("stuck", 4, 4), Gang("other", 4, 4)
    stack = Stack(cluster, tmp_path, [gang_policy()], identity, profile=PROFILE, server=SERVER)
    with stack, WAKE_PODS.applied(cluster):
        *fitting, last = stuck.members
        annotations = {TIMEOUT: "5"}
        stuck.create(stack, fitting, annotations=annotations)
        stuck.create(stack, [last], annotations=annotations, affinity=NOWHERE)
        stack.wait_until(lambda: stack.waits() == set(fitting), "the pods that fit, which wait for the last one")
        other.create(stack)
        settle(stack, gangs, other.runs)
        assert set(stack.placements()) == set(other.members)


@pytest.mark.parametrize(
    ("patience", "small_ones", "comes"),
    [
        pytest.param(5, 200, True, id="patience"),  # Far more small ones than come and go in the time.
        pytest.param(0, 40, False, id="no-patience", marks=pytest.mark.nightly),
    ],
)
def test_a_large_gang_comes_among_small_ones_when_it_has_waited_long_enough(
    cluster: ControlPlane, identity: Path, tmp_path: Path, patience: int, small_ones: int, comes: bool
) -> None:
    """Small ones end one by one, so that there is always room for the next small one, and never for the large one."""
    cluster.create_nodes(2, allocatable=allocatable(4))
    large, small = Gang("large", 8, 8), [Gang(f"small-{at}", 2, 2) for at in range(small_ones)]
    there, coming = small[:4], small[4:]
    stack = Stack(cluster, tmp_path, [gang_policy(patienceSeconds=patience)], identity, profile=PROFILE, server=SERVER)
    with stack, WAKE_PODS.applied(cluster):
        for gang in there:
            gang.create(stack)
        pods = settle(stack, there, lambda pods: len(_running(there, pods)) == 4)
        large.create(stack)
        while coming and not large.runs(pods):
            there.append(coming.pop(0))
            there[-1].create(stack)
            first, *_ = _running(there, pods)
            first.delete(stack)
            there.remove(first)
            pods = settle(stack, [large, *there], partial(_is_over, stack, large, there))
        assert large.runs(pods) == comes


def _is_over(stack: Stack, large: Gang, small: Sequence[Gang], pods: Pods) -> bool:
    """Whether the room that a small gang has left is taken, or a small one says that it is kept for the large one."""
    running = len(_running(small, pods))
    waiting = [name for gang in small for name in gang.members if not has_node(pods[name])]
    is_kept = any(
        f"waits for the group default/{large.name}" in told for name in waiting for told in stack.events(name, FAILED)
    )
    return large.runs(pods) or running == 4 or (running > 0 and is_kept)


def _running(gangs: Sequence[Gang], pods: Pods) -> list[Gang]:
    return [gang for gang in gangs if gang.runs(pods)]
