"""Measures a plan into a run: rounds of all variants that take turns, on a control plane for each number of nodes.

kwok makes the nodes Ready and is ended then: it would write a lease a node every ten seconds, and bring each pod that
is bound to life, as kubelets do on machines of their own. What takes the cores here is what schedules.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from bench.conditions import Watch
from bench.controlplane import NEWEST, ControlPlane, ControlPlaneError, build
from bench.order import order
from bench.progress import Meter
from bench.run import Better, Case, Run
from bench.scheduler.api import NODES, Api, telling
from bench.scheduler.errors import MeasureError, TooLateError
from bench.scheduler.load import Node, node
from bench.scheduler.plan import Load, Plan
from bench.scheduler.round import Figures, Ground, play
from bench.scheduler.variants import Setup, build_programs

T = TypeVar("T")

NODES_TIMEOUT: Final = 120.0
"""Seconds until kwok has made all nodes Ready."""
KEEPS_UP: Final = 1.5
"""By which factor a scheduler's throughput in a batch must exceed a rate of steady pods, whose creation costs, too."""
THROUGHPUT: Final = "throughput"


def measure(run: Run, plan: Plan, meter: Meter, save: Callable[[], None]) -> None:
    """Measures what a run does not have yet; `save` is called after each round.

    Raises MeasureError, ControlPlaneError or BuildError.
    """
    watch = Watch(run.start)
    binaries, programs = build(NEWEST), build_programs(plan.variants, plan.upstream)
    for nodes in plan.nodes:
        cases = [_case(run, plan, nodes, load) for load in plan.loads_on(nodes)]
        if all(case.done >= case.rounds for case in cases):
            continue
        meter.say(f"{nodes:,} nodes: starting a control plane")
        with ControlPlane(binaries) as control_plane:
            ground = prepare(nodes, Setup(control_plane, plan.module, programs))
            for case, at in rounds(run, plan, ground, meter):
                run.conditions.append(watch.look(case.name, at))
                save()


def steps(run: Run, plan: Plan) -> int:
    """How many rounds of variants the run does not have; cases that it does not know are added to it."""
    cases = [_case(run, plan, nodes, load) for nodes in plan.nodes for load in plan.loads_on(nodes)]
    return sum((case.rounds - case.done) * (len(plan.variants) - len(case.left_out)) for case in cases)


def _case(run: Run, plan: Plan, nodes: int, load: Load) -> Case:
    """The run's case, which is added where there is none."""
    case = plan.case(nodes, load)
    found = run.case(case.name)
    if found is None:
        run.cases.append(case)
    return found or case


def prepare(nodes: int, setup: Setup) -> Ground:
    """Makes the nodes. Raises MeasureError or ControlPlaneError."""
    api, made = make_nodes(nodes, setup.control_plane)
    return Ground(setup, api, {each.name: each for each in made})


def make_nodes(count: int, control_plane: ControlPlane) -> tuple[Api, Sequence[Node]]:
    """Makes nodes that are Ready, and the namespace of the pods. Raises MeasureError or ControlPlaneError."""
    api = Api(control_plane)
    made = [node(at) for at in range(count)]
    with telling(control_plane.check):
        api.create_namespace()
        api.create(NODES, [each.body for each in made])
        control_plane.wait_until(lambda: api.ready_nodes() == count, f"{count} Ready nodes", NODES_TIMEOUT)
    control_plane.end_kwok()
    return api, made


def rounds(run: Run, plan: Plan, ground: Ground, meter: Meter) -> Iterator[tuple[Case, int]]:
    """Measures the rounds that the cases of these nodes do not have; each one's number once its case has it.

    Raises MeasureError, ControlPlaneError or BuildError.
    """
    for load in plan.loads_on(len(ground.nodes)):
        case = _case(run, plan, len(ground.nodes), load)
        for at in _rounds(run, case, load, plan, ground, meter):
            yield case, at


def _rounds(run: Run, case: Case, load: Load, plan: Plan, ground: Ground, meter: Meter) -> Iterator[int]:
    pods = [load.pod(at) for at in range(load.pods)]
    variants = [name for name in plan.variants if name not in case.left_out]
    if load.rate:
        case.left_out.update(too_slow(run, case, load))
    for at in range(case.done, case.rounds):
        figures: dict[str, dict[str, Figures]] = {}
        for variant in order(variants, at):
            if variant not in case.left_out:
                meter.say(f"{case.title}: {variant}, round {at + 1} of {case.rounds}")
                with _perhaps_without(variant, case):
                    figures[variant] = patiently(partial(play, variant, load, pods, ground), meter.say)
            meter.step(f"{case.title}: {variant}")
        for variant in sorted(figures, key=plan.variants.index):
            take(case, variant, figures[variant])
        yield at


@contextmanager
def _perhaps_without(variant: str, case: Case) -> Iterator[None]:
    """Leaves a variant out that fails in the case's first round, where that is no reason to end the run."""
    try:
        yield
    except (ControlPlaneError, MeasureError) as error:
        reason = why_left_out(variant, error)
        if case.done or not reason:
            raise
        case.left_out[variant] = reason


def patiently(play: Callable[[], T], say: Callable[[str], None]) -> T:
    """Plays a round, and once more if it comes too late: that a machine is held up once must not end a long run."""
    try:
        return play()
    except TooLateError as error:
        say(f"once more, since {_first_line(error)}")
        return play()


def take(case: Case, variant: str, figures: Mapping[str, Figures]) -> None:
    """Adds the figures of a variant's round to a case."""
    for metric, found in figures.items():
        better: Better = "higher" if metric in {THROUGHPUT, "batched"} else "lower"
        case.add(variant, metric, found.unit, found.samples, found.parts, better)


def why_left_out(variant: str, error: Exception) -> str:
    """Why to do without a variant that has failed in its first round; empty if the run is to end."""
    if isinstance(error, TooLateError):
        return _first_line(error)
    if variant == "upstream":
        return f"it is made for another Kubernetes, and does not run here: {error}"
    return ""


def _first_line(error: Exception) -> str:
    """The message of an error without the end of a log behind it."""
    return str(error).partition("\n")[0]


def too_slow(run: Run, case: Case, load: Load) -> dict[str, str]:
    """Why variants are left out that cannot place pods as quickly as they come, by what they managed of a batch."""
    batch = next((each for each in run.cases if each.nodes == case.nodes and each.settings["load"] == "batch"), None)
    found = {}
    for series in batch.series if batch else ():
        if series.metric != THROUGHPUT:
            continue
        managed = statistics.median(chain.from_iterable(series.rounds))
        if managed < KEEPS_UP * load.rate:
            found[series.variant] = f"it places {managed:.0f} pods a second, and {load.rate:g} come"
    return found
