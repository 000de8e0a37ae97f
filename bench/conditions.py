"""The machine, its condition between rounds, and whether it was quiet enough for the measurements."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import psutil

from bench.run import Case, Condition, Machine, Run, Series
from bench.statistics import ratio

CGROUPS: Final = Path("/sys/fs/cgroup")
CPUINFO: Final = Path("/proc/cpuinfo")
COMMAND_TIMEOUT_S: Final = 10.0

WORK: Final = bytes(1 << 16)
WORK_TIMES: Final = 32
"""How often the yardstick's work, hashing 2 MiB in some 2 ms, is repeated."""
LOOKS_AT_YARDSTICK: Final = 5

MAIN: Final = ("cycle", "throughput", "pod", "gang")
"""Metrics whose figures tell how noisy a run was: those that people look at first."""
FEWEST_FOR_DRIFT: Final = 6
"""Rounds from which the halves of a run are compared."""


def machine() -> Machine:
    """This machine: its cores are those that this process may use."""
    return Machine(
        cpu=_cpu(),
        cores=_cores(),
        memory=psutil.virtual_memory().total,
        system=f"{platform.system()} {'.'.join(platform.release().split('.')[:2])} {platform.machine()}",
    )


def _cpu() -> str:
    """The processor's model; its architecture where that is all there is to know, as on Linux on ARM."""
    model = ""
    if platform.system() == "Darwin":
        command = ("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string")
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S)
        model = told.stdout
    elif CPUINFO.exists():
        lines = (line.partition(":") for line in CPUINFO.read_text().splitlines())
        model = next((value for key, _, value in lines if key.strip() == "model name"), "")
    return model.strip() or platform.machine()


def _cores() -> int:
    """The number of cores that this process may use, by its affinity and by the quota of its control groups."""
    process = psutil.Process()
    allowed = len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else psutil.cpu_count() or 1
    return max(1, min(allowed, math.floor(min(quota(CGROUPS, Path("/proc/self/cgroup")), allowed))))


def taken_from(cores: int, host: int, others: float) -> float:
    """Cores that other programs take from the harness: what they use beyond the cores that it may not use."""
    return max(0.0, others - (host - cores))


def quota(root: Path, membership: Path) -> float:
    """Cores that the control groups of a process let it use; infinite without a limit, or where cgroup v2 is not used.

    `cpu.max` of its group and of each one above: https://docs.kernel.org/admin-guide/cgroup-v2.html
    """
    lines = membership.read_text().splitlines() if membership.exists() else []
    group = next((Path(line.removeprefix("0::/")) for line in lines if line.startswith("0::/")), Path())
    limits = [math.inf]
    for each in (group, *group.parents):
        with suppress(OSError, ValueError):
            most, period = (root / each / "cpu.max").read_text().split()
            limits.append(int(most) / int(period))
    return min(limits)


class _Spent(NamedTuple):
    """CPU seconds of the machine until some moment."""

    at: float
    steal: float
    """Seconds that a hypervisor gave to other machines."""
    all: float
    """Seconds of all cores, idle or not."""
    busy: float
    """Seconds that processes took, without the kernel's for interrupts, which the harness's own packets cause."""
    own: float
    """Seconds that the harness and its descendants took."""


class Watch:
    """Observes between rounds what else the machine did meanwhile. A look takes some 15 ms."""

    def __init__(self, begun: datetime | None = None) -> None:
        """Watches from now on a run that began at `begun`, by default now."""
        self._begun = begun or datetime.now(timezone.utc)
        self._cores = _cores(), psutil.cpu_count() or 1
        self._last = self._spent()

    def look(self, case: str, round: int) -> Condition:  # noqa: A002 - as it is called in the document
        """The condition of the machine since the last look."""
        last, now = self._last, self._spent()
        yardstick = _yardstick()
        # What the yardstick took is neither a round's nor anybody else's.
        self._last = self._spent()
        others = _part((now.busy - last.busy) - (now.own - last.own), now.at - last.at)
        return Condition(
            seconds=(datetime.now(timezone.utc) - self._begun).total_seconds(),
            case=case,
            round=round,
            load=os.getloadavg()[0],
            yardstick=yardstick,
            steal=_part(now.steal - last.steal, now.all - last.all),
            others=taken_from(*self._cores, others),
        )

    def _spent(self) -> _Spent:
        times = psutil.cpu_times()
        counted = {name: getattr(times, name) for name in times._fields if not name.startswith("guest")}
        busy = sum(counted[name] for name in ("user", "nice", "system") if name in counted)
        process = psutil.Process()
        own = sum(map(_taken, (process, *process.children(recursive=True))))
        return _Spent(time.monotonic(), counted.get("steal", 0.0), sum(counted.values()), busy, own)


def _taken(process: psutil.Process) -> float:
    """CPU seconds of a process and of its children that have ended; macOS does not report the latter."""
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def _part(amount: float, whole: float) -> float:
    """`amount` as a part of `whole`, at least 0: differences of clocks with 100 ticks a second may be negative."""
    return max(0.0, amount / whole) if whole > 0 else 0.0


def _yardstick() -> float:
    """Microseconds of a fixed piece of work, in the median of WORK_TIMES repetitions."""
    return statistics.median(_work() for _ in range(LOOKS_AT_YARDSTICK)) * 1e6


def _work() -> float:
    started = time.perf_counter()
    digest = hashlib.blake2b()
    for _ in range(WORK_TIMES):
        digest.update(WORK)
    digest.digest()
    return time.perf_counter() - started


Verdict = Literal["quiet", "noisy", "too noisy"]


class Noise(NamedTuple):
    """Whether a run was quiet enough."""

    verdict: Verdict
    reasons: list[str]
    """Sentences that name cause and mend; none if it was quiet."""


class Sign(NamedTuple):
    """A value that is observed many times, and shows noise where it is above a limit."""

    values: Callable[[Run], Sequence[float]]
    limit: float
    reason: str
    """A format of the sentence that says so, with `over` of `all` values above the limit, and the `worst`."""


SIGNS: Final = (
    Sign(
        # A tenth of the machine: with two cores, client and server no longer have one each.
        lambda run: [each.others / run.machine.cores for each in run.conditions],
        0.1,
        "{over} of {all} checks between rounds found other programs using up to {worst:.0%} of the harness's cores: "
        "stop them, or run again",
    ),
    Sign(
        lambda run: [each.steal for each in run.conditions],
        0.02,
        "{over} of {all} checks between rounds found that the hypervisor gave "
        "up to {worst:.0%} of the time of all cores to others: "
        "run again when its host is quiet, or on a machine that has its cores to itself",
    ),
    Sign(
        lambda run: _above_median([each.yardstick for each in run.conditions]),
        0.1,
        "{over} of {all} checks between rounds found a fixed piece of work to take up to {worst:.0%} "
        "longer than usual: "
        "fix the processor's frequency, stop other programs, or run again",
    ),
    Sign(
        lambda run: [_width(*pair) for case in run.cases for pair in _pairs(run, case)],
        0.1,
        "{over} of {all} ratios of medians are known to no more than ±10%, the worst to ±{worst:.0%}: "
        "run again with more rounds, or on a quieter machine",
    ),
    Sign(
        lambda run: [_drift(series) for case in run.cases for series in case.series if series.metric in MAIN],
        0.1,
        "{over} of {all} series changed by more than 10% from the first to the second half of their rounds, "
        "the worst by {worst:.0%}: let the machine become as warm as it gets, and run again",
    ),
)
"""The signs of noise. Below 10% of noise most differences that people ask about can still be told apart."""

NOISY: Final = 0.05
TOO_NOISY: Final = 1 / 3
"""The part above the limit from which a run is so: a median hardly moves if one round in twenty is disturbed, and is
lost if half of them are."""


def noise(run: Run) -> Noise:
    """Whether the machine was quiet during a run, by what it was like and by what was measured."""
    verdict: Verdict = "quiet"
    reasons = []
    for sign in SIGNS:
        values = [value for value in sign.values(run) if not math.isnan(value)]
        over = [value for value in values if value > sign.limit]
        if not over or len(over) < NOISY * len(values):
            continue
        reasons.append(sign.reason.format(over=len(over), all=len(values), worst=max(over)))
        verdict = "too noisy" if len(over) >= TOO_NOISY * len(values) or verdict == "too noisy" else "noisy"
    return Noise(verdict, reasons)


def _above_median(values: Sequence[float]) -> list[float]:
    usual = statistics.median(values) if values else math.nan
    return [value / usual - 1 for value in values]


def _pairs(run: Run, case: Case) -> Iterator[tuple[Series, Series]]:
    """Each main series beside the first of its metric, and of those that this project does not run if there are any."""
    for metric in MAIN:
        series = [each for each in case.series if each.metric == metric]
        base = min(series, key=lambda each: run.variant(each.variant).ours, default=None)
        yield from ((each, base) for each in series if base and each is not base)


def _width(series: Series, base: Series) -> float:
    """By which part the upper bound of the ratio of both exceeds the ratio; nan with too few rounds."""
    found = ratio(series, base)
    return found.high / found.value - 1


def _drift(series: Series) -> float:
    """The part by which the medians of both halves of the rounds differ; nan with too few rounds."""
    middles = [float(np.median(samples)) for samples in series.rounds if samples]
    if len(middles) < FEWEST_FOR_DRIFT:
        return math.nan
    half = len(middles) // 2
    first, second = sorted(map(statistics.median, (middles[:half], middles[-half:])))
    return second / first - 1 if first else math.nan
