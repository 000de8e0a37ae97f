"""Plays a case with a plugin: what the guests answer, step by step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from extender.commands.call.options import configure
from extender.commands.journal import event_keys, log_line
from extender.commands.test.cases import Case, Change, Step
from extender.commands.test.objects import PodObject
from extender.config import RuntimeConfig
from extender.rollouts.plugin_factory import LoadError, PluginFactory
from extender.scheduling import filter as filter_verb
from extender.scheduling import preempt, prioritize
from extender.scheduling.bind import BindingCycle
from extender.scheduling.binding_guests import Binding, RejectedError
from extender.scheduling.groups import Groups
from extender.scheduling.ledger import Ledger
from extender.scheduling.planning import OvertakenError
from extender.scheduling.profile import PluginFailedError, Profile, ProfilePlugin
from extender.scheduling.waiting_pods import Wait, WaitingPods
from extender.telemetry.printable import printable
from wasm_runtime.blob import Blob
from wasm_runtime.engine import GuestEvent, GuestJournal, Log
from wasm_runtime.errors import GuestError
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable

VERB_TIMEOUT: Final = "30s"
"""Time of one verb; long, since a busy machine is no reason for a case to fail."""

COMPILE_TIMEOUT: Final = "10m"
"""Time for compiling the module; long for the same reason."""

BIND_S: Final = 3600.0
"""Seconds of a bind: a case has no clock, so a pod that waits on Permit does so until a step ends that."""

PASSES: Final = "passes"
"""The verdict on a node that passes and has no score."""

Answer = dict[str, Any]
"""The answers of a step by the keys of ANSWERS, and `verdicts` for people."""


class CaseError(Exception):
    """A case cannot be played. `str()` says why."""


class Played(NamedTuple):
    """The result of a case."""

    answers: Sequence[Answer]
    """An answer for each step; fewer if the module does not start."""
    seconds: float


class Stage:
    """Plays cases with a module on an engine, each with guests of its own."""

    def __init__(self, module: Path, wasm: bytes, engine: str) -> None:
        """`wasm` is the module's content, `engine` a name of ENGINES. Raises CacheError or EngineError."""
        self._module = module
        self._wasm = Blob(wasm)
        self._engine = engine
        self._records: list[Log | GuestEvent] = []
        self._waiting = WaitingPods()
        self._factory = PluginFactory(
            RuntimeConfig.model_validate({"compileTimeout": COMPILE_TIMEOUT}), self._take, handle=self
        )

    def compile(self) -> None:
        """Compiles the module unless the cache has it, so that `play` is quick. Raises LoadError if it is no module."""
        try:
            self._factory.make(self._wasm, str(self._module), configure(self._module, {"engine": self._engine})).close()
        except LoadError as error:
            if not isinstance(error.__cause__, GuestError):  # A guest may need a configuration: the cases tell.
                raise

    def play(self, case: Case) -> Played:
        """Plays a case. Raises CaseError and OptionError."""
        begun = time.perf_counter()
        self._waiting = WaitingPods()
        self._records = []
        given = {
            "engine": self._engine,
            "timeout": VERB_TIMEOUT,
            "instances": 1,  # Which guest is asked is no matter of chance.
            "guestConfig": case.settings.guest_config,
            "args": case.settings.args,
        }
        try:
            plugin = self._factory.make(self._wasm, str(self._module), configure(self._module, given))
        except LoadError as error:
            return Played([{"error": "\n".join(error.problems)}], time.perf_counter() - begun)
        try:
            cluster = _Cluster(case, plugin, self._waiting)
            answers = [{**cluster.play(step), **self._told()} for step in case.steps]
        finally:
            plugin.close()
        return Played(answers, time.perf_counter() - begun)

    def waiting_pod(self, uid: str, /) -> bytes | None:
        """The pod that waits in the case at hand."""
        return self._waiting.waiting_pod(uid)

    def reject_waiting_pod(self, uid: str, /) -> bool:
        """Ends a pod's wait in the case at hand."""
        return self._waiting.reject_waiting_pod(uid)

    def _take(self, _plugin: str, _pod: Pod | None, journal: GuestJournal) -> None:
        self._records += journal.records

    def _told(self) -> Answer:
        """The Events and log lines of guests since the last step."""
        records, self._records = self._records, []
        return {
            "events": [event_keys(each) for each in records if isinstance(each, GuestEvent)],
            "logs": [printable(log_line(each)) for each in records if isinstance(each, Log)],
        }


class _Cluster:
    """The cluster of a case, in which its steps are played."""

    def __init__(self, case: Case, plugin: Plugin, waiting: WaitingPods) -> None:
        self._profile = Profile("test", [ProfilePlugin(plugin)])
        self._plugin = plugin
        self._table = NodeTable()
        self._groups = Groups(self._table.pods)
        self._groups.follow()
        self._ledger = Ledger(self._groups, lambda: 0.0)
        self._ledger.is_followed = True
        self._waiting = waiting
        self._waits: list[tuple[PodObject, BindingCycle, Wait, ExitStack]] = []
        self._nodes: dict[str, None] = {}
        """The names of the nodes, in the order in which they were put."""
        self._pods: dict[str, PodObject] = {}
        """The pods by name."""
        self._put(Change(case.nodes, case.pods, case.groups))
        self._table.pods.complete()

    def play(self, step: Step) -> Answer:
        """Plays a step, and returns its answers."""
        self._put(step.put)
        self._remove(step.remove)
        answer: Answer = {}
        if step.pod:
            try:
                for key, value in self._judge(step, step.pod):
                    answer[key] = value
            except PluginFailedError as error:
                answer["error"] = self._short(error)
        return {**answer, "waited": self._settle()}

    def _judge(self, step: Step, pod: PodObject) -> Iterable[tuple[str, Any]]:
        self._pods[pod.name] = pod
        self._ledger.observe(pod.uid, "", pod.object)
        asked = Pod(pod.uid, f"{pod.namespace}/{pod.name}", pod.object)
        found = verdicts(self._profile, asked, Nodes(self._table, list(self._nodes)))
        yield "expect", found
        if step.victims is not None:
            yield "preempt", self._preempt(asked, step.victims)
        if step.bind:
            if step.bind not in found:
                raise CaseError(f"bind: there is no node {step.bind}")
            if found[step.bind] == PASSES or isinstance(found[step.bind], int):
                yield "bind", self._bind(pod, asked, step.bind)
            else:
                yield "bind", {"node": step.bind, "error": "the pod cannot be bound to a node that does not pass"}

    def _preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> Answer:
        for name in victims:
            if name not in self._nodes:
                raise CaseError(f"preempt: victims: there is no node {name}")
        nodes = Nodes(self._table, list(victims))
        stays = preempt.run(self._profile, pod, nodes, lambda node: [self._pod(name).object for name in victims[node]])
        return {"victims": victims, "stays": list(stays)}

    def _bind(self, pod: PodObject, asked: Pod, node: str) -> Answer:
        """The binding cycle, with the ledger as the server has it."""
        given: dict[str, str] = {}
        binding = Binding(asked, Nodes(self._table, [node]), time.monotonic() + BIND_S)
        cycle = BindingCycle(self._profile, binding, self._ledger, given.update)
        self._ledger.plan(pod.uid, node, pod.object, self._ledger.position)
        self._ledger.claim(pod.uid, node, BIND_S)
        changes = self._waiting.changes
        answer: Answer = {"node": node}
        try:
            waits = cycle.begin()
        except (PluginFailedError, RejectedError, OvertakenError) as error:
            self._ledger.release(pod.uid, node)
            return {**answer, "error": self._short(error)}
        if waits:
            stack = ExitStack()
            wait = Wait(cycle, waits, changes)
            stack.enter_context(self._waiting.waiting(wait))
            self._waits.append((pod, cycle, wait, stack))
            return {**answer, "waits": True}
        self._ledger.confirm(pod.uid, node)
        return {**answer, **({"annotations": given} if given else {})}

    def _settle(self) -> Answer:
        """Asks plugins again about pods that wait on Permit, and continues the binding cycles whose wait is over."""
        waited: Answer = {}
        while True:
            self._waiting.change()
            self._waiting.ask_again()
            over = [each for each in self._waits if each[2].is_over]
            if not over:
                return waited
            for each in over:
                self._waits.remove(each)
                waited[each[0].name] = self._go_on(*each)

    def _go_on(self, pod: PodObject, cycle: BindingCycle, wait: Wait, stack: ExitStack) -> Any:
        try:
            with stack:
                asyncio.run(wait.end())
        except (PluginFailedError, RejectedError) as error:
            cycle.give_up()
            self._ledger.release(pod.uid, wait.node)
            return {"error": self._short(error)}
        try:
            cycle.go_on()
        except (PluginFailedError, RejectedError) as error:
            self._ledger.release(pod.uid, wait.node)
            return {"error": self._short(error)}
        self._ledger.confirm(pod.uid, wait.node)
        return wait.node

    def _put(self, change: Change) -> None:
        self._table.put([(node.name, node.object) for node in change.nodes])
        self._nodes.update(dict.fromkeys(node.name for node in change.nodes))
        for key, found in change.groups:
            self._groups.put_object(key, found)
        for pod in change.pods:
            self._pods[pod.name] = pod
            if not pod.is_finished:
                self._ledger.observe(pod.uid, pod.node, pod.object)

    def _remove(self, change: Change) -> None:
        for name in change.nodes:
            if name not in self._nodes:
                raise CaseError(f"remove: there is no node {name}")
            del self._nodes[name]
            self._table.remove(name)
        for name in change.pods:
            pod = self._pod(name)
            del self._pods[name]
            self._waiting.delete(pod.uid)
            self._ledger.delete(pod.uid)

    def _pod(self, name: str) -> PodObject:
        if name not in self._pods:
            raise CaseError(f"there is no pod {name}")
        return self._pods[name]

    def _short(self, error: Exception) -> str:
        """The message of an error without the names of plugin and revision, which no case has."""
        message = str(error)
        return message.partition(": ")[2] if message.startswith(f"plugin {self._plugin.name}") else message


def verdicts(profile: Profile, pod: Pod, nodes: Nodes) -> Answer:
    """What a profile of one plugin says of each node in filter and prioritize, as `expect` has it.

    Raises PluginFailedError.
    """
    (plugin,) = profile.plugins
    verdict = filter_verb.run(profile, pod, nodes)
    kept, scores = verdict.kept, None
    if kept.names and plugin.plugin.runs("score"):
        scored = plugin.attempt("prioritize", prioritize.score, pod, kept)
        scores = scored and scored.scores
    found = {
        **dict(zip(kept.names, [PASSES] * len(kept) if scores is None else scores, strict=True)),
        **verdict.failed,
        **{name: {"unresolvable": reason} for name, reason in verdict.unresolvable.items()},
    }
    return {name: found[name] for name in nodes.names}
