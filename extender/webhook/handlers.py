"""One handler a verb: how its request is decoded, who judges it, and how it is answered, also after a failure."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from extender.cluster import Recorder, failed_scheduling_event
from extender.scheduling import filter as filter_verb
from extender.scheduling import preempt, prioritize
from extender.scheduling.cycle_pins import CyclePins, Key
from extender.scheduling.evictions import Evictions, RoomAwaitedError
from extender.scheduling.feasible_nodes import FeasibleNodes
from extender.scheduling.filter import FILTER, Verdict
from extender.scheduling.ledger import GROUP_PLAN_S, PLAN_S, Ledger
from extender.scheduling.live_profiles import LiveProfiles
from extender.scheduling.node_source import NodeSource
from extender.scheduling.planning import plan
from extender.scheduling.pod_source import PodSource
from extender.scheduling.preempt import PREEMPT
from extender.scheduling.prioritize import PRIORITIZE
from extender.scheduling.profile import Profile
from extender.scheduling.request_samples import RequestSamples, Sample
from extender.scheduling.requests import Candidates, PodRequest, Preemption
from extender.scheduling.top_nodes import TopNodes
from extender.scheduling.verb import JudgingVerb
from extender.telemetry.metrics import Metrics
from extender.webhook import encoding
from extender.webhook.decoding import RequestDecoder
from extender.webhook.failures import REASONS, UNANSWERABLE, log_failure, require_loaded
from extender.webhook.protocol import STAYS, Caller
from extender.webhook.workers import NoThreadError, Workers
from wasm_runtime.nodes.node_table import Nodes


class Context(NamedTuple):
    """What the handlers of a process share."""

    profiles: LiveProfiles
    nodes: NodeSource
    pods: PodSource
    metrics: Metrics
    pins: CyclePins
    samples: RequestSamples
    feasible: FeasibleNodes
    top_nodes: TopNodes
    recorder: Recorder | None = None
    """Gets an Event for each failure that a verb's answer has no words for."""
    ledger: Ledger | None = None
    """None without a cluster."""
    evictions: Evictions | None = None
    """None without a cluster."""


S = TypeVar("S", Candidates, Preemption)


@dataclass(slots=True)
class Asked(Generic[S]):
    """A request, and who judges it."""

    request: PodRequest
    subject: S
    """The nodes that it is about."""
    route: str
    """The name of the profile in its path, if it has one."""
    profile: Profile
    is_simulation: bool = False
    """Whether it is about nodes that the cluster does not have: what would be is to be answered, and nothing begins."""

    def simulated(self) -> Asked[S]:
        """The same as a simulation. Its pod is another one for guests: the pod's own cycle may be under way."""
        pod = self.request.pod
        another = pod._replace(uid=f"{pod.uid} (simulated)")
        return replace(self, request=self.request._replace(pod=another), is_simulation=True)

    @property
    def key(self) -> Key:
        """Of the pod's cycle."""
        return self.request.pod.uid, self.route


class JudgingHandler(ABC, Generic[S]):
    """Answers a verb whose plugins judge nodes: on the loop if they are quick, else in a thread.

    On the loop a call is cheapest; in a thread a slow one holds up nobody else.
    """

    verb: ClassVar[JudgingVerb]
    nothing: ClassVar[bytes] = b""
    """The answer that admits or prefers no node, where the answer has no words for a failure."""

    def __init__(self, context: Context, decoder: RequestDecoder, workers: Workers) -> None:
        self._context = context
        self._decoder = decoder
        self._workers = workers
        self._phases = context.metrics.phases(self.verb.name)

    @abstractmethod
    def decode(self, body: bytes) -> tuple[PodRequest, S]:
        """The pod and the nodes of a request. Raises RequestError."""

    def profile_of(self, request: PodRequest, named: Profile | None, route: str, /) -> Profile:
        """Who judges: the profile that the pod's cycle began with, else the one that is live."""
        live = named or self._context.profiles.of_scheduler(request.scheduler_name)
        return self._context.pins.pinned_or(request.pod.uid, live, route)

    @abstractmethod
    def begin(self, asked: Asked[S]) -> None:
        """Takes note of a request that is about to be judged, unless it is a simulation."""

    @abstractmethod
    def run(self, asked: Asked[S], nodes: Nodes) -> Any:
        """What the plugins say. Raises one of `UNANSWERABLE`."""

    @abstractmethod
    def encode(self, asked: Asked[S], nodes: Nodes, result: Any, /) -> bytes:
        """The answer."""

    def refuse(self, asked: Asked[S], error: Exception) -> bytes:
        """The answer of a request that the plugins have not judged. The log and an Event say why."""
        pod = asked.request.pod
        log_failure(self.verb.name, pod.name, error)
        if self._context.recorder and not asked.is_simulation:
            self._context.recorder.record(failed_scheduling_event(pod.object, REASONS[type(error)], str(error)))
        return self.nothing

    def answer(self, body: bytes, named: Profile | None, _: Caller = STAYS) -> bytes | Awaitable[bytes]:
        """The answer, or what becomes it; `named` is the profile of the path. Raises RequestError."""
        phases, begun = self._phases, time.perf_counter()
        request, subject = self.decode(body)
        route = named.name if named else ""
        profile = self.profile_of(request, named, route)
        asked = Asked(request, subject, route, profile)
        decoded = time.perf_counter()
        phases.decode.count(decoded - begun)
        try:
            require_loaded(profile)
            if profile.wants_pods:
                self._context.pods.require_synced(groups=profile.wants_groups)
            nodes = self._context.nodes.find(subject, profile.wants_nodes)
        except UNANSWERABLE as error:
            return self.refuse(asked, error)
        if nodes.carried:
            asked = asked.simulated()
        else:
            self.begin(asked)
            if profile.wants_nodes and self._context.nodes.late.has_any(nodes.names):
                return self._answer_later(asked, nodes, decoded)
        phases.nodes.count(time.perf_counter() - decoded)
        if not asked.is_simulation and profile.reserve(self.verb.name, request.pod):
            try:
                return self._judge(asked, nodes)
            finally:
                profile.release()
        return self._judge_in_thread(asked, nodes)

    async def _answer_later(self, asked: Asked[S], nodes: Nodes, decoded: float) -> bytes:
        """The answer once nodes have come that the watch has yet to bring, or are not waited for any more."""
        await self._context.nodes.late.wait(nodes.names)
        self._phases.nodes.count(time.perf_counter() - decoded)
        answer = self._judge_in_thread(asked, nodes)
        return answer if isinstance(answer, bytes) else await answer

    def _judge_in_thread(self, asked: Asked[S], nodes: Nodes) -> bytes | Awaitable[bytes]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._workers, self._judge, asked, nodes)
        except NoThreadError as error:
            return self.refuse(asked, error)

    def _judge(self, asked: Asked[S], nodes: Nodes) -> bytes:
        phases = self._phases
        begun, spent = time.perf_counter(), time.thread_time()
        try:
            result = self.run(asked, nodes)
        except UNANSWERABLE as error:
            return self.refuse(asked, error)
        finally:
            if asked.is_simulation:
                asked.profile.end_cycle(asked.request.pod)
            else:
                asked.profile.note(self.verb.name, time.thread_time() - spent)
            judged = time.perf_counter()
            phases.judge.count(judged - begun)
        answer = self.encode(asked, nodes, result)
        phases.encode.count(time.perf_counter() - judged)
        return answer


class FilterHandler(JudgingHandler[Candidates]):
    """Answers filter with the nodes that pass. A failure is told by `Error`."""

    verb = FILTER

    def decode(self, body: bytes) -> tuple[PodRequest, Candidates]:
        """The pod, and nodes by name or whole."""
        return self._decoder.decode_args(body)

    def profile_of(self, request: PodRequest, named: Profile | None, _: str) -> Profile:
        """What is live: a cycle of the pod is about to begin."""
        return named or self._context.profiles.of_scheduler(request.scheduler_name)

    def begin(self, asked: Asked[Candidates]) -> None:
        """Begins the pod's cycle. Who records gets the request whole."""
        context, request, profile = self._context, asked.request, asked.profile
        follows = context.ledger is not None and context.ledger.is_followed
        if follows or profile.has_binding_points or context.profiles.has_binding_points:  # A switch may come between.
            context.pods.remember(request)
        context.pins.pin(request.pod.uid, profile, asked.route)
        context.samples.record(profile.name, Sample("filter", request.pod, asked.subject.names), asked.subject)

    def run(self, asked: Asked[Candidates], nodes: Nodes) -> Verdict:
        """What the plugins say. With `topNodes: 1` it is known where the pod goes: the ledger expects it there.

        A simulation is answered all nodes that pass: who asks wants to know which they are. No pod is expected there.
        """
        profile, pod = asked.profile, asked.request.pod
        if asked.is_simulation:
            return filter_verb.run(profile, pod, nodes)
        expected = GROUP_PLAN_S if asked.request.is_in_group else PLAN_S
        seconds = expected if profile.top_nodes == 1 else None
        left = self._count_victims(asked.request, nodes) if asked.request.nominated_node else 0
        verdict = plan(self._context.ledger, profile, pod, nodes, partial(self._ask_plugins, asked), seconds)
        if left and not verdict.kept.names:
            raise RoomAwaitedError(pod.name, asked.request.nominated_node, left)
        return verdict

    def _count_victims(self, request: PodRequest, nodes: Nodes) -> int:
        """How many evicted pods are yet on the pod's own node, if that is asked about."""
        evictions, node = self._context.evictions, request.nominated_node
        left = evictions.count_left(request.pod.uid, node) if evictions else 0
        return left if left and node in nodes.names else 0

    def _ask_plugins(self, asked: Asked[Candidates], nodes: Nodes) -> Verdict:
        """PreFilter and Filter; with topNodes PreScore, Score and NormalizeScore of the nodes that pass."""
        profile, pod = asked.profile, asked.request.pod
        verdict = filter_verb.run(profile, pod, nodes)
        if profile.top_nodes is None or len(verdict.kept) <= profile.top_nodes:
            return verdict
        self._context.samples.record(profile.name, Sample("prioritize", pod, verdict.kept.names))
        best = self._context.top_nodes.choose(asked.key, profile, pod, verdict.kept, profile.top_nodes)
        if profile.top_nodes > 1:
            self._context.pins.keep_scores(asked.key, profile, best.scores)
        return verdict._replace(kept=best.nodes)

    def encode(self, asked: Asked[Candidates], _: Nodes, result: Verdict) -> bytes:
        """Bind is let to the nodes that pass."""
        if not asked.is_simulation:
            self._context.feasible.add(asked.request.pod.uid, asked.route, result.kept)
        return encoding.encode_filtered(asked.subject, result.kept.names, result.failed, result.unresolvable)

    def refuse(self, asked: Asked[Candidates], error: Exception) -> bytes:
        """The answer of a request that the plugins have not judged, which says why."""
        log_failure("filter", asked.request.pod.name, error)
        return encoding.encode_filter_error(str(error))


class PrioritizeHandler(JudgingHandler[Candidates]):
    """Answers prioritize with a score for each node, with none after a failure."""

    verb = PRIORITIZE
    nothing = encoding.encode_priorities((), ())

    def decode(self, body: bytes) -> tuple[PodRequest, Candidates]:
        """The pod, and nodes by name or whole."""
        return self._decoder.decode_args(body)

    def begin(self, asked: Asked[Candidates]) -> None:
        """Keeps the names alone."""
        sample = Sample("prioritize", asked.request.pod, asked.subject.names)
        self._context.samples.record(asked.profile.name, sample)

    def run(self, asked: Asked[Candidates], nodes: Nodes) -> Sequence[int]:
        """PreScore, Score and NormalizeScore, unless filter has just done so."""
        profile = asked.profile
        if profile.top_nodes:
            scores = self._context.pins.scores(asked.key, nodes.names)
            if scores is not None:
                return scores
        return prioritize.run(profile, asked.request.pod, nodes).means()

    def encode(self, asked: Asked[Candidates], nodes: Nodes, result: Sequence[int]) -> bytes:
        """The scores that are not 0, which kube-scheduler takes for granted."""
        return encoding.encode_priorities(nodes.names, result, zeros=asked.profile.zero_scores)


class PreemptHandler(JudgingHandler[Preemption]):
    """Answers preempt with the candidates that stay, with none after a failure."""

    verb = PREEMPT
    nothing = encoding.encode_victims({})

    def decode(self, body: bytes) -> tuple[PodRequest, Preemption]:
        """The pod, and the candidates with their victims."""
        return self._decoder.decode_preemption(body)

    def begin(self, asked: Asked[Preemption]) -> None:
        """The victims are looked up when somebody judges it again."""
        preemption = asked.subject
        victims = partial(self._context.pods.victims, preemption)
        sample = Sample("preempt", asked.request.pod, preemption.names, victims, preemption.held)
        self._context.samples.record(asked.profile.name, sample)

    def run(self, asked: Asked[Preemption], nodes: Nodes) -> Sequence[str]:
        """PreFilter and Filter without the victims, and PostFilter."""
        victims = partial(self._context.pods.victims, asked.subject)
        return preempt.run(asked.profile, asked.request.pod, nodes, victims)

    def encode(self, asked: Asked[Preemption], _: Nodes, result: Sequence[str]) -> bytes:
        """The candidates that stay, with their victims."""
        victims = {name: asked.subject.victims[name] for name in result}
        if self._context.evictions:
            uids = {name: [pod.UID for pod in each.Pods or ()] for name, each in victims.items()}
            self._context.evictions.remember(asked.request.pod.uid, uids)
        return encoding.encode_victims(victims)
