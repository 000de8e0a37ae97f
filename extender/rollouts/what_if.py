"""What the plugins would say of a pod now: said by guests of their own, so that nobody else notices."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Final, NamedTuple

from extender.config import FailurePolicy
from extender.rollouts.live_plugins import LivePlugins
from extender.rollouts.pipeline import Pipeline
from extender.rollouts.plugin_factory import LoadError
from extender.rollouts.probe import tell_plugins
from extender.rollouts.slot import Slot
from extender.rollouts.swap_command import SwapCommand
from extender.rollouts.swap_plan import understand
from extender.scheduling import filter as filter_verb
from extender.scheduling import prioritize
from extender.scheduling.decisions import Attempt, Failure
from extender.scheduling.judgements import Judgement, judgements
from extender.scheduling.profile import PluginFailedError, Profile, ProfilePlugin
from extender.scheduling.requests import PodRequest
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import Nodes, NodeTable
from wasm_runtime.protobuf.pod import unplaced

MAX_PODS_S: Final = 10.0
"""Seconds that is waited for the first list of the cluster's pods, where no plugin that serves wants them."""


class WhatIfError(Exception):
    """A pod cannot be judged. `str()` says why, and what to do."""


class Supposition(NamedTuple):
    """What is to be judged, and by what."""

    request: PodRequest
    profile: Profile
    """Of those that are live."""
    slot: Slot | None = None
    """The place of a plugin of the profile that is taken by something else; None if what serves is to judge."""
    command: SwapCommand | None = None
    """What takes that place, as for a swap."""
    nodes: Mapping[str, bytes] | None = None
    """Protobuf v1.Node by name, in the place of the nodes that the extender knows; then no pods are on them."""


class Supposed(NamedTuple):
    """What the plugins say."""

    attempt: Attempt
    nodes: Sequence[Judgement]
    """The best first."""
    ignored: Sequence[str]
    """Failures of plugins that have no say then, by their failurePolicy."""


class WhatIf:
    """Lets the plugins of a profile judge pods: filter, and the scores of all nodes that pass.

    The guests are made for one pod and know what those know that serve: the nodes, the pods with what is reserved for
    them, the groups. The pod itself is on no node, as when kube-scheduler asks about it. They judge all nodes;
    kube-scheduler would ask about those that its own filters let through. The ledger, decisions, metrics and guests
    that serve are left alone. May be used from any thread.
    """

    def __init__(self, live: LivePlugins, pipeline: Pipeline) -> None:
        self._live = live
        self._pipeline = pipeline

    def judge(self, supposition: Supposition) -> Supposed:
        """What the plugins say, in a time that their timeouts bound.

        Raises WhatIfError, SwapRefusedError, SourceError.
        """
        table = self._pipeline.current_nodes()
        if supposition.nodes is not None:
            table = NodeTable()
            table.put(supposition.nodes.items())
        names = table.names()
        if not names:
            raise WhatIfError("no node is known here yet, see /readyz?verbose; or give the nodes")
        with ExitStack() as stack:
            profile = self._profile(supposition, table, stack)
            pod = supposition.request.pod
            pod = pod._replace(object=unplaced(pod.object))
            attempt, ignored = _judge(profile, pod, Nodes(_before(table, pod), names))
            return Supposed(attempt, judgements(attempt), ignored)

    def _profile(self, supposition: Supposition, table: NodeTable, stack: ExitStack) -> Profile:
        """The profile as it would be, with trials that `stack` closes. Raises as `judge` does."""
        profile = supposition.profile
        plugins = []
        try:
            for trial in self._trials(supposition, table):
                stack.enter_context(closing(trial.plugin))
                if supposition.nodes is None:
                    self._pipeline.await_pods(trial.plugin, MAX_PODS_S)
                plugins.append(trial)
        except LoadError as error:
            raise WhatIfError(str(error)) from error
        return Profile(profile.name, plugins, profile.score_range)

    def _trials(self, supposition: Supposition, table: NodeTable) -> Iterator[ProfilePlugin]:
        for slot in self._live.slots:
            if slot.profile != supposition.profile.name:
                continue
            if slot is supposition.slot and supposition.command:
                yield self._candidate(slot, supposition.command, table)
            elif slot.live:
                serving = slot.live.profile_plugin
                trial = self._pipeline.clone(slot.live, table)
                yield ProfilePlugin(trial, serving.weight, serving.failure_policy)
            elif slot.config.failure_policy is FailurePolicy.FAIL:
                raise WhatIfError(f"plugin {slot.name} is not there yet: {slot.problem}")

    def _candidate(self, slot: Slot, command: SwapCommand, table: NodeTable) -> ProfilePlugin:
        plan = understand(command, slot, self._pipeline)
        trial = self._pipeline.try_out(plan.config, plan.fetch, plan.verified, table)
        return ProfilePlugin(trial, plan.config.weight, plan.config.failure_policy)


def _before(table: NodeTable, pod: Pod) -> NodeTable:
    """What was known before a pod had a node, or was expected on one."""
    placed = table.pods.get(pod.uid)
    if placed is None or not placed.node:
        return table
    copied = table.copy()
    copied.pods.put([(pod.uid, placed._replace(node="", object=pod.object))])
    return copied


def _judge(profile: Profile, pod: Pod, nodes: Nodes) -> tuple[Attempt, list[str]]:
    """What filter and prioritize come to, or which one has failed and why; and the failures that were ignored."""
    attempt = Attempt(pod.name, pod.uid, "", profile.name, time.time(), len(nodes), nodes.without_names())
    ignored: dict[str, None] = {}
    verb = "filter"
    try:
        tell_plugins(profile, pod, nodes)
        verdict = filter_verb.run(profile, pod, nodes)
        attempt.filtered, attempt.kept = verdict.filtered, verdict.kept.without_names()
        ignored |= _failures(profile)
        verb = "prioritize"
        if verdict.kept.names and profile.runs("score"):
            attempt.totals = prioritize.run(profile, pod, verdict.kept)
        ignored |= _failures(profile)
    except PluginFailedError as error:
        attempt.failure = Failure(time.time(), verb, str(error))
    return attempt, list(ignored)


def _failures(profile: Profile) -> dict[str, None]:
    """The last failure of each plugin that has failed and goes on."""
    return {each.outcomes.last_failure: None for each in profile.plugins if each.outcomes.last_failure}
