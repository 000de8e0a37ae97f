"""A storm: all that can happen to an extender at once, in rounds, each of which ends in a calm in which all is well."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from typing import Any, Final, NamedTuple, TextIO

from bench.controlplane.ports import free_port
from bench.controlplane.process import isolated_environment, leashed
from bench.servers import running
from tests.extender import kwx
from tests.extender.kwx import plugin, profile
from tests.patience import Beside, ending, wait_until
from tests.storm.apiserver import StandIn, api_server
from tests.storm.clients import MODULES, Asker, Client, Health, Operator, Place, Rude, Scheduler
from tests.storm.faults import KINDS, LIMITS

NODES: Final = [f"node-{at}" for at in range(40)]
LIMITED: Final[dict[str, Any]] = {"timeout": "200ms", "memoryLimit": "16Mi"}
GOOD: Final = (
    profile("swapped", plugin("versions", weight=1)),
    profile("steady", plugin("filter_by_digit", "72ends in 7"), plugin("score_by_digit")),
    profile("binding", plugin("binding_from_config", "aaaaafa0"), plugin("keep_nodes")),
)
"""Profiles whose pods are all scheduled when nothing is wrong."""
BAD: Final = (
    profile("trapping", plugin("trap", **LIMITED)),
    profile("spinning", plugin("spin", **LIMITED), plugin("score_by_digit", name="scores")),
    profile("growing", plugin("grow_memory", **LIMITED)),
    profile("ignored", plugin("print_and_trap", failurePolicy="Ignore", **LIMITED)),
)
ENDS: Final = {
    "trapping": "trap: unreachable",
    "spinning": "interrupted at its timeout",
    "growing": "interrupted at its timeout",
    "ignored": "",
}
"""How a pod of a bad profile fails when nothing else is wrong, which shows that broken guests were replaced."""
FAULTS: Final = (*KINDS, *LIMITS)
SURVIVABLE: Final = tuple(kind for kind in FAULTS if kind != "little address space")
"""Faults that no library answers by ending the process: code in Rust aborts where an allocation fails."""
WELL_IN_A_ROW: Final = 20
"""Pods of each good profile that must be scheduled one after the other for all to be well."""
OURS: Final = "a request failed for a fault of our own"
RECORDS: Final = Path(gettempdir(), "kwx-storm")
"""The folder that keeps the record of a failed storm: the faults, and all that the extender logged."""
START_TIMEOUT_S: Final = 150.0
"""Seconds until the extender serves; nothing is compiled yet."""
STOP_TIMEOUT_S: Final = 30.0


class Size(NamedTuple):
    """Resources that a process uses."""

    resident: int
    """Resident memory in MiB."""
    descriptors: int
    threads: int


class Told(NamedTuple):
    """The report of a storm."""

    wrong: Sequence[str]
    """Sentences on what must never happen and has."""
    sizes: Sequence[Size]
    """The resources of the extender in the calm after each round."""
    health_s: dict[str, float]
    """Seconds of the slowest /livez, and of the slowest answer of an idle server on the same machine."""
    filter_s: dict[str, float]
    """Seconds of the slowest filter, by good profile."""
    failures: dict[str, int]
    """Pods that were not scheduled in the storm, by profile."""
    acts: dict[str, int]

    def __str__(self) -> str:
        sizes = "\n".join(
            f"  {each.resident} MiB, {each.descriptors} descriptors, {each.threads} threads" for each in self.sizes
        )
        slowest = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in (self.health_s | self.filter_s).items())
        acts = ", ".join(f"{number} of {name}" for name, number in self.acts.items())
        wrong = "\n".join(self.wrong) or "nothing"
        return (
            f"wrong: {wrong}\nacts: {acts}\nnot scheduled: {self.failures}\nslowest: {slowest}\nin each calm:\n{sizes}"
        )


class Storm:
    """An extender, its cluster, and all who ask it."""

    def __init__(
        self, folder: Path, seed: int, kinds: Sequence[str], cluster: StandIn, idle: int, record: TextIO
    ) -> None:
        self._kinds = kinds
        self._record = record
        self._random = random.Random(f"{seed} storm")
        self._cluster = cluster
        self._lines: list[str] = []
        (folder / "versions.wasm").write_bytes(MODULES[0])
        sections = {
            "cluster": {"mode": "kubeconfig", "kubeconfig": "kubeconfig"},
            "server": {"stateDirectory": "state"},
        }
        self.config = kwx.write(folder, kwx.configuration(*GOOD, *BAD, **sections))
        command: list[str | Path] = [sys.executable, "-m", "tests.storm.served", self.config, folder]
        paths = {"PYTHONPATH": str(Path(__file__).parents[2]), "XDG_CACHE_HOME": str(folder / "cache")}
        self._process = subprocess.Popen(
            leashed(command),
            cwd=folder,
            env=isolated_environment(folder) | paths,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._logging = Beside(self._keep_log)
        self._clients: list[Client] = []
        self._faults: list[str] = []
        """The faults that are to come: each once, then all again."""
        self._idle = idle
        self._seed = seed

    def __enter__(self) -> Storm:
        return self

    def begin(self) -> None:
        """Waits until the extender serves, and has everybody ask."""
        serving = wait_until(self._serving, self.log, START_TIMEOUT_S)[0]
        self.place = Place(*(int(serving[name].rpartition(":")[2]) for name in ("verbs", "admin")))
        self._schedulers = [
            Scheduler(self.place, self._seed, each["name"], NODES, self._cluster) for each in (*GOOD, *BAD)
        ]
        self._operator = Operator(self.place, self._seed, self.config)
        self._health = Health(self.place, self._seed, self._idle)
        rude = [Rude(self.place, f"{self._seed} {at}") for at in range(2)]
        self._clients += [*self._schedulers, self._operator, self._health, *rude]

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        has_ended = self._process.poll() is not None
        if kind:
            self._process.send_signal(signal.SIGUSR1)
        for client in self._clients:
            client.close()
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.terminate()
        try:
            self.status = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGUSR1)  # Where it hangs is the end of its log.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
            self._process.kill()
            self.status = self._process.wait(STOP_TIMEOUT_S)
        self._logging.end()
        self._record.write(f"the extender has {ending(self.status)}\n")
        if has_ended:
            raise AssertionError(f"the extender has {ending(self.status)}:\n{self.log()}") from error

    def blow(self, seconds: float) -> None:
        """One round of all at once."""
        self._reconnect()
        over = Event()
        beside = [Beside(partial(client.run, over)) for client in self._clients]
        self._cluster.misbehaves = True
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._process.poll() is None:
            self._befall()
            over.wait(self._random.uniform(0.1, 1.0))
        self._cluster.misbehaves = False
        over.set()
        for each in beside:
            each.end()
        self._check()

    def _befall(self) -> None:
        if not self._faults:
            self._faults = self._random.sample(self._kinds, len(self._kinds))
        kind = self._faults.pop()
        order = {"kind": kind, "seconds": self._random.uniform(0.1, 1.0), "share": self._random.choice([0.1, 0.5, 1.0])}
        self._record.write(f"{datetime.now(timezone.utc).isoformat()} {order}\n")
        assert self._process.stdin
        with suppress(BrokenPipeError):  # It has ended, which is told after the round.
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def calm(self) -> Size:
        """Waits until all is well again, and returns what the process then uses."""
        self._operator.settle()
        asker = Asker(self.place.admin)
        wait_until(lambda: asker.ask("GET", "/readyz").status == 200, lambda: asker.ask("GET", "/readyz?verbose"))
        asker.close()
        self._reconnect()
        self._wait_until_swapped()
        for scheduler in self._schedulers[: len(GOOD)]:
            self._wait_until_scheduled(scheduler)
        for scheduler in self._schedulers[len(GOOD) :]:
            self._wait_until_judged(scheduler)
        folder = Path("/proc", str(self.process))
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        descriptors = len(list((folder / "fd").iterdir()))
        return Size(int(status["VmRSS"].split()[0]) >> 10, descriptors, int(status["Threads"]))

    def _wait_until_swapped(self) -> None:
        problems = [""]

        def is_swapped() -> bool:
            problems.append(self._operator.swap())
            return not problems[-1]

        wait_until(is_swapped, lambda: problems[-1])

    def _reconnect(self) -> None:
        """Has those at the admin address come anew: it leaves who says nothing for as long as a calm may take."""
        for client in (self._operator, self._health):
            client.close()

    def _wait_until_scheduled(self, scheduler: Scheduler) -> None:
        problems: list[str] = []

        def all_go() -> bool:
            problems[:] = [problem for _ in range(WELL_IN_A_ROW) if (problem := scheduler.cycle())]
            return not problems

        wait_until(all_go, lambda: f"profile {scheduler.profile}: {problems}; {self.events(OURS)[-1:]}")

    def _wait_until_judged(self, scheduler: Scheduler) -> None:
        """Waits until the guest of a bad profile itself judges a pod."""
        end, told = ENDS[scheduler.profile], [""]

        def is_own() -> bool:
            told.append(scheduler.cycle())
            return bool(told[-1]) == bool(end) and end in told[-1]

        wait_until(is_own, lambda: f"profile {scheduler.profile}: {told[-1]}")

    @property
    def process(self) -> int:
        """The process that serves; what was started becomes it."""
        return self._process.pid

    def log(self) -> str:
        """The end of the extender's log."""
        return "".join([line for line in self._lines if '"extender.scheduling.guest_log"' not in line][-300:])

    def events(self, event: str) -> list[dict[str, Any]]:
        """The lines of the extender's log with one message."""
        return [json.loads(line) for line in self._lines[:] if line.startswith("{") and f'"event": "{event}"' in line]

    def _keep_log(self) -> None:
        assert self._process.stdout
        with self._process.stdout:
            for line in self._process.stdout:
                self._lines.append(line.decode(errors="replace"))
                self._record.write(self._lines[-1])

    def _serving(self) -> list[dict[str, Any]]:
        self._check()
        return self.events("serving")

    def _check(self) -> None:
        assert self._process.poll() is None, "the extender has ended"  # How is told when it is left.

    def told(self, sizes: Sequence[Size]) -> Told:
        """The report of the storm."""
        return Told(
            [wrong for client in self._clients for wrong in client.wrong],
            sizes,
            self._health.slowest_s,
            {each.profile: each.slowest_s for each in self._schedulers[: len(GOOD)]},
            {each.profile: sum(each.failures.values()) for each in self._schedulers},
            dict(Counter(type(each).__name__ for each in self._clients for _ in range(each.acts))),
        )


@contextmanager
def storm(folder: Path, seed: int, kinds: Sequence[str], record: TextIO) -> Iterator[Storm]:
    """An extender that is ready for it. `kinds` are the faults that befall it."""
    idle = free_port()
    with ExitStack() as stack:
        cluster = stack.enter_context(api_server(NODES, seed, folder))
        stack.enter_context(running([sys.executable, "-m", "tests.storm.idle", str(idle)], idle))
        blowing = stack.enter_context(Storm(folder, seed, kinds, cluster, idle, record))
        blowing.begin()
        yield blowing


@contextmanager
def recorded(seed: int) -> Iterator[TextIO]:
    """Where a storm is recorded line by line. If it is not weathered, why is the end of that, and it stays."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    file = RECORDS / f"{seed}.log"
    with file.open("w", encoding="utf-8", buffering=1) as record:
        try:
            yield record
        except BaseException:
            traceback.print_exc(file=record)
            print(f"all that is known of the storm: {file}")
            raise
    file.unlink()
