"""A policy is swapped in a cluster at work: pods land by the old one, then by the new one, and none is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.controlplane import ControlPlane
from tests.e2e.stack import OWN_UPDATE, Stack, example
from tests.extender import guests
from tests.manifests.overlay import WAKE_PODS
from tests.patience import delay

PER_SECOND = 20
"""Pods that are created while the policy is swapped."""
BEFORE, AFTER = 100, 150
"""How many of them before the swap is begun, and after it was seen."""
PICKY = 5
"""Pods that the old policy rejects everywhere."""
WAKE = "storage.k8s.io/CSIStorageCapacityUpdate"
OTHER_POD = "AssignedPodAdd"


def put(module: Path, guest: str) -> None:
    """Replaces a module at once."""
    beside = module.with_suffix(".new")
    beside.write_bytes(guests.module(guest))
    beside.replace(module)


def policies(stack: Stack, names: list[str]) -> list[str]:
    """By which policy each pod was placed: on a node with its own last digit, or on another."""
    placements = stack.placements()
    return ["old" if name[-1] == placements[name][-1] else "new" for name in names]


def complaints(stack: Stack) -> list[Any]:
    """The warnings and errors that the extender has logged."""
    log = [msgspec.json.decode(line) for line in stack.extender.log.read_bytes().splitlines()]
    return [line for line in log if line["level"] not in {"debug", "info"}]


def test_pods_that_are_created_all_the_time_land_by_the_policy_of_their_time(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    cluster.create_nodes(20)
    module = tmp_path / "policy.wasm"
    put(module, "nodenumber")
    names: list[str] = []
    with Stack(cluster, tmp_path, [{"name": "policy", "guestURL": "file://./policy.wasm"}], identity) as stack:
        began, old = time.monotonic(), stack.live()
        begun = seen = 0
        while not seen or len(names) < seen + AFTER:
            names.append(f"pod-{len(names)}")
            stack.create_pod(names[-1])
            if len(names) == BEFORE:
                begun = len(stack.placements())
                put(module, "nodenumber_reversed")
            elif not seen and len(names) > BEFORE and stack.live() != old:
                seen = len(names)
            assert len(names) < 60 * PER_SECOND, "no swap"
            delay(max(0.0, began + len(names) / PER_SECOND - time.monotonic()))
        stack.wait_until(lambda: len(stack.placements()) == len(names), "placement of all pods")

        # They are scheduled in their order, so the order shows one switch, and when.
        placed_by = policies(stack, names)
        switch = placed_by.index("new")
        assert placed_by == ["old"] * switch + ["new"] * (len(names) - switch)
        assert 0 < begun <= switch <= seen
        failed = cluster.client.get("/api/v1/events", params={"fieldSelector": "reason=FailedScheduling"})
        assert failed.json()["items"] == []
        assert complaints(stack) == []


@pytest.fixture
def rejected(cluster: ControlPlane, identity: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A stack whose scheduler keeps pods back that the policy has rejected; the parameter is `swap.wakePods`."""
    cluster.create_nodes(10)
    put(tmp_path / "policy.wasm", "reject")
    policy = {"name": "policy", "guestURL": "file://./policy.wasm", "swap": {"wakePods": request.param}}
    with WAKE_PODS.applied(cluster), Stack(cluster, tmp_path, [policy, example("nodenumber")], identity) as stack:
        for at in range(PICKY):
            stack.create_pod(f"picky-{at}")
        stack.wait_until(
            lambda: (stack.requeued(), stack.waiting()) == ({OWN_UPDATE: PICKY}, PICKY), "rejection of all pods"
        )
        yield stack


def swap(stack: Stack) -> None:
    """Brings in a policy that rejects none of the pods; another plugin prefers nodes with their digit."""
    old = stack.live()
    put(stack.directory / "policy.wasm", "accelerator")
    stack.wait_until(lambda: stack.live() != old, "the swap")


@pytest.mark.parametrize("rejected", [True], indirect=True)
def test_one_write_has_all_pods_tried_again_that_the_old_policy_rejected(rejected: Stack) -> None:
    swap(rejected)
    rejected.wait_until(lambda: len(rejected.placements()) == PICKY, "placement of the pods that were rejected")
    assert rejected.placements() == {f"picky-{at}": f"node-{at}" for at in range(PICKY)}
    assert rejected.requeued() == {OWN_UPDATE: PICKY, WAKE: PICKY}
    assert complaints(rejected) == []


@pytest.mark.parametrize("rejected", [False], indirect=True)
def test_without_it_they_wait_until_something_happens_in_the_cluster(rejected: Stack) -> None:
    swap(rejected)
    assert (rejected.placements(), rejected.waiting()) == ({}, PICKY)
    rejected.create_pod("another-9")
    names = ["another-9", *(f"picky-{at}" for at in range(PICKY))]
    rejected.wait_until(lambda: len(rejected.placements()) == len(names), "placement of all pods")
    assert rejected.placements() == {name: f"node-{name[-1]}" for name in names}
    # It was the other pod that did it, and nothing before.
    assert rejected.requeued() == {OWN_UPDATE: PICKY, OTHER_POD: PICKY}
