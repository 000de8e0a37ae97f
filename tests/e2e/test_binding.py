"""A stock kube-scheduler binds and preempts through guests that have a part in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stack import Stack, example
from tests.extender import guests

ROOM_FOR_ONE = {"cpu": "4", "memory": "8Gi", "pods": "10"}


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane without leftovers."""
    control_plane.clear()
    yield control_plane
    control_plane.clear()


def guest(name: str, folder: Path, settings: str = "") -> dict[str, Any]:
    """A plugin of a guest that is made for the tests."""
    return {"name": name, "guestURL": f"file://{guests.build(name, folder)}", "guestConfig": settings}


def recorded(cluster: ControlPlane, reason: str) -> list[dict[str, Any]]:
    """The Events of one reason."""
    answer = cluster.client.get("/apis/events.k8s.io/v1/events", params={"fieldSelector": f"reason={reason}"})
    events: list[dict[str, Any]] = answer.json()["items"]
    return events


def test_a_pod_that_is_rejected_after_its_node_was_chosen_is_tried_again(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """Its name makes it prefer node-0, where Reserve says no; the guest then keeps it from there in Filter."""
    cluster.create_nodes(3)
    with Stack(cluster, tmp_path, [guest("drain", tmp_path), example("nodenumber")], identity) as stack:
        stack.create_pod("picky-0")
        stack.wait_until(lambda: bool(stack.events("picky-0", "FailedScheduling")), "a FailedScheduling event")
        message = stack.events("picky-0", "FailedScheduling")[0]
        print(stack.events("picky-0", "FailedScheduling"))
        assert "plugin drain: reserve: Unschedulable: node-0 is being drained" in message
        stack.wait_until(lambda: "picky-0" in stack.placements(), "placement of the pod that was rejected")

        easy = ["easy-1", "easy-2"]
        for name in easy:
            stack.create_pod(name)
        stack.wait_until(lambda: len(stack.placements()) == 3, "placement of the others")
        placements = stack.placements()
        assert placements.pop("picky-0") in {"node-1", "node-2"}
        assert placements == {"easy-1": "node-1", "easy-2": "node-2"}

        stack.wait_until(lambda: len(recorded(cluster, "Settled")) == 3, "the Events of the guest")
        assert sorted(
            (event["regarding"]["name"], event["type"], event["action"], event["note"])
            for event in recorded(cluster, "Settled")
        ) == [(name, "Normal", "Binding", "found its node") for name in (*easy, "picky-0")]


def test_a_pod_preempts_where_the_guest_admits_it_once_the_victims_are_gone(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """Requests carry names only, so the victims that the guest is shown are those of the pod cache."""
    for name, value in (("low", 10), ("urgent", 1000)):
        body = {"metadata": {"name": name}, "value": value}
        cluster.client.post("/apis/scheduling.k8s.io/v1/priorityclasses", json=body)
    cluster.create_nodes(3, allocatable=ROOM_FOR_ONE)
    with Stack(cluster, tmp_path, [guest("passes_without_lock", tmp_path, "00")], identity) as stack:
        victims = ["batch-0", "lock-1", "batch-2"]
        for name in victims:
            stack.create_pod(name, requests={"cpu": "3"}, priority_class="low")
        stack.wait_until(lambda: len(stack.placements()) == len(victims), "placement of the victims")
        before = stack.placements()
        stack.create_pod("urgent", requests={"cpu": "3"}, priority_class="urgent")
        stack.wait_until(lambda: "urgent" in stack.placements(), "placement of the preemptor")
        survivors = {name: node for name, node in before.items() if name != "lock-1"}
        assert stack.placements() == {**survivors, "urgent": before["lock-1"]}
