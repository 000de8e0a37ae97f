"""A stock kube-scheduler, and pods that wait on Permit until the last member of their gang has a node."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bench.controlplane import ControlPlane
from tests.e2e.stack import Stack, guest

GANG = "the-gang-of-the-test"
"""A label's value, for which the guest looks in pods."""
MEMBERS = 8
"""As the guest's configuration says: more than it has instances."""
BIND_TIMEOUT = "2m"


def create(stack: Stack, *names: str) -> None:
    for name in names:
        stack.create_pod(name, labels={"gang": GANG})


def placed(stack: Stack, *names: str) -> bool:
    """Whether these pods are on nodes, and no others."""
    return stack.placements().keys() == set(names)


@pytest.mark.oldest
def test_a_gang_comes_to_its_nodes_together(cluster: ControlPlane, identity: Path, tmp_path: Path) -> None:
    """One member is deleted while it waits, so that another has to come. Others are scheduled meanwhile."""
    cluster.create_nodes(4)
    plugins = [guest("gang", tmp_path, f"{MEMBERS}-{GANG}", instances=4)]
    server: dict[str, Any] = {"bindTimeout": BIND_TIMEOUT}
    with Stack(cluster, tmp_path, plugins, identity, server=server) as stack:
        judging, binding = yaml.safe_load(stack.scheduler_config.read_text())["extenders"]
        assert [(each["httpTimeout"], each.get("bindVerb")) for each in (judging, binding)] == [
            ("5s", None),
            ("121s", "bind"),
        ]
        first = [f"member-{at}" for at in range(MEMBERS - 1)]
        create(stack, *first)
        stack.wait_until(lambda: stack.waits() == set(first), "all members but one, which wait")
        assert stack.placements() == {}

        cluster.client.delete(
            f"/api/v1/namespaces/default/pods/{first[0]}", params={"gracePeriodSeconds": 0}
        ).raise_for_status()
        stack.wait_until(lambda: stack.waits() == set(first[1:]), "the end of the wait of the pod that was deleted")
        create(stack, "late-1")
        stack.wait_until(lambda: stack.waits() == {*first[1:], "late-1"}, "another member, which waits")
        assert stack.placements() == {}

        create(stack, "late-2")
        gang = [*first[1:], "late-1", "late-2"]
        stack.wait_until(lambda: placed(stack, *gang), "the placement of the whole gang")
        assert stack.waits() == set()


@pytest.mark.oldest
def test_an_extender_that_hangs_is_waited_for_as_long_as_filter_may_take(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """And not as long as bind, for which a pod waits meanwhile."""
    cluster.create_nodes(2)
    plugins = [guest("gang", tmp_path, f"{MEMBERS}-{GANG}")]
    with Stack(cluster, tmp_path, plugins, identity, server={"bindTimeout": BIND_TIMEOUT}) as stack:
        create(stack, "waits")
        stack.wait_until(lambda: stack.waits() == {"waits"}, "a pod that waits")
        os.kill(stack.extender.pid, signal.SIGSTOP)
        try:
            create(stack, "late")
            stack.wait_until(lambda: bool(stack.events("late", "FailedScheduling")), "the end of filter")
        finally:
            os.kill(stack.extender.pid, signal.SIGCONT)
        (message,) = stack.events("late", "FailedScheduling")
        assert message.endswith("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
        stack.wait_until(lambda: stack.waits() == {"waits", "late"}, "both pods, which wait")


def test_an_operator_and_a_scheduler_that_dies_end_waits(cluster: ControlPlane, identity: Path, tmp_path: Path) -> None:
    cluster.create_nodes(2)
    plugins = [guest("gang", tmp_path, f"{MEMBERS}-{GANG}")]
    with Stack(cluster, tmp_path, plugins, identity, server={"bindTimeout": BIND_TIMEOUT}) as stack:
        create(stack, "one", "two")
        stack.wait_until(lambda: stack.waits() == {"one", "two"}, "two pods that wait")
        uid = stack.pods()["one"]["metadata"]["uid"]
        httpx.post(f"{stack.admin_url}/api/v1/waits/{uid}/allow", trust_env=False).raise_for_status()
        stack.wait_until(lambda: placed(stack, "one"), "the placement of the pod that was let go on")

        stack.stop_scheduler()
        stack.wait_until(lambda: stack.waits() == set(), "the end of the wait whose caller is gone")
        states = httpx.get(f"{stack.admin_url}/api/v1/ledger", trust_env=False).json()["items"]
        assert [pod["name"] for pod in states] == ["one"]
