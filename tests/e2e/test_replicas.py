"""Several kube-schedulers elect a leader, and each has an extender: whoever leads, pods are judged the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import wasmtime

from bench.controlplane import ControlPlane
from bench.controlplane.ports import LOOPBACK, free_port
from tests.e2e.faulty_binds import FaultyBinds
from tests.e2e.gangs import crowded
from tests.e2e.replicas import ELECTION, Replicas, replicas
from tests.e2e.round_robin import round_robin
from tests.e2e.stack import Stack, example, guest
from tests.e2e.test_swap import complaints
from tests.e2e.test_tls import samples
from tests.e2e.witness import Pods, Witness, has_node
from tests.extender import guests
from tests.manifests.overlay import SIDECAR
from wasm_runtime.blob import digest

POLICY = "marks_version"
VERSIONS = [bytes(wasmtime.wat2wasm(guests.text(POLICY).replace("VERSION", str(version)))) for version in (0, 1)]
NODES = 8
ROOM = "1000"


def put(module: Path, wasm: bytes) -> None:
    """Replaces a module at once."""
    beside = module.with_suffix(".new")
    beside.write_bytes(wasm)
    beside.replace(module)


def put_other(module: Path) -> str:
    """Replaces a module by that of the other version. Returns its digest."""
    other = VERSIONS[1 - VERSIONS.index(module.read_bytes())]
    put(module, other)
    return digest(other)


def mixed(pods: Pods) -> list[str]:
    """What is wrong: pods that filter, prioritize and bind of different versions have judged."""
    marks = {
        name: (int(pod["spec"]["nodeName"][-1]) & 3, pod["metadata"]["annotations"].get("version"))
        for name, pod in pods.items()
        if has_node(pod)
    }
    return [f"{name}: {mark}" for name, mark in marks.items() if mark not in {(0, "0"), (3, "1")}]


def renew(cluster: Replicas, _: Path) -> None:
    cluster.renew_certificates()


def fail_over(cluster: Replicas, _: Path) -> None:
    cluster.fail_over()


def swap(cluster: Replicas, module: Path) -> None:
    wanted = put_other(module)
    cluster.wait_until(lambda: cluster.lives() == {wanted}, "the new module on all replicas")


def fail_over_amid_swap(cluster: Replicas, module: Path) -> None:
    wanted = put_other(module)
    cluster.fail_over()
    cluster.wait_until(lambda: cluster.lives() == {wanted}, "the new module on all replicas")


def restart_api_server(cluster: Replicas, _: Path) -> None:
    cluster.control_plane.restart_api_server()


@dataclass(frozen=True)
class Show:
    """Pods in as many parts as things happen, and one part more."""

    pods: int
    steps: Sequence[Callable[[Replicas, Path], None]]


SHOWS = [
    pytest.param(Show(60, [renew, fail_over_amid_swap]), id="short", marks=pytest.mark.timeout(300)),
    pytest.param(
        Show(1000, [renew, swap, fail_over_amid_swap, restart_api_server, renew, fail_over]),
        id="full",
        marks=[pytest.mark.nightly, pytest.mark.timeout(1200)],
    ),
]


@pytest.mark.parametrize("show", SHOWS)
def test_no_pod_is_lost_or_judged_by_two_revisions_whatever_befalls_the_replicas(
    cluster: ControlPlane, tmp_path: Path, show: Show
) -> None:
    cluster.create_nodes(NODES, allocatable={"cpu": "32", "memory": "256Gi", "pods": ROOM})
    module = tmp_path / "policy.wasm"
    put(module, VERSIONS[0])
    witness = Witness(cluster, mixed)
    plugins = [{"name": "policy", "guestURL": f"file://{module}", "instances": 16, "timeout": "4s"}]
    with replicas(cluster, tmp_path, plugins, 3) as three, witness.watching():
        stack = three.leader()
        created = 0

        def create() -> list[str]:
            """Another part of the pods."""
            nonlocal created
            first, created = created, created + show.pods // (len(show.steps) + 1)
            names = [f"web-{at}" for at in range(first, created)]
            for name in names:
                stack.create_pod(name)
            return names

        for step in show.steps:
            names = create()
            three.wait_until(partial(any_bound, witness, names), "a node for one of these pods")
            step(three, module)
        create()
        three.wait_until(lambda: bound(witness) == created, "nodes for all pods", 300)
        assert Counter(pod["metadata"]["annotations"]["version"] for pod in witness.pods.values()).keys() == {"0", "1"}
        for each in three.stacks:
            check_that_tls_has_not_failed(each)


def any_bound(witness: Witness, names: Sequence[str]) -> bool:
    witness.check()
    return any(name in witness.pods and has_node(witness.pods[name]) for name in names)


def bound(witness: Witness) -> int:
    witness.check()
    return sum(map(has_node, witness.pods.values()))


def check_that_tls_has_not_failed(stack: Stack) -> None:
    """Neither for a client, nor for a pod."""
    assert "clients not let in" not in stack.extender.log.read_text()
    answer = stack.control_plane.client.get("/api/v1/events", params={"fieldSelector": "reason=FailedScheduling"})
    messages = [event["message"] for event in answer.json()["items"]]
    assert [each for each in messages if "tls" in each or "x509" in each or "code 4" in each] == []
    ends = samples(stack, "kwx_tls_handshakes_total", "end")
    assert {end for end, count in ends.items() if count} <= {"done"}


GANG = "the-gang-of-the-test"


@pytest.mark.timeout(300)
def test_pods_that_wait_on_permit_wait_anew_for_the_next_leader(cluster: ControlPlane, tmp_path: Path) -> None:
    """The extender that has lost its scheduler ends their waits, and expects them nowhere."""
    cluster.create_nodes(2)
    plugins = [guest("gang", tmp_path, f"4-{GANG}")]
    with replicas(cluster, tmp_path, plugins, 2, bind_timeout="2m") as two:
        old, waiting = two.leader(), {"member-0", "member-1", "member-2"}
        for name in sorted(waiting):
            old.create_pod(name, labels={"gang": GANG})
        two.wait_until(lambda: old.waits() == waiting, "three pods that wait")
        two.fail_over(with_extender=False)
        two.wait_until(lambda: old.waits() == set() == set(old.ledger()), "the end of all waits")
        new = two.leader()
        two.wait_until(lambda: new.waits() == waiting, "the same pods, which wait again")
        assert new.placements() == {}
        new.create_pod("member-3", labels={"gang": GANG})
        two.wait_until(lambda: len(new.placements()) == 4, "nodes for the gang")


@pytest.mark.timeout(300)
def test_binds_that_are_in_flight_count_once_for_the_next_leader(cluster: ControlPlane, tmp_path: Path) -> None:
    """Some were carried out without an answer, so that the next one learns of them by its watch."""
    nodes, room = 10, 2  # As the policy has it.
    cluster.create_nodes(nodes)
    binds = FaultyBinds(cluster, seed=1, share=0.5)
    identity = SIDECAR.identity(cluster)
    plugins = [guest("packs_two", tmp_path, instances=16)]
    witness = Witness(cluster, partial(crowded, room=room))
    with (
        binds.serving(identity, tmp_path) as kubeconfig,
        replicas(cluster, tmp_path, plugins, 2, identity=kubeconfig, profile={"topNodes": 1}) as two,
        witness.watching(),
    ):
        old, names = two.leader(), [f"web-{at}" for at in range(room * nodes)]
        for name in names:
            old.create_pod(name)
        two.wait_until(lambda: any_bound(witness, names), "the first bind")
        two.fail_over()
        two.wait_until(lambda: bound(witness) == len(names), "nodes for all pods", 120)
        assert binds.met


@pytest.mark.nightly
def test_extenders_behind_one_address_answer_by_turns(cluster: ControlPlane, tmp_path: Path) -> None:
    """filter at one, prioritize at the other. kube-scheduler binds by itself."""
    cluster.create_nodes(10)
    own, ports = SIDECAR.identity(cluster), [free_port(), free_port()]
    plugins = [example("accelerator"), example("nodenumber")]
    with round_robin([f"{LOOPBACK}:{port}" for port in ports]) as url, ExitStack() as cleanup:
        stacks = []
        for port in ports:
            folder = tmp_path / str(port)
            folder.mkdir()
            stack = Stack(
                cluster,
                folder,
                plugins,
                own,
                server={"replicas": "shared"},
                proxy=url,
                port=port,
                scheduler_identity=own,
                election=ELECTION,
            )
            stacks.append(cleanup.enter_context(stack))
        names = [f"pod-{at}" for at in range(20)]
        for name in names:
            stacks[0].create_pod(name)
        stacks[0].wait_until(lambda: len(stacks[0].placements()) == len(names), "nodes for all pods")
        assert stacks[0].placements() == {name: f"node-{name[-1]}" for name in names}
        for stack in stacks:
            asked = samples(stack, "kwx_verb_phase_seconds_count", "verb")
            assert asked["filter"] + asked["prioritize"] > 0
            assert (asked["bind"], complaints(stack)) == (0, [])
