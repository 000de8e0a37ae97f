"""A stock kube-scheduler places a group of pods as a whole or not at all; a plugin takes two pods on a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.controlplane import ControlPlane
from extender.webhook.bind_handler import MAX_REQUESTS
from tests.e2e import pod_groups
from tests.e2e.gangs import PROFILE, SERVER, Gang, allocatable, gang_policy
from tests.e2e.stack import Stack, guest
from tests.manifests.overlay import WAKE_PODS

MEMBERS = [f"ring-{at}" for at in range(12)]


def stack_of(cluster: ControlPlane, identity: Path, folder: Path) -> Stack:
    """A scheduler that knows groups."""
    return Stack(
        cluster,
        folder,
        [guest("packs_two", folder)],
        identity,
        profile={"topNodes": 1},
        scheduler_flags=pod_groups.SCHEDULER_FLAGS,
    )


def create_members(stack: Stack, common: Mapping[str, Any]) -> None:
    for name in MEMBERS:
        stack.create_pod(name, **common)


@pytest.mark.newest
def test_a_group_is_placed_as_a_whole(cluster: ControlPlane, identity: Path, tmp_path: Path) -> None:
    cluster.create_nodes(8)
    with stack_of(cluster, identity, tmp_path) as stack, pod_groups.created(cluster, "ring", len(MEMBERS)) as common:
        create_members(stack, common)
        stack.wait_until(lambda: pod_groups.verdict(cluster, "ring") == ("True", "Scheduled"), "a word about the group")
        stack.wait_until(lambda: set(stack.placements()) == set(MEMBERS), "placement of the group")
        assert sorted(Counter(stack.placements().values()).values()) == [2] * 6
        stack.wait_until(lambda: stack.ledger() == dict.fromkeys(MEMBERS, "observed"), "the ledger")


@pytest.mark.newest
def test_a_group_of_more_pods_than_are_bound_at_a_time_is_bound_at_the_first_attempt(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """kube-scheduler asks for all binds at once. The plugin takes part in them, with fewer guests than pods."""
    size = 5 * MAX_REQUESTS
    gang = Gang("large", size, size)
    cluster.create_nodes(8, allocatable=allocatable(size // 8))
    flags = pod_groups.SCHEDULER_FLAGS
    stack = Stack(cluster, tmp_path, [gang_policy()], identity, profile=PROFILE, server=SERVER, scheduler_flags=flags)
    with stack, pod_groups.created(cluster, gang.name, gang.minimum) as common:
        gang.create(stack, **common)
        stack.wait_until(lambda: gang.runs(stack.pods()), "placement of the group")
        events = cluster.client.get("/api/v1/namespaces/default/events").raise_for_status().json()["items"]
        assert [event["message"] for event in events if event["reason"] == "FailedScheduling"] == []


@pytest.mark.newest
def test_a_group_without_room_that_is_given_up_leaves_the_ledger_as_it_was(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """A part of it has room, which other pods get afterwards."""
    cluster.create_nodes(3)
    with stack_of(cluster, identity, tmp_path) as stack, pod_groups.created(cluster, "ring", len(MEMBERS)) as common:
        for name in ("before-0", "before-1"):
            stack.create_pod(name)
        before = {"before-0": "observed", "before-1": "observed"}
        stack.wait_until(lambda: stack.ledger() == before, "placement of the pods before")
        create_members(stack, common)
        stack.wait_until(
            lambda: pod_groups.verdict(cluster, "ring") == ("False", "Unschedulable"), "a word about the group"
        )
        assert Counter(stack.ledger().values()) == {"observed": 2, "tentative": 4}
        for name in MEMBERS:
            cluster.client.delete(f"/api/v1/namespaces/default/pods/{name}").raise_for_status()
        stack.wait_until(lambda: stack.ledger() == before, "the end of what was planned")
        for at in range(4):
            stack.create_pod(f"after-{at}")
        stack.wait_until(lambda: len(stack.placements()) == 6, "placement of the pods after")


@pytest.mark.newest
@pytest.mark.nightly
@pytest.mark.timeout(300)  # The group is tried several times before it leaves room for long enough.
def test_a_group_that_waits_for_room_does_not_keep_other_pods_out(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """Three of its four members have room, which the pod that comes later needs."""
    cluster.create_nodes(2)
    with (
        stack_of(cluster, identity, tmp_path) as stack,
        pod_groups.created(cluster, "ring", 4) as common,
        WAKE_PODS.applied(cluster),
    ):
        stack.create_pod("before")
        stack.wait_until(lambda: stack.ledger() == {"before": "observed"}, "placement of the pod before")
        for name in MEMBERS[:4]:
            stack.create_pod(name, **common)
        stack.wait_until(
            lambda: pod_groups.verdict(cluster, "ring") == ("False", "Unschedulable"), "a word about the group"
        )
        assert Counter(stack.ledger().values()) == {"observed": 1, "tentative": 3}
        stack.create_pod("after")
        stack.wait_until(lambda: "after" in stack.placements(), "placement of the pod after", 200)
        assert set(stack.placements()) == {"before", "after"}
