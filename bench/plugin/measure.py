"""Measures cases at the plugin level, round after round, into a run that can be stopped and continued."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from bench.conditions import Watch
from bench.order import order
from bench.plugin.cases import TOP, WHOLE, CaseSpec, Effort
from bench.plugin.ledger import Ledger
from bench.plugin.rounds import DifferentAnswersError, first_pod, how_many, play, settle, warm_up
from bench.plugin.swaps import Swapper
from bench.plugin.turns import SETTLING, Turn, turns
from bench.plugin.variants import MeasuredModule, Setup, Started, starting
from bench.plugin.workload import Cycle, Synthetic, Workload
from bench.progress import Meter
from bench.run import QUIET, Case, Run, RunError

SWAPS: Final = 2
"""Swaps in a round."""
BESIDE: Final = 2.0
"""Seconds of a round in which no module is swapped."""


class Means(NamedTuple):
    """What is measured, and the programs that measure it."""

    guest: MeasuredModule
    variants: Sequence[str]
    effort: Effort
    upstream: Path | None = None
    wasmer: Path | None = None
    recorded: Workload | None = None


def measure(run: Run, specs: Sequence[CaseSpec], means: Means, meter: Meter, save: Callable[[], None]) -> None:
    """Measures what a run does not have yet; `save` is called after each round. Raises BenchError or BuildError."""
    watch = Watch(run.start)
    for spec in specs:
        case = _case(run, spec, means.effort)
        if left(run, spec, means.effort) == 0:
            continue
        meter.say(f"{spec.title}: starting")
        with TemporaryDirectory(prefix="kwx-bench-") as name:
            setup = _setup(spec, means, Path(name))
            for at in _KINDS[spec.kind](spec, means, setup, Ledger(case)):
                run.conditions.append(watch.look(spec.name, at))
                save()
                meter.step(spec.title, spec.weight)


def left(run: Run, spec: CaseSpec, effort: Effort) -> int:
    """The rounds of a case that a run does not have."""
    found = run.case(spec.name)
    if found is None:
        return spec.rounds(effort)
    return found.rounds - found.done if found.series or not found.left_out else 0


def _case(run: Run, spec: CaseSpec, effort: Effort) -> Case:
    found = run.case(spec.name)
    if found is None:
        found = Case(
            name=spec.name,
            title=spec.title,
            nodes=spec.nodes,
            settings=spec.settings,
            rounds=spec.rounds(effort),
        )
        run.cases.append(found)
    return found


def _setup(spec: CaseSpec, means: Means, folder: Path) -> Setup:
    return Setup(
        folder,
        means.guest,
        means.recorded or Synthetic(spec.nodes, large=spec.large),
        ExitStack(),
        plugins=spec.plugins,
        changes=spec.updates > 0,
        upstream=means.upstream,
        wasmer=means.wasmer,
    )


@contextmanager
def _ready(setup: Setup, names: Sequence[str], case: Case, *, has_peers: bool) -> Iterator[dict[str, Started]]:
    """The started variants that answer alike, warmed up. Raises DifferentAnswersError where all must, and RunError."""
    names = [name for name in names if name not in case.left_out]
    with starting(setup, names) as (started, left_out):
        _leave_out(case, left_out, case.done)
        different = warm_up(started, setup.workload)
        if different and has_peers:
            raise DifferentAnswersError("; ".join(f"{name}: {how}" for name, how in different.items()))
        _leave_out(case, different, case.done)
        yield {name: each for name, each in started.items() if name not in different}


def _leave_out(case: Case, reasons: Mapping[str, str], at: int) -> None:
    """Leaves variants out of a case in its first round; in a later one all must go on. Raises RunError."""
    if at and reasons:
        lost = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise RunError(
            f"{case.title}: what was measured in the first rounds cannot go on: {lost}; mend that, or choose another"
            " folder to begin anew"
        )
    case.left_out.update(reasons)


def _in_rounds(spec: CaseSpec, means: Means, setup: Setup, ledger: Ledger) -> Iterator[int]:
    case, most = ledger.case, means.effort.most_whole
    names = [name for name in means.variants if name not in WHOLE or spec.nodes <= most]
    for name in means.variants:
        if name not in names:
            case.left_out[name] = f"requests with whole nodes are measured with up to {most:,} nodes here"
    with _ready(setup, names, case, has_peers=means.guest.has_peers) as started:
        cycles = {name: how_many(each, setup.workload, means.effort.seconds) for name, each in started.items()}
        parts = turns(setup, spec.updates)
        for at in range(case.done, case.rounds if started else 0):
            take_turns(at, started, cycles, setup.workload, parts, ledger)
            yield at


def take_turns(
    at: int,
    started: Mapping[str, Started],
    cycles: Mapping[str, int],
    workload: Workload,
    parts: Sequence[Turn],
    ledger: Ledger,
) -> None:
    """A round: each variant is asked about the same pods, as many as it manages, once it has settled."""
    for name in order(list(started), at):
        for which, turn in enumerate(parts):
            first = first_pod(which * ledger.case.rounds + at)
            pods = [workload.cycle(first + number) for number in range(cycles[name])]
            with turn.around(started[name], first):
                settle(started[name].subject, workload, turn.before)
                ledger.take(name, play(started[name], pods, turn.before), turn.suffix)


def _swaps(_: CaseSpec, means: Means, setup: Setup, ledger: Ledger) -> Iterator[int]:
    """Measures our extender while its module is swapped, as no other variant can be. Yields each round's number."""
    case = ledger.case
    for name in means.variants:
        if name != "kwx":
            case.left_out[name] = "only our extender swaps modules while it serves"
    with _ready(setup, [name for name in means.variants if name == "kwx"], case, has_peers=False) as started:
        cycles = map(setup.workload.cycle, count())
        for at in range(case.done, case.rounds if started else 0):
            kwx = started["kwx"]
            ledger.take("kwx", play(kwx, _until(time.monotonic() + BESIDE, threading.Event(), cycles)), QUIET)
            begun = time.monotonic()
            with Swapper(setup.guest.file, setup.names[0], kwx.admin).swapping(SWAPS) as (done, marks):
                found = play(kwx, _until(begun + 60, done, cycles))
            ledger.take("kwx", found)
            ledger.extend("kwx", found, begun, marks)
            time.sleep(SETTLING)
            yield at


def _until(end: float, done: threading.Event, cycles: Iterator[Cycle]) -> Iterator[Cycle]:
    """Cycles until `end`, on the clock of `time.monotonic`, or until `done` is set."""
    while time.monotonic() < end and not done.is_set():
        yield next(cycles)


def _cold(_: CaseSpec, means: Means, setup: Setup, ledger: Ledger) -> Iterator[int]:
    """Measures starts, without and with compiled code in the cache. Yields the number of each round that is done."""
    case = ledger.case
    case.left_out.update(
        {name: "it starts as the one that answers all nodes" for name in means.variants if name in TOP}
    )
    for at in range(case.done, case.rounds):
        for name in order(means.variants, at):
            if name in case.left_out:
                continue
            with TemporaryDirectory(prefix="kwx-bench-") as cache:
                for metric in ("first", "first cached"):
                    _start(name, metric, setup, Path(cache), ledger, at)
        yield at


def _start(name: str, metric: str, setup: Setup, cache: Path, ledger: Ledger, at: int) -> None:
    with TemporaryDirectory(prefix="kwx-bench-") as folder:
        anew = setup.again(Path(folder), cache)
        with starting(anew, [name]) as (started, left_out):
            _leave_out(ledger.case, left_out, at)
            for each in started.values():
                seconds = each.seconds + each.subject.ask(setup.workload.cycle(0)).seconds
                ledger.take_one(name, metric, seconds * 1e3)


_KINDS: Final[Mapping[str, Callable[[CaseSpec, Means, Setup, Ledger], Iterator[int]]]] = {
    "rounds": _in_rounds,
    "swaps": _swaps,
    "cold": _cold,
}
