"""Rounds of all variants that take turns, on one control plane."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from bench.conditions import Watch
from bench.controlplane import NEWEST, ControlPlane, Process, build
from bench.controlplane.gobuild import log_tail, module_directory
from bench.gangs.load import Gang, Kind
from bench.gangs.variants import API_SERVER_FLAGS, WAYS, Setup, build_coscheduling, starting
from bench.order import order
from bench.peers import gopeer
from bench.progress import Meter
from bench.run import Case, Run
from bench.scheduler.api import PODS, Api, telling
from bench.scheduler.bindings import Bindings
from bench.scheduler.errors import TooLateError
from bench.scheduler.measure import make_nodes
from bench.scheduler.round import HARNESS, STANDING
from bench.scheduler.usage import Usage
from extender.cluster import waker
from extender.cluster.client.api import JSON

METRIC: Final = "gang"
WARM_UP: Final = 8
"""Members of the gang of each start that does not count: connections, caches and compilers are cold."""
LATEST: Final = 60.0
"""Seconds within which a gang must be bound; the nodes have room for it."""
SETTLE: Final = 0.5
"""Seconds for schedulers to hear that the last gang has ended and that the next one's PodGroup is there."""
LOOK_EVERY: Final = 0.005
CRD: Final = Path("config", "crd", "bases", "scheduling.x-k8s.io_podgroups.yaml")
"""The CustomResourceDefinition of PodGroup in scheduler-plugins."""
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WAKE: Final = {
    "/api/v1/namespaces": {"metadata": {"name": waker.NAMESPACE}},
    f"/apis/storage.k8s.io/v1/namespaces/{waker.NAMESPACE}/csistoragecapacities": {
        "metadata": {"name": waker.NAME},
        "storageClassName": waker.NAME,
    },
}
"""The component wake-pods, by which kube-scheduler tries rejected members again."""
CRD_TIMEOUT: Final = 30.0


class Plan(NamedTuple):
    """What will be measured."""

    nodes: int
    sizes: Sequence[int]
    """Members of a gang."""
    variants: Sequence[str]
    """The variants: keys of WAYS."""
    rounds: int
    gangs: int
    """Gangs of each size in a round."""
    policy: Path
    """The module of the variants with our extender."""


class Ground(NamedTuple):
    """The control plane and the nodes on which rounds are played."""

    setup: Setup
    api: Api
    numbers: Iterator[int]
    """Numbers for the names of gangs, so that no name occurs twice."""


def steps(run: Run, plan: Plan) -> int:
    """How many rounds of variants the run does not have; cases that it does not know are added to it."""
    cases = _cases(run, plan)
    return (plan.rounds - min(case.done for case in cases)) * len(plan.variants)


def measure(run: Run, plan: Plan, meter: Meter, save: Callable[[], None]) -> None:
    """Measures what a run does not have yet; `save` is called after each round.

    Raises MeasureError, ControlPlaneError or BuildError.
    """
    watch = Watch(run.start)
    binaries, coscheduling = build(NEWEST), build_coscheduling(plan.variants)
    cases = _cases(run, plan)
    with ControlPlane(binaries, API_SERVER_FLAGS) as control_plane:
        ground = _prepare(plan, Setup(control_plane, plan.policy, coscheduling))
        for at in range(min(case.done for case in cases), plan.rounds):
            for name in order(plan.variants, at):
                meter.say(f"{name}, round {at + 1} of {plan.rounds}")
                _take(cases, name, play(name, plan, ground))
                meter.step(name)
            run.conditions.append(watch.look(cases[-1].name, at))
            save()


def _cases(run: Run, plan: Plan) -> list[Case]:
    """The run's cases, one for each size."""
    for size in plan.sizes:
        if run.case(f"{size}") is None:
            title, settings = f"{size} members", {"members": size, "gangs": plan.gangs}
            run.cases.append(
                Case(name=f"{size}", title=title, nodes=plan.nodes, settings={**settings}, rounds=plan.rounds)
            )
    return run.cases


def _prepare(plan: Plan, setup: Setup) -> Ground:
    """Makes nodes, and the PodGroup of scheduler-plugins. Raises MeasureError, ControlPlaneError or BuildError."""
    crd = yaml.safe_load((module_directory(gopeer.COSCHEDULING, gopeer.SCHEDULER_PLUGINS) / CRD).read_text())
    setup.control_plane.client.post(CRDS, json=crd).raise_for_status()
    for path, body in WAKE.items():
        setup.control_plane.client.post(path, json=body).raise_for_status()
    kinds = dict.fromkeys(WAYS[name].kind for name in plan.variants)

    def are_served() -> bool:
        return all(setup.control_plane.client.get(kind.path).is_success for kind in kinds)

    setup.control_plane.wait_until(are_served, "PodGroups", CRD_TIMEOUT)
    return Ground(setup, make_nodes(plan.nodes, setup.control_plane)[0], count())


def play(name: str, plan: Plan, ground: Ground) -> Mapping[int, Sequence[Mapping[str, float]]]:
    """Milliseconds by metric of each gang of each size, placed by a scheduler that has placed one before.

    Raises MeasureError or ControlPlaneError.
    """
    check = ground.setup.control_plane.check
    with telling(check), starting(name, ground.setup) as processes:
        place = partial(_place, name, ground, processes)
        place(WARM_UP)
        return {size: [place(size) for _ in range(plan.gangs)] for size in plan.sizes}


def _place(name: str, ground: Ground, processes: Mapping[str, Process], size: int) -> Mapping[str, float]:
    kind = WAYS[name].kind
    gang = kind.gang(f"gang-{next(ground.numbers)}", size)
    api = ground.api
    _create_group(api, kind, gang)
    time.sleep(SETTLE)
    working = {each.name: each for each in ground.setup.control_plane.processes if each.name in STANDING} | {
        **processes
    }
    usage = Usage({each: process.pid for each, process in working.items()} | {HARNESS: os.getpid()})
    with Bindings(api, api.version()) as bindings:
        before = usage.cpu()
        begun = time.perf_counter()
        api.create(PODS, gang.pods)
        created = time.perf_counter()
        _wait(bindings, gang, created, processes)
        spent = {each: (seconds - before[each]) * 1e3 / size for each, seconds in usage.cpu().items()}
        bound = max(bindings.bound.values())
    api.clear()
    times = {METRIC: max(0.0, bound - created) * 1e3, f"{METRIC} from first": (bound - begun) * 1e3}
    return times | {f"cpu {each}": milliseconds for each, milliseconds in spent.items()}


def _create_group(api: Api, kind: Kind, gang: Gang) -> None:
    with closing(api.connect()) as connection:
        api.send(connection, "POST", kind.path, gang.group, content=JSON, accept=JSON).read()


def _wait(bindings: Bindings, gang: Gang, created: float, processes: Mapping[str, Process]) -> None:
    """Waits until all members are bound. Raises TooLateError, MeasureError or ControlPlaneError."""
    while len(bindings.bound) < len(gang.members):
        bindings.check()
        for process in processes.values():
            process.check()
        if time.perf_counter() - created > LATEST:
            logs = "\n".join(f"the end of {name}'s log:\n{log_tail(each.log)}" for name, each in processes.items())
            raise TooLateError(
                f"{len(bindings.bound)} of {len(gang.members)} members were bound within {LATEST:g} s\n{logs}"
            )
        time.sleep(LOOK_EVERY)


def _take(cases: Sequence[Case], name: str, found: Mapping[int, Sequence[Mapping[str, float]]]) -> None:
    """Adds the figures of a variant's round to the cases."""
    for case in cases:
        gangs = found[int(case.name)]
        for metric in gangs[0]:
            case.add(name, metric, "ms", [gang[metric] for gang in gangs])
