"""What is seen of a machine, and which runs are called noisy."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil
import pytest

from bench.conditions import Noise, Watch, machine, noise, quota, taken_from
from bench.run import Case, Condition, Machine, Run, Series, Variant
from tests.patience import PATIENCE_S, wait_until

SPIN = "while True: pass"


def test_the_machine() -> None:
    found = machine()
    assert found.cpu
    assert "\n" not in found.cpu
    assert 1 <= found.cores <= (psutil.cpu_count() or 1)
    assert found.memory == psutil.virtual_memory().total
    assert found.system.split()[0] == os.uname().sysname
    assert found.system.split()[2] == os.uname().machine


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity: run the tests on Linux")
def test_cores_are_those_that_the_process_may_use() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert machine().cores == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("membership", "limits", "expected"),
    [
        pytest.param("0::/\n", {"": "150000 100000\n"}, 1.5, id="a container's own"),
        pytest.param("0::/a/b\n", {"": "max 100000\n", "a": "200000 100000\n", "a/b": "max 100000\n"}, 2, id="above"),
        pytest.param("0::/a/b\n", {"a": "200000 100000\n", "a/b": "50000 100000\n"}, 0.5, id="below"),
        pytest.param("0::/a\n", {"b": "50000 100000\n"}, math.inf, id="of others"),
        pytest.param("0::/a\n", {"a": "nonsense\n"}, math.inf, id="nonsense"),
        pytest.param("4:cpu:/a\n", {"a": "50000 100000\n"}, math.inf, id="cgroup v1"),
        pytest.param(None, {}, math.inf, id="no cgroups"),
    ],
)
def test_quota(tmp_path: Path, membership: str | None, limits: dict[str, str], expected: float) -> None:
    file = tmp_path / "membership"
    if membership is not None:
        file.write_text(membership)
    for group, text in limits.items():
        (tmp_path / "groups" / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / group / "cpu.max").write_text(text)
    assert quota(tmp_path / "groups", file) == expected


@pytest.mark.parametrize(
    ("cores", "host", "others", "expected"),
    [
        pytest.param(2, 2, 0.5, 0.5, id="the whole host"),
        pytest.param(2, 64, 20.0, 0.0, id="a busy host"),
        pytest.param(2, 64, 63.5, 1.5, id="a full host"),
        pytest.param(2, 2, -0.05, 0.0, id="clocks that differ"),
    ],
)
def test_others_use_cores_that_the_harness_may_not_use_first(
    cores: int, host: int, others: float, expected: float
) -> None:
    assert taken_from(cores, host, others) == expected


@contextmanager
def spinning(seconds: float = 0.6) -> Iterator[None]:
    """A process that is nobody's child, and has had a core for some time."""
    shell = f'"{sys.executable}" -c "{SPIN}" >/dev/null 2>&1 & echo $!'
    started = subprocess.run(("sh", "-c", shell), capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    process = psutil.Process(int(started.stdout))
    try:
        wait_for(process, seconds)
        yield
    finally:
        process.kill()


def wait_for(process: psutil.Process, seconds: float) -> float:
    """Returns what a process took, once that is so many seconds."""
    wait_until(lambda: sum(process.cpu_times()[:2]) >= seconds, f"{process} gets no core")
    return float(sum(process.cpu_times()[:2]))


def taken() -> float:
    """Seconds that all processes took so far."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


@pytest.fixture
def all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness may use every core."""
    monkeypatch.setattr("bench.conditions._cores", lambda: psutil.cpu_count() or 1)


@pytest.mark.usefixtures("all_cores")
def test_what_other_programs_take_is_told() -> None:
    watch = Watch()
    with spinning():
        found = watch.look("100", 3)
    assert (found.case, found.round) == ("100", 3)
    assert found.others > 0.1


@pytest.mark.usefixtures("all_cores")
@pytest.mark.parametrize("has_ended", [False, True], ids=["alive", "ended"])
def test_what_the_harness_starts_is_no_other(has_ended: bool) -> None:
    """Of what all processes took, its children's part is left out."""
    busy, begun, watch = taken(), time.monotonic(), Watch()
    child = subprocess.Popen((sys.executable, "-c", SPIN))
    try:
        spun = wait_for(psutil.Process(child.pid), 0.6)
        if has_ended:
            child.kill()
            child.wait(PATIENCE_S)
        found = watch.look("100", 0)
        assert found.others * (time.monotonic() - begun) < taken() - busy - spun / 2
    finally:
        child.kill()
        child.wait(PATIENCE_S)


def test_a_look() -> None:
    begun = datetime.now(timezone.utc) - timedelta(hours=1)
    found = Watch(begun).look("100", 0)
    assert 3600 <= found.seconds < 3700
    assert found.yardstick > 0
    assert found.load >= 0
    assert 0 <= found.steal <= 1


def condition(at: int, others: float = 0.0, steal: float = 0.0, yardstick: float = 2000.0) -> Condition:
    return Condition(seconds=float(at), case="100", round=at, load=1.0, yardstick=yardstick, steal=steal, others=others)


def series(variant: str, rounds: Sequence[float], metric: str = "cycle") -> Series:
    return Series(variant=variant, metric=metric, unit="us", better="lower", rounds=[[each] for each in rounds])


def run(conditions: Sequence[Condition] = (), measured: Sequence[Series] = ()) -> Run:
    variants = [
        Variant(name="kwx", title="kwx", kind="extender", wasm=True, ours=True),
        Variant(name="native", title="native", kind="in-process", wasm=False, ours=False),
    ]
    return Run(
        level="plugin",
        command="kwx bench plugin",
        preset="quick",
        begun="2026-01-01T00:00:00Z",
        machine=Machine(cpu="cpu", cores=2, memory=1, system="Linux 6.1 x86_64"),
        versions={},
        variants=variants,
        cases=[Case(name="100", title="100", nodes=100, rounds=10, series=list(measured))],
        conditions=list(conditions),
    )


STEADY = [100.0, 101.0, 99.0] * 4
ALTERNATING = [100.0, 200.0] * 6
RISING = [100.0 + 10 * at for at in range(10)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(run(), Noise("quiet", []), id="nothing"),
        pytest.param(
            run([condition(at, others=0.19, steal=0.02) for at in range(20)], [series("native", STEADY)]),
            Noise("quiet", []),
            id="quiet",
        ),
        pytest.param(
            run([condition(at, others=0.8 * (at == 3)) for at in range(40)]), Noise("quiet", []), id="one of 40 looks"
        ),
        pytest.param(
            run([condition(at, others=0.8 * (at < 2)) for at in range(40)]),
            Noise(
                "noisy",
                [
                    "2 of 40 checks between rounds found other programs using up to 40% of the harness's cores: "
                    "stop them, or run again"
                ],
            ),
            id="others",
        ),
        pytest.param(
            run([condition(at, others=1.5) for at in range(3)]),
            Noise(
                "too noisy",
                [
                    "3 of 3 checks between rounds found other programs using up to 75% of the harness's cores: "
                    "stop them, or run again"
                ],
            ),
            id="others all the time",
        ),
        pytest.param(
            run([condition(at, steal=0.1 * (at < 2)) for at in range(10)]),
            Noise(
                "noisy",
                [
                    "2 of 10 checks between rounds found that the hypervisor gave up to 10% of the time of all cores "
                    "to others: "
                    "run again when its host is quiet, or on a machine that has its cores to itself"
                ],
            ),
            id="steal",
        ),
        pytest.param(
            run([condition(at, yardstick=2600.0 if at == 4 else 2000.0) for at in range(10)]),
            Noise(
                "noisy",
                [
                    "1 of 10 checks between rounds found a fixed piece of work to take up to 30% longer than usual: "
                    "fix the processor's frequency, stop other programs, or run again"
                ],
            ),
            id="yardstick",
        ),
        pytest.param(
            run(measured=[series("kwx", ALTERNATING), series("native", STEADY)]),
            Noise(
                "too noisy",
                [
                    "1 of 1 ratios of medians are known to no more than ±10%, the worst to ±99%: "
                    "run again with more rounds, or on a quieter machine"
                ],
            ),
            id="wide",
        ),
        pytest.param(
            run(measured=[series("kwx", ALTERNATING), series("native", ALTERNATING)]), Noise("quiet", []), id="by pairs"
        ),
        pytest.param(
            run(measured=[series("kwx", ALTERNATING[:4]), series("native", STEADY[:4])]), Noise("quiet", []), id="few"
        ),
        pytest.param(
            run(measured=[series("kwx", RISING), series("native", RISING)]),
            Noise(
                "too noisy",
                [
                    "2 of 2 series changed by more than 10% from the first to the second half of their rounds, "
                    "the worst by 42%: let the machine become as warm as it gets, and run again"
                ],
            ),
            id="drift",
        ),
        pytest.param(
            run(measured=[series("kwx", ALTERNATING, "memory"), series("native", STEADY, "memory")]),
            Noise("quiet", []),
            id="other metrics",
        ),
    ],
)
def test_noise(found: Run, expected: Noise) -> None:
    assert noise(found) == expected
