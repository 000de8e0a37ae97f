"""The handlers of filter, prioritize and preempt: who judges a request, and how it is answered."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from extender.scheduling import filter as filter_verb
from extender.scheduling import preempt, prioritize
from extender.scheduling.decisions import Attempt, Failure, Preempted
from extender.scheduling.evictions import RoomAwaitedError
from extender.scheduling.filter import FILTER, Verdict
from extender.scheduling.ledger import GROUP_PLAN_S, PLAN_S
from extender.scheduling.live_profiles import DEFAULT_PROFILE
from extender.scheduling.planning import plan
from extender.scheduling.preempt import PREEMPT
from extender.scheduling.prioritize import PRIORITIZE
from extender.scheduling.profile import Profile
from extender.scheduling.requests import Candidates, PodRequest, Preemption
from extender.scheduling.sample import Sample
from extender.webhook import encoding
from extender.webhook.failures import log_failure
from extender.webhook.judging_handler import Asked, JudgingHandler
from extender.webhook.overload import OverloadedError
from wasm_runtime.nodes.node_table import Nodes


class FilterHandler(JudgingHandler[Candidates]):
    """Answers filter with the nodes that pass. A failure is told by `Error`."""

    verb = FILTER

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
        evictions = self._context.evictions
        left: Mapping[str, int] = {}
        if evictions and pod.uid in evictions.answers:
            left = evictions.left(pod.uid, asked.request.nominated_node, nodes.names)
        verdict = plan(self._context.ledger, profile, pod, nodes, partial(self._ask_plugins, asked), seconds)
        if left and not verdict.kept.names:
            raise RoomAwaitedError(pod.name, left)
        return verdict

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
        return verdict._replace(kept=best.nodes, totals=best.totals)

    def encode(self, asked: Asked[Candidates], nodes: Nodes, result: Verdict) -> bytes:
        """The answer. From then on bind accepts the nodes that pass."""
        (self._results.success if result.kept.names else self._results.unschedulable).inc()
        if not asked.is_simulation:
            context, pod, profile = self._context, asked.request.pod, asked.profile.name
            is_served = bool(asked.route) or profile in (asked.request.scheduler_name, DEFAULT_PROFILE)
            context.feasible.add(pod, asked.route, result.kept, is_served=is_served)
            attempt = Attempt(pod.name, pod.uid, asked.route, profile, time.time(), len(nodes.node_table))
            attempt.asked, attempt.kept = nodes.without_names(), result.kept.without_names()
            attempt.filtered, attempt.totals = result.filtered, result.totals
            context.decisions.begin(attempt)
        return encoding.encode_filtered(asked.subject, result.kept.names, result.failed, result.unresolvable)

    def fail(self, asked: Asked[Candidates], failure: Failure) -> None:
        """Notes an attempt that went no further than this."""
        pod = asked.request.pod
        attempt = Attempt(pod.name, pod.uid, asked.route, asked.profile.name, failure.time, failure=failure)
        self._context.decisions.begin(attempt)

    def refuse(self, asked: Asked[Candidates], error: Exception) -> bytes:
        """The answer of a request that the plugins have not judged, which says why."""
        log_failure("filter", asked.request.pod.name, error)
        return encoding.encode_filter_error(str(error))

    def refuse_late(self, error: OverloadedError) -> bytes:
        """The answer of a request that waited too long: its `Error` says so."""
        return encoding.encode_filter_error(str(error))


class PrioritizeHandler(JudgingHandler[Candidates]):
    """Answers prioritize with a score for each node, with none after a failure."""

    verb = PRIORITIZE
    nothing = encoding.encode_priorities((), ())

    def begin(self, asked: Asked[Candidates]) -> None:
        """Takes note of the request, without its whole nodes."""
        sample = Sample("prioritize", asked.request.pod, asked.subject.names)
        self._context.samples.record(asked.profile.name, sample)

    def run(self, asked: Asked[Candidates], nodes: Nodes) -> Sequence[int]:
        """PreScore, Score and NormalizeScore, unless filter has just done so."""
        profile, pod = asked.profile, asked.request.pod
        if profile.top_nodes:
            scores = self._context.pins.scores(asked.key, nodes.names)
            if scores is not None:
                return scores
        totals = prioritize.run(profile, pod, nodes)
        if not asked.is_simulation:
            self._context.decisions.amend(pod.name, pod.uid, asked.route, profile.name, totals=totals)
        return totals.means()

    def encode(self, asked: Asked[Candidates], nodes: Nodes, result: Sequence[int]) -> bytes:
        """The scores that are not 0, which kube-scheduler takes for granted."""
        self._results.success.inc()
        return encoding.encode_priorities(nodes.names, result, zeros=asked.profile.zero_scores)


class PreemptHandler(JudgingHandler[Preemption]):
    """Answers preempt with the candidates that stay, with none after a failure."""

    verb = PREEMPT
    nothing = encoding.encode_victims({})

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
        (self._results.success if result else self._results.unschedulable).inc()
        pod = asked.request.pod
        preempted = Preempted(time.time(), asked.subject.names, result)
        self._context.decisions.amend(pod.name, pod.uid, asked.route, asked.profile.name, preempted=preempted)
        victims = {name: asked.subject.victims[name] for name in result}
        if self._context.evictions:
            uids = {name: [pod.UID for pod in each.Pods or ()] for name, each in victims.items()}
            self._context.evictions.remember(pod.uid, uids)
        return encoding.encode_victims(victims)
