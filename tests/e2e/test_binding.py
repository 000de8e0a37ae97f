"""A stock kube-scheduler binds and preempts through guests that have a part in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.controlplane import ControlPlane
from extender.scheduling.pod_source import MAX_REMEMBERED_POD_BYTES
from tests.e2e.stack import Stack, example, guest, pod
from tests.extender import guests

ROOM_FOR_ONE = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def recorded(cluster: ControlPlane, reason: str) -> list[dict[str, Any]]:
    """The Events of one reason."""
    answer = cluster.client.get("/apis/events.k8s.io/v1/events", params={"fieldSelector": f"reason={reason}"})
    events: list[dict[str, Any]] = answer.json()["items"]
    return events


@pytest.mark.oldest
def test_a_pod_that_is_rejected_after_its_node_was_chosen_is_tried_again(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """Its name makes it prefer node-0, where Reserve says no; the guest then keeps it from there in Filter."""
    cluster.create_nodes(3)
    with Stack(cluster, tmp_path, [guest("drain", tmp_path), example("nodenumber")], identity) as stack:
        stack.create_pod("picky-0")
        stack.wait_until(lambda: bool(stack.events("picky-0", "FailedScheduling")), "a FailedScheduling event")
        assert stack.events("picky-0", "FailedScheduling") == [
            "plugin drain: reserve: Unschedulable: node-0 is being drained"
        ]
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


def test_a_pod_that_is_not_kept_from_its_filter_is_read_from_the_api_server(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    cluster.create_nodes(2)
    stranger = pod("stranger-1")
    stranger["spec"]["schedulerName"] = "another"
    with Stack(cluster, tmp_path, [guest("drain", tmp_path)], identity) as stack:
        created = cluster.client.post("/api/v1/namespaces/default/pods", json=stranger).json()
        uid = created["metadata"]["uid"]

        def filter_(uid: str) -> None:
            too_large = {"uid": uid, "annotations": {"more-than-is-kept": "x" * MAX_REMEMBERED_POD_BYTES}}
            shown = {**created, "metadata": created["metadata"] | too_large}
            answer = httpx.post(f"{stack.url}/filter", json={"Pod": shown, "NodeNames": ["node-1"]}, trust_env=False)
            assert answer.json()["NodeNames"] == ["node-1"]

        def bind(uid: str) -> Any:
            binding = {"PodName": "stranger-1", "PodNamespace": "default", "PodUID": uid, "Node": "node-1"}
            return httpx.post(f"{stack.url}/bind", json=binding, trust_env=False).json()

        assert bind(uid) == {
            "Error": "bind refused: no filter of pod default/stranger-1 was answered here in the last 30 minutes;"
            " kube-scheduler tries the pod again, and filters first if its extender has filterVerb beside bindVerb",
        }
        filter_("other")
        assert bind("other") == {
            "Error": f"the pod is gone, another has its name: its UID is {uid}, not other",
        }
        assert stack.placements() == {}
        filter_(uid)
        assert bind(uid) == {"Error": ""}
        assert stack.placements() == {"stranger-1": "node-1"}


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


def test_an_event_tells_of_a_failure_that_an_answer_has_no_words_for(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    cluster.create_nodes(2)
    with Stack(cluster, tmp_path, [guest("trap", tmp_path, extensionPoints=["score"])], identity) as stack:
        stack.create_pod("web-0")
        stack.wait_until(lambda: "web-0" in stack.placements(), "placement of the pod")
        stack.wait_until(lambda: bool(recorded(cluster, "PluginFailed")), "the Event about the plugin")
        (event,) = recorded(cluster, "PluginFailed")
        assert (event["regarding"]["kind"], event["regarding"]["name"], event["type"]) == ("Pod", "web-0", "Warning")
        assert event["note"] in {
            f"plugin trap ({guests.revision('trap')}): score of node {node}: trap: unreachable in func[1]"
            for node in ("node-0", "node-1")
        }
