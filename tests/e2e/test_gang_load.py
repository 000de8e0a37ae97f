"""Many gangs at once and room for a third of them: none is ever left half, and all of them run in the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.controlplane import ControlPlane
from tests.e2e import pod_groups
from tests.e2e.faulty_binds import FaultyBinds
from tests.e2e.gangs import MODULE, PROFILE, SERVER, Gang, allocatable, crowded, draw, settle
from tests.e2e.quiet import QUIET_S
from tests.e2e.stack import SECOND_SCHEDULER, Stack
from tests.e2e.witness import Pods, Witness
from tests.manifests.overlay import WAKE_PODS

ANOTHER = b"\x00\x02\x01x"
"""A section that means nothing: with it a module is another one that does the same."""
ROOM = 4
"""Pods that a node has room for."""


def crash(stack: Stack) -> None:
    stack.crash_extender()


def swap(stack: Stack) -> None:
    """Has another module serve."""
    module, old = stack.directory / MODULE.name, stack.live()
    beside = module.with_suffix(".new")
    beside.write_bytes(module.read_bytes() + ANOTHER)
    beside.replace(module)
    stack.wait_until(lambda: stack.live() != old, "the swap")


@dataclass(frozen=True)
class Trouble:
    """What a load meets."""

    faulty: float = 0.0
    """The share of pods whose binds fail."""
    strike: Callable[[Stack], None] | None = None
    """What happens as soon as the first pods of a round have nodes."""
    second_scheduler: bool = False
    """Whether each gang has pods of two kube-schedulers."""
    is_native: bool = False
    """Whether kube-scheduler itself knows of the gangs."""


FAULTY = 0.3
NONE = {"no-trouble": Trouble()}
TROUBLES = {
    "faulty-binds": Trouble(faulty=FAULTY),
    "crashes": Trouble(strike=crash),
    "crashes-and-faulty-binds": Trouble(faulty=FAULTY, strike=crash),
    "swaps": Trouble(strike=swap),
    "two-schedulers": Trouble(second_scheduler=True),
    "swaps-and-two-schedulers": Trouble(strike=swap, second_scheduler=True),
}
NATIVE = {"native": Trouble(is_native=True), "native-and-faulty-binds": Trouble(faulty=FAULTY, is_native=True)}
HAVE_SHORT_FORMS = {
    "no-trouble",
    "crashes-and-faulty-binds",
    "swaps-and-two-schedulers",
    "native-and-faulty-binds",
}
"""Troubles that come together show in one short load what each of them does. The full loads have each alone, too."""


@dataclass(frozen=True)
class Load:
    """Gangs that are created at once, their pods in any order."""

    gangs: int
    sizes: range
    strikes: int = 1
    """Rounds in which the trouble's strike happens."""


SHORT = Load(6, range(2, 8))
FULL = Load(20, range(5, 31), 5)


def loads(troubles: Mapping[str, Trouble]) -> Sequence[Any]:
    """The loads of a test, each with its trouble."""
    return list(_loads(troubles))


def _loads(troubles: Mapping[str, Trouble]) -> Iterator[Any]:
    for name, trouble in troubles.items():
        if name in HAVE_SHORT_FORMS:
            yield pytest.param(SHORT, trouble, id=f"{name}-short", marks=pytest.mark.timeout(300))
        yield pytest.param(FULL, trouble, id=f"{name}-full", marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])


@pytest.mark.oldest
@pytest.mark.parametrize(("load", "trouble"), loads(NONE))
def test_all_gangs_run_in_the_end(
    cluster: ControlPlane, identity: Path, tmp_path: Path, load: Load, trouble: Trouble
) -> None:
    run(cluster, identity, tmp_path, load, trouble)


@pytest.mark.parametrize(("load", "trouble"), loads(TROUBLES))
def test_all_gangs_run_in_the_end_whatever_happens(
    cluster: ControlPlane, identity: Path, tmp_path: Path, load: Load, trouble: Trouble
) -> None:
    run(cluster, identity, tmp_path, load, trouble)


@pytest.mark.newest
@pytest.mark.parametrize(("load", "trouble"), loads(NATIVE))
def test_all_gangs_run_in_the_end_where_kube_scheduler_decides_about_them(
    cluster: ControlPlane, identity: Path, tmp_path: Path, load: Load, trouble: Trouble
) -> None:
    run(cluster, identity, tmp_path, load, trouble)


def run(cluster: ControlPlane, identity: Path, folder: Path, load: Load, trouble: Trouble) -> None:
    """Creates the gangs, and deletes those that run until none is left. Raises AssertionError."""
    gangs = draw(load.gangs, load.sizes, seed=load.gangs)
    room = max(sum(gang.size for gang in gangs) // 3, load.sizes[-1])
    cluster.create_nodes(-(-room // ROOM), allocatable=allocatable(ROOM))
    witness, binds = Witness(cluster, partial(crowded, room=ROOM)), FaultyBinds(cluster, load.gangs, trouble.faulty)
    (folder / MODULE.name).write_bytes(MODULE.read_bytes())
    plugins = [{"name": "gang", "guestURL": f"file://./{MODULE.name}"}]
    flags = pod_groups.SCHEDULER_FLAGS if trouble.is_native else ()
    with ExitStack() as cleanup:
        kubeconfig = cleanup.enter_context(binds.serving(identity, folder))
        stack = Stack(cluster, folder, plugins, kubeconfig, profile=PROFILE, server=SERVER, scheduler_flags=flags)
        cleanup.enter_context(stack)
        cleanup.enter_context(WAKE_PODS.applied(cluster))
        cleanup.enter_context(witness.watching())
        if trouble.second_scheduler:
            stack.start_second_scheduler()
        groups = [
            cleanup.enter_context(pod_groups.created(cluster, gang.name, gang.minimum)) if trouble.is_native else {}
            for gang in gangs
        ]
        _create(stack, list(zip(gangs, groups, strict=True)), trouble)
        _drain(stack, witness, gangs, load, trouble)
    assert bool(binds.met) == bool(trouble.faulty)


def _create(stack: Stack, gangs: Sequence[tuple[Gang, Mapping[str, Any]]], trouble: Trouble) -> None:
    """Creates the pods of gangs in any order, with what the specs of a gang's pods have in common."""
    members = [(gang, name, group) for gang, group in gangs for name in gang.members]
    random.Random(len(gangs)).shuffle(members)
    for at, (gang, name, group) in enumerate(members):
        scheduler = {"schedulerName": SECOND_SCHEDULER} if trouble.second_scheduler and at % 2 else {}
        gang.create(stack, [name], **group, **scheduler)


def _drain(stack: Stack, witness: Witness, gangs: Sequence[Gang], load: Load, trouble: Trouble) -> None:
    """Deletes gangs that run, round by round, until none is left."""
    settled = partial(_settle_natively, witness) if trouble.is_native else partial(settle, stack)
    left, rounds = list(gangs), 0
    while left:
        if trouble.strike and rounds < load.strikes:
            witness.wait_until(partial(_some_have_nodes, left), "the first pods of a round", QUIET_S)
            trouble.strike(stack)
        pods = settled(left, partial(_some_run, left))
        running = [gang for gang in left if gang.runs(pods)]
        for gang in running:
            gang.delete(stack)
        left = [gang for gang in left if gang not in running]
        rounds += 1


def _settle_natively(witness: Witness, gangs: Sequence[Gang], condition: Callable[[Pods], bool]) -> Pods:
    """The pods, once a condition holds for them while no gang is half.

    kube-scheduler tries gangs for which there is no room all the time: it is never quiet.
    """

    def holds(pods: Pods) -> bool:
        return condition(pods) and not any(gang.is_half(pods) for gang in gangs)

    witness.wait_until(holds, "a gang that runs while none is half", QUIET_S)
    return witness.pods


def _some_have_nodes(gangs: Sequence[Gang], pods: Pods) -> bool:
    return any(gang.bound(pods) for gang in gangs)


def _some_run(gangs: Sequence[Gang], pods: Pods) -> bool:
    return any(gang.runs(pods) for gang in gangs)
