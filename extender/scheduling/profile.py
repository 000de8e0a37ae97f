"""A profile: an ordered set of plugins with their weights and failure policies."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, Final, ParamSpec, TypeVar

from extender.config import FailurePolicy
from extender.scheduling.inline_policy import InlinePolicy
from wasm_runtime.errors import Fault, GuestError
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


MENDS: Final = {
    Fault.NO_NODE_DATA: (
        "set cluster.mode to kubeconfig or in-cluster, so that nodes are read from the API server,"
        " or nodeCacheCapable: false in the KubeSchedulerConfiguration, so that requests carry them;"
        " with such a cluster.mode the nodes have not been listed yet, see /readyz?verbose"
    ),
    Fault.DEADLINE: "mend the guest, or raise the plugin's timeout",
    Fault.MEMORY: "mend the guest, or raise the plugin's memoryLimit",
    Fault.TABLES: "mend the guest, or raise the plugin's tableLimit",
    Fault.STACK: "mend the guest, or raise runtime.stackLimit",
}
"""What the author or the operator can do about a fault."""

SHORT_DIGEST: Final = len("sha256:") + 12
"""Characters of a digest that tell one revision of a plugin from the others."""


class PluginFailedError(Exception):
    """A plugin failed and its policy is Fail. `str()` names plugin, revision, export, cause and mend."""

    def __init__(self, plugin: Plugin, error: GuestError) -> None:
        super().__init__(f"plugin {plugin.name} ({plugin.digest[:SHORT_DIGEST]}): {error}{mend(error)}")
        self.fields = {
            "plugin": plugin.name,
            "digest": plugin.digest,
            "export": error.export,
            "fault": error.reason,
        }
        """For the log."""


def mend(error: GuestError) -> str:
    """What to do about a guest's failure, to be put behind its message."""
    return f"; {MENDS[error.fault]}" if error.fault in MENDS else ""


class PluginOutcomes:
    """What became of a plugin's calls, whatever its revision was. An update that two threads lose does no harm."""

    __slots__ = ("failed_at", "failures", "last_failure", "rejected_nodes")

    def __init__(self) -> None:
        self.failures: dict[Fault, int] = dict.fromkeys(Fault, 0)
        """Calls without an answer, by the reason."""
        self.last_failure = ""
        self.failed_at = 0.0
        """When the last failure was, on the clock of `time.monotonic`."""
        self.rejected_nodes = 0
        """Nodes that filter has rejected, counted for each pod."""

    def fail(self, fault: Fault, message: str) -> None:
        """Counts a failure."""
        self.failures[fault] += 1
        self.last_failure, self.failed_at = message, time.monotonic()

    @property
    def total_failures(self) -> int:
        """Calls without an answer."""
        return sum(self.failures.values())


class CpuTime:
    """CPU time of a plugin's calls for a verb. An update that two threads lose does no harm."""

    __slots__ = ("calls", "seconds")

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0


class CallStats:
    """Counts a plugin's calls, their failures and their CPU time. An update that two threads lose does no harm."""

    def __init__(self) -> None:
        self.cpu_time: defaultdict[str, CpuTime] = defaultdict(CpuTime)
        """By the verb. The time of other plugins of the profile is not included."""
        self.calls = 0
        self.failures = 0
        """Those that were the guest's fault."""
        self.last = ""
        """What the last failure was."""


_NOT_THE_GUESTS: Final = {Fault.BUSY, Fault.NO_NODE_DATA}
"""Faults that another revision would have as well."""


@dataclass(frozen=True, slots=True, eq=False)
class ProfilePlugin:
    """A plugin as part of a profile, and how its calls went there. Each revision of a plugin has one of its own."""

    plugin: Plugin
    weight: int = 1
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    inline_policies: defaultdict[str, InlinePolicy] = field(default_factory=lambda: defaultdict(InlinePolicy))
    """By the verb, that of the whole profile: a plugin may be quick in one and slow in another."""
    stats: CallStats = field(default_factory=CallStats)
    outcomes: PluginOutcomes = field(default_factory=PluginOutcomes)
    """Of all revisions of the plugin."""

    def attempt(
        self,
        verb: str,
        action: Callable[Concatenate[Plugin, Pod, P], T],
        pod: Pod,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T | None:
        """Does something for a pod with the plugin, as part of a verb. None if it failed and that is to be ignored.

        Raises PluginFailedError if it failed and that is not to be ignored.
        """
        self.stats.calls += 1
        begun = time.thread_time()
        try:
            return action(self.plugin, pod, *args, **kwargs)
        except GuestError as error:
            if self.failure_policy is FailurePolicy.FAIL:
                raise self._failure(error) from error
            failure = self._failure(error)
            logger.warning("left out of a verb: %s", failure, extra={"pod": pod.name, **failure.fields})
            return None
        finally:
            cpu_time = self.stats.cpu_time[verb]
            cpu_time.calls += 1
            cpu_time.seconds += time.thread_time() - begun

    def _failure(self, error: GuestError) -> PluginFailedError:
        failure = PluginFailedError(self.plugin, error)
        self.outcomes.fail(error.fault, str(failure))
        if error.fault not in _NOT_THE_GUESTS:
            self.stats.failures += 1
            self.stats.last = str(failure)
        return failure


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """The plugins for pods of one scheduler name. It never changes: a pod's cycle ends with what it began with."""

    name: str
    plugins: Sequence[ProfilePlugin]
    score_range: int = 10
    """The largest score that prioritize answers: 10, as kube-scheduler expects, or 100."""
    zero_scores: bool = False
    """Whether prioritize names the nodes with a score of 0, which it need not."""
    top_nodes: int | None = None
    """How many nodes filter answers at most, the best by the plugins' scores; None for all that pass."""
    simulator_results: bool = False
    """Whether bind gives pods the annotations of kube-scheduler-simulator."""
    problem: str = ""
    """Why it can judge no pod: a plugin with failurePolicy Fail is not there. Empty if it can."""
    wants_nodes: bool = field(init=False)
    """Whether any plugin may ask for the objects of nodes."""
    wants_pods: bool = field(init=False)
    """Whether any plugin keeps the pods that are on nodes, or wait for one."""
    wants_groups: bool = field(init=False)
    """Whether any plugin keeps groups of pods."""
    has_binding_points: bool = field(init=False)
    """Whether any plugin has a part in the binding cycle."""
    names_plugins: bool = field(init=False)
    """Whether several plugins filter, so that a reason has to say whose it is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "wants_nodes", any(each.plugin.wants_nodes for each in self.plugins))
        object.__setattr__(self, "wants_pods", any(each.plugin.wants_pods for each in self.plugins))
        object.__setattr__(self, "wants_groups", any(each.plugin.wants_groups for each in self.plugins))
        object.__setattr__(self, "has_binding_points", any(each.plugin.has_binding_points for each in self.plugins))
        filtering = [each for each in self.plugins if each.plugin.runs("prefilter") or each.plugin.runs("filter")]
        object.__setattr__(self, "names_plugins", len(filtering) > 1)

    def reserve(self, verb: str, pod: Pod) -> bool:
        """Holds a guest of each plugin for this thread, if all are quick enough for the loop that serves all verbs.

        False, and nothing is held, if one is not or its guest would have to be waited for. Until `release` no call of
        this thread waits for a guest.
        """
        for each in self.plugins:
            if not each.inline_policies[verb].may_run_inline:
                return False
        for each in self.plugins:
            if not each.plugin.reserve(pod):
                self.release()
                return False
        return True

    def release(self) -> None:
        """Gives back what this thread has reserved."""
        for each in self.plugins:
            each.plugin.release()

    def end_cycle(self, pod: Pod) -> None:
        """Lets the next call for the pod begin a new cycle, in each plugin."""
        for each in self.plugins:
            each.plugin.end_cycle(pod)

    def note(self, verb: str, seconds: float) -> None:
        """Counts a verb that has taken the plugins so many seconds of the processor."""
        for each in self.plugins:
            each.inline_policies[verb].note(seconds)

    def runs(self, export: str) -> bool:
        """Whether any plugin serves an export."""
        return any(each.plugin.runs(export) for each in self.plugins)
