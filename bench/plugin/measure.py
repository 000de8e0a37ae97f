"""Measures cases at the plugin level, round after round, into a run that can be stopped and continued."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from bench.conditions import Watch
from bench.peers.nodelist import node_list
from bench.plugin.cases import WHOLE, CaseSpec, Effort
from bench.plugin.rounds import METRICS, DifferentAnswersError, Round, how_many, play, warm_up
from bench.plugin.subject import Subject
from bench.plugin.swaps import Swapper
from bench.plugin.variants import Guest, Setup, Started, starting
from bench.plugin.workload import Cycle, Recorded, Synthetic, Workload
from bench.progress import Meter
from bench.run import Case, Run, Series, Timeline

SETTLING: Final = 0.3
"""Seconds after updates of nodes began or ended that are not measured."""

SWAPPING: Final = 3.0
"""Seconds of a turn in which a module is swapped, and of the quiet one before it."""

QUIET: Final = " quiet"
"""What the metrics' names end with where a case measures the same without its disturbance as well."""


class Means(NamedTuple):
    """What is measured, and by what."""

    guest: Guest
    variants: Sequence[str]
    effort: Effort
    upstream: Path | None = None
    wasmer: Path | None = None
    recorded: Workload | None = None


class Recorder:
    """Takes rounds into a case of a run."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._series = {(each.variant, each.metric): each for each in case.series}

    def take(self, variant: str, found: Round, suffix: str = "") -> None:
        """Adds a variant's round."""
        for metric in METRICS:
            series = self._of(variant, metric + suffix)
            series.rounds.append(found.samples[metric])
            for part, value in found.parts[metric].items():
                series.parts.setdefault(part, []).append(value)

    def take_one(self, variant: str, metric: str, milliseconds: float) -> None:
        """Adds a round of one sample."""
        self._of(variant, metric, "ms").rounds.append([round(milliseconds, 3)])

    def _of(self, variant: str, metric: str, unit: str = "us") -> Series:
        key = variant, metric
        if key not in self._series:
            self._series[key] = Series(
                variant=variant, metric=metric, unit="ms" if unit == "ms" else "us", better="lower", rounds=[]
            )
            self.case.series.append(self._series[key])
        return self._series[key]


def measure(run: Run, specs: Sequence[CaseSpec], means: Means, meter: Meter, save: Callable[[], None]) -> None:
    """Measures what a run does not have yet; `save` is called after each round.

    Raises SubjectError, ServerError, BuildError or DifferentAnswersError.
    """
    watch = Watch(tuple, datetime.fromisoformat(run.begun.replace("Z", "+00:00")))
    for spec in specs:
        case = _case(run, spec, means.effort)
        if case.done >= case.rounds and (case.series or case.left_out):
            continue
        meter.say(f"{spec.title}: starting")
        with TemporaryDirectory(prefix="kwx-bench-") as name:
            setup = _setup(spec, means, Path(name))
            for at in _KINDS[spec.kind](spec, means, setup, Recorder(case), meter):
                run.conditions.append(watch.look(spec.name, at))
                save()


def _case(run: Run, spec: CaseSpec, effort: Effort) -> Case:
    found = next((case for case in run.cases if case.name == spec.name), None)
    if found is None:
        found = Case(
            name=spec.name, title=spec.title, nodes=spec.nodes, settings=spec.settings, rounds=rounds(spec, effort)
        )
        run.cases.append(found)
    return found


def rounds(spec: CaseSpec, effort: Effort) -> int:
    """The rounds of a case."""
    return effort.starts if spec.kind == "cold" else effort.rounds


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


def _rotated(names: Sequence[str], turn: int) -> list[str]:
    """Each name once, another one first in each turn."""
    at = turn % len(names)
    return [*names[at:], *names[:at]]


@contextmanager
def _ready(setup: Setup, names: Sequence[str], case: Case, *, has_peers: bool) -> Iterator[dict[str, Started]]:
    """The variants that answer alike, warm. Raises DifferentAnswersError where they must."""
    with starting(setup, names) as (started, left_out):
        case.left_out.update(left_out)
        different = warm_up(started, setup.workload)
        if different and has_peers:
            raise DifferentAnswersError("; ".join(f"{name}: {how}" for name, how in different.items()))
        case.left_out.update(different)
        yield {name: each for name, each in started.items() if name not in different}


def _in_rounds(spec: CaseSpec, means: Means, setup: Setup, recorder: Recorder, meter: Meter) -> Iterator[int]:
    names = [name for name in means.variants if name not in WHOLE or spec.nodes <= means.effort.most_whole]
    for name in set(means.variants) - set(names):
        recorder.case.left_out[name] = (
            f"a request with {spec.nodes:,} whole nodes takes too long; --full has more of them"
        )
    with _ready(setup, names, recorder.case, has_peers=means.guest.has_peers) as started:
        numbers = count()
        cycles = {name: how_many(each, setup.workload, means.effort.seconds) for name, each in started.items()}
        turns = _turns(spec, setup)
        for at in range(recorder.case.done, recorder.case.rounds):
            for name in _rotated(list(started), at):
                for turn in turns:
                    with turn.around():
                        pods = [setup.workload.cycle(number) for number in islice(numbers, cycles[name])]
                        recorder.take(name, play(started[name], pods, turn.before), turn.suffix)
            meter.step(spec.title)
            yield at


class _Turn:
    """A part of a variant's round."""

    suffix = ""

    @contextmanager
    def around(self) -> Iterator[None]:
        """What goes on meanwhile."""
        yield

    def before(self, _: Subject, __: Cycle, /) -> None:
        """What comes before each cycle."""


class _Quiet(_Turn):
    suffix = QUIET


class _Churn(_Turn):
    """Nodes are updated: by the API server for those that watch it, by lines for the others."""

    def __init__(self, setup: Setup, rate: int) -> None:
        self._setup = setup
        self._rate = rate
        self._updated = 0
        self._last = 0.0

    @contextmanager
    def around(self) -> Iterator[None]:
        self._setup.cluster.update(self._rate)
        self._last = time.monotonic()
        time.sleep(SETTLING)
        try:
            yield
        finally:
            self._setup.cluster.update(0)
            time.sleep(SETTLING)

    def before(self, subject: Subject, _: Cycle, /) -> None:
        now = time.monotonic()
        due = int((now - self._last) * self._rate)
        if not due:
            return
        self._last += due / self._rate
        workload = self._setup.workload
        assert isinstance(workload, Synthetic)
        subject.update(node_list(workload.update(self._updated + at) for at in range(due)))
        self._updated += due


class Replay(_Turn):
    """Nodes change as they did while the traffic was recorded."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def before(self, subject: Subject, cycle: Cycle, /) -> None:
        """Tells the changes since the cycle before."""
        if cycle.changes:
            nodes = node_list(cycle.changes.values())
            subject.update(nodes)
            for cluster in self._setup.clusters:
                cluster.put(nodes)


def _turns(spec: CaseSpec, setup: Setup) -> Sequence[_Turn]:
    if isinstance(setup.workload, Recorded):
        return (Replay(setup),)
    return (_Quiet(), _Churn(setup, spec.updates)) if spec.updates else (_Turn(),)


def _swaps(spec: CaseSpec, means: Means, setup: Setup, recorder: Recorder, meter: Meter) -> Iterator[int]:
    """Our extender while its module is swapped. Nothing else can swap one."""
    for name in means.variants:
        if name != "kwx":
            recorder.case.left_out[name] = "only our extender swaps modules while it serves"
    if "kwx" not in means.variants:
        return
    swapper = Swapper(means.guest.file, setup.folder)
    setup.guest = means.guest._replace(file=swapper.file)
    with _ready(setup, ["kwx"], recorder.case, has_peers=False) as started:
        cycles = map(setup.workload.cycle, count())
        for at in range(recorder.case.done, recorder.case.rounds):
            recorder.take("kwx", play(started["kwx"], _for(SWAPPING, cycles)), QUIET)
            begun = time.monotonic()
            with swapper.swapping() as marks:
                found = play(started["kwx"], _for(SWAPPING, cycles))
            recorder.take("kwx", found)
            _extend(recorder.case, found, begun, marks)
            meter.step(spec.title)
            yield at


def _for(seconds: float, cycles: Iterator[Cycle]) -> Iterator[Cycle]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield next(cycles)


def _extend(case: Case, found: Round, begun: float, marks: Sequence[float]) -> None:
    """Adds the samples of a turn to the timeline: one turn follows the other."""
    if not case.timelines:
        case.timelines.append(Timeline(variant="kwx", metric="cycle", unit="us", seconds=[], values=[], marks=[]))
    timeline = case.timelines[0]
    offset = max(timeline.seconds, default=0.0) - begun
    timeline.seconds.extend(round(at + offset, 4) for at in found.at)
    timeline.values.extend(found.samples["cycle"])
    timeline.marks.extend(round(at + offset, 4) for at in marks)


def _cold(spec: CaseSpec, means: Means, setup: Setup, recorder: Recorder, meter: Meter) -> Iterator[int]:
    """Starts, without and with compiled code in the cache."""
    for at in range(recorder.case.done, recorder.case.rounds):
        for name in _rotated(means.variants, at):
            if name in recorder.case.left_out:
                continue
            with TemporaryDirectory(prefix="kwx-bench-") as cache:
                for metric in ("first", "first cached"):
                    _start(name, metric, setup, Path(cache), recorder)
        meter.step(spec.title)
        yield at


def _start(name: str, metric: str, setup: Setup, cache: Path, recorder: Recorder) -> None:
    with TemporaryDirectory(prefix="kwx-bench-") as folder:
        anew = setup.again(Path(folder), cache)
        with starting(anew, [name]) as (started, left_out):
            recorder.case.left_out.update(left_out)
            for each in started.values():
                reply = each.subject.ask(setup.workload.cycle(0))
                seconds = each.seconds + reply.filter.seconds + (reply.prioritize.seconds if reply.prioritize else 0.0)
                recorder.take_one(name, metric, seconds * 1e3)


_KINDS: Final[Mapping[str, Callable[[CaseSpec, Means, Setup, Recorder, Meter], Iterator[int]]]] = {
    "rounds": _in_rounds,
    "swaps": _swaps,
    "cold": _cold,
}
