"""One round of one variant: its scheduler is started, places the pods of a load, and is ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

from bench.controlplane.gobuild import log_tail
from bench.plugin.variants import Spent
from bench.run import PERCENTILES, Unit
from bench.scheduler.api import PODS, Api, telling
from bench.scheduler.arrivals import Arrivals
from bench.scheduler.bindings import Bindings
from bench.scheduler.errors import MeasureError, TooLateError
from bench.scheduler.load import Node, Pod
from bench.scheduler.plan import Load, Shape
from bench.scheduler.scrape import SCHEDULED, Attempts, Span
from bench.scheduler.usage import Usage
from bench.scheduler.variants import MAY_BATCH, Setup, Started, starting

LOOK_EVERY: Final = 0.1
"""Seconds between two observations of the bound pods and of memory."""
WARM_UP_LIMIT: Final = 120.0
"""Seconds within which the warm-up's pods must be bound."""
WINDOW: Final = 15.0
"""Seconds of a batch that are measured at most: whole nodes of a large cluster keep a scheduler busy for minutes."""
FEWEST: Final = 20
"""Pods that must be bound in these seconds."""
LATEST: Final = 15.0
"""Seconds after the last one has come within which all pods must be bound, if they come steadily."""
TOLD: Final[Mapping[Shape, Sequence[Span]]] = {"batch": ("algorithm",), "steady": ("algorithm", "attempt")}
"""The spans that are read of the scheduler's metrics. In a batch, attempts wait for the bindings of other pods."""
STANDING: Final = ("kube-apiserver", "etcd")
"""Processes that outlive a round and work in it."""
HARNESS: Final = "harness"
"""The name of this process in the figures."""


class Figures(NamedTuple):
    """The samples of one metric in a round."""

    unit: Unit
    samples: list[float]
    parts: Mapping[str, float] = {}
    """The mean of each part (`bench.run.PARTS`)."""


class Ground(NamedTuple):
    """The control plane and the nodes on which rounds are played."""

    setup: Setup
    api: Api
    nodes: Mapping[str, Node]
    """The nodes by name."""


class _Moment(NamedTuple):
    """The counters of all processes at a moment."""

    bound: int
    cpu: Mapping[str, float]
    """CPU seconds by process."""
    metrics: str
    """The text of the scheduler's metrics."""
    spent: Spent
    """Seconds that the extender has spent, by verb and part."""


def play(variant: str, load: Load, pods: Sequence[Pod], ground: Ground) -> dict[str, Figures]:
    """Measures a round; the figures by metric.

    Before it begins the pods of the round before are deleted; nothing of other variants runs. Raises MeasureError if
    the figures would be worth nothing: pods that were not bound, or not as the policy wants them; ControlPlaneError if
    something died or did not start; BuildError.
    """
    with telling(ground.setup.control_plane.check):
        return _play(variant, load, pods, ground)


def _play(variant: str, load: Load, pods: Sequence[Pod], ground: Ground) -> dict[str, Figures]:
    api, control_plane = ground.api, ground.setup.control_plane
    api.clear()
    if load.shape == "batch":
        api.create(PODS, [pod.body for pod in pods])
    api.hold_election()
    with ExitStack() as stack:
        bindings = stack.enter_context(Bindings(api, api.version()))
        started = stack.enter_context(starting(variant, ground.setup, MAY_BATCH if load.alike else ()))
        standing = {each.name: each for each in control_plane.processes if each.name in STANDING}
        processes = started.processes | standing
        usage = Usage({name: each.pid for name, each in processes.items()} | {HARNESS: os.getpid()})
        watcher = _Watcher(bindings, started, usage, [*(each.check for each in processes.values()), bindings.check])
        begin, end, due = _follow(watcher, load, pods, api)
    attempts = Attempts.read(end.metrics)
    check_attempts(attempts)
    counted = attempts - Attempts.read(begin.metrics)
    if not variant.startswith("stock"):
        check_placed(pods, bindings.nodes, ground.nodes)
    return {
        **pace(load, list(bindings.bound.items())[: end.bound], due),
        **attempted(counted, load.shape),
        **_extender(begin, end),
        **({"batched": Figures("%", [100 * counted.batched / (end.bound - begin.bound)])} if load.alike else {}),
        **{f"cpu {name}": Figures("ms", [ms]) for name, ms in _cpu(begin, end).items()},
        # The others outlive a round: the rounds of other variants are in their memory.
        **{f"memory {name}": Figures("MB", [usage.peaks()[name] / 1e6]) for name in started.processes},
    }


def _follow(
    watcher: _Watcher, load: Load, pods: Sequence[Pod], api: Api
) -> tuple[_Moment, _Moment, Mapping[str, float]]:
    """Lets the scheduler begin; the moments between which everything counts but the pace of the pods.

    Of a batch that is all: when the first pods are bound, the scheduler is through with many more. Of steady pods
    after the warm-up there is also when each was due.
    """
    if load.shape == "batch":
        begin = watcher.moment()
        api.end_election()
        watcher.wait(load.warm_up, WARM_UP_LIMIT)
        watcher.wait(load.pods, WINDOW, fewest=min(load.pods, load.warm_up + FEWEST))
        return begin, watcher.moment(), {}
    api.end_election()
    moments = []
    for come, pods_now in ((load.warm_up, pods[: load.warm_up]), (load.pods, pods[load.warm_up :])):
        with Arrivals(api, pods_now, load.rate) as arrivals:
            watcher.wait(come, len(pods_now) / load.rate + LATEST, arrivals.check)
        moments.append(watcher.moment())
    arrivals.check_pace()
    return moments[0], moments[1], arrivals.due


class _Watcher:
    """Follows the progress of a scheduler."""

    def __init__(
        self, bindings: Bindings, started: Started, usage: Usage, checks: Sequence[Callable[[], None]]
    ) -> None:
        """`checks` raise where there is no use in waiting any longer."""
        self._bindings = bindings
        self._started = started
        self._usage = usage
        self._checks = checks

    def moment(self) -> _Moment:
        """The counters of all processes now. Raises ServerError, or what a check raises if a process has died."""
        self._usage.look()
        bound, cpu = len(self._bindings.bound), self._usage.cpu()
        with telling(self._check):
            return _Moment(bound, cpu, self._started.metrics(), self._started.spent())

    def _check(self, *further: Callable[[], None]) -> None:
        for check in (*self._checks, *further):
            check()

    def wait(self, pods: int, limit: float, *checks: Callable[[], None], fewest: int = 0) -> None:
        """Waits at most some seconds until as many pods are bound, or the fewest that are enough by then.

        Raises TooLateError, or what a check raises.
        """
        deadline = time.monotonic() + limit
        while (bound := len(self._bindings.bound)) < pods and time.monotonic() < deadline:
            self._check(*checks)
            self._usage.look()
            time.sleep(LOOK_EVERY)
        if bound < (fewest or pods):
            raise TooLateError(f"{bound} of {fewest or pods} pods were bound within {limit:g} s\n{self._logs()}")

    def _logs(self) -> str:
        return "\n".join(
            f"the end of {name}'s log:\n{log_tail(each.log)}" for name, each in self._started.processes.items()
        )


def check_attempts(attempts: Attempts) -> None:
    """Raises MeasureError if a pod was tried in vain: all have room."""
    vain = {result: count for result, count in attempts.results.items() if count and result != SCHEDULED}
    if vain:
        told = ", ".join(f"{count} {result}" for result, count in sorted(vain.items()))
        raise MeasureError(f"the scheduler tried pods in vain, although all have room: {told}")


def check_placed(pods: Sequence[Pod], placed: Mapping[str, str], nodes: Mapping[str, Node]) -> None:
    """Raises MeasureError if a pod is on a node that the policy forbids, or would not prefer while others have room."""
    for pod in pods:
        node = nodes.get(placed.get(pod.name, ""))
        if node and pod.zone not in {"", node.zone}:
            raise MeasureError(
                f"pod {pod.name} was put into zone {node.zone}, it wishes {pod.zone}: filter has no effect"
            )
        if node and pod.instance_type not in {"", node.instance_type}:
            raise MeasureError(
                f"pod {pod.name} was put on {node.instance_type}, it wishes {pod.instance_type}: scores have no effect"
            )


def pace(load: Load, bound: Sequence[tuple[str, float]], due: Mapping[str, float]) -> dict[str, Figures]:
    """How quick the scheduler was, of the pods after the warm-up.

    `bound` are pods with the times of their bindings, in that order, and `due` the times at which steady pods were to
    come. Bindings that the watch tells together have one time: those told with the last one of the warm-up do not
    count, and those told with the very last one do.
    scheduler_perf counts the pods of each second, leaves the first one out, and takes the mean of the others; here each
    binding has a time, so the second that is cut short by the end does no harm.
    https://github.com/kubernetes/kubernetes/blob/v1.36.3/test/integration/scheduler_perf/util.go (throughputCollector)
    """
    if load.shape == "batch":
        times = [seconds for _, seconds in bound]
        begin, end = times[load.warm_up - 1], times[-1]
        return {"throughput": Figures("1/s", [sum(seconds > begin for seconds in times) / (end - begin)])}
    return {"pod": Figures("ms", [(seconds - due[name]) * 1e3 for name, seconds in bound if name in due])}


def attempted(attempts: Attempts, shape: Shape) -> dict[str, Figures]:
    """Means and percentiles of the scheduler's own histograms."""
    seconds: dict[str, float] = {}
    for span in TOLD[shape]:
        seconds[span] = attempts.mean(span)
        seconds |= {f"{span} {name}": attempts.quantile(span, q) for name, q in PERCENTILES.items()}
    return {metric: Figures("ms", [each * 1e3]) for metric, each in seconds.items()}


def _cpu(begin: _Moment, end: _Moment) -> dict[str, float]:
    """CPU milliseconds per pod, by process."""
    pods = end.bound - begin.bound
    return {name: (seconds - begin.cpu[name]) / pods * 1e3 for name, seconds in end.cpu.items()}


def _extender(begin: _Moment, end: _Moment) -> dict[str, Figures]:
    """Milliseconds that the extender spent on a pod, filter and prioritize together; nothing without one."""
    parts: dict[str, float] = {}
    for (verb, part), seconds in end.spent.items():
        spent = (seconds - begin.spent.get((verb, part), 0.0)) / (end.bound - begin.bound) * 1e3
        parts[part] = parts.get(part, 0.0) + spent
    return {"extender": Figures("ms", [sum(parts.values())], parts)} if parts else {}
