"""filter: PreFilter once, Filter on each node, plugin after plugin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import not_
from typing import Final, NamedTuple

from extender.scheduling.profile import Profile
from extender.scheduling.verb import JudgingVerb, Question
from wasm_runtime.abi import Code
from wasm_runtime.engine import NodeResults
from wasm_runtime.guests.guest import CycleStage, Guest, Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes

_UNRESOLVABLE: Final = int(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

_PASSES: Final = bytes(code == Code.SUCCESS for code in range(256))
"""Whether each code lets a pod on a node, for `bytes.translate`, which looks at thousands in two microseconds."""


class Verdict(NamedTuple):
    """What one plugin, or all of a profile, said of the nodes."""

    kept: Nodes
    """Those that pass, in the order of the request."""
    failed: dict[str, str]
    """Why each node that preemption might help does not pass."""
    unresolvable: dict[str, str]
    """Why each node that preemption cannot help does not pass."""


def run(profile: Profile, pod: Pod, nodes: Nodes) -> Verdict:
    """The nodes that every plugin keeps, and why each other one was rejected by the first to do so.

    Always begins a new cycle of the pod. Raises PluginFailedError.
    """
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for profile_plugin in profile.plugins:
        if not nodes.names:
            profile_plugin.plugin.end_cycle(pod)
            continue
        verdict = profile_plugin.attempt("filter", judge, pod, nodes, "filter")
        if verdict is None:
            continue
        nodes = verdict.kept
        failed = _joined(failed, verdict.failed)
        unresolvable = _joined(unresolvable, verdict.unresolvable)
    return Verdict(nodes, failed, unresolvable)


def judge(
    plugin: Plugin,
    pod: Pod,
    nodes: Nodes,
    stage: CycleStage,
    run_filter: Callable[[Guest, Nodes, float], NodeResults] | None = None,
) -> Verdict | None:
    """What a plugin's PreFilter and Filter say; None if it has nothing to say. Raises GuestError.

    Source of the order and of what each status means: `findNodesThatFitPod` and
    `findNodesThatPassFilters` in `pkg/scheduler/schedule_one.go` of Kubernetes.
    """
    if not (plugin.runs("prefilter") or plugin.runs("filter")):
        plugin.end_cycle(pod)
        return None
    with plugin.guest(pod, nodes, stage) as (guest, deadline):
        status, names = guest.pre_filter
        if not plugin.runs("prefilter"):
            status, names = status._replace(code=Code.SUCCESS), None
        if status.code not in (Code.SUCCESS, Code.SKIP):
            return _reject_all(plugin, nodes, status.code, status.reason)
        verdict = _narrow(plugin, nodes, None if status.code is Code.SKIP else names)
        if status.code is Code.SKIP or not plugin.runs("filter") or not verdict.kept.names:
            return verdict
        kept = verdict.kept
        results = run_filter(guest, kept, deadline) if run_filter else guest.filter(kept, deadline)
    return _split(plugin, verdict, results)


class Decision(NamedTuple):
    """What one plugin says of the nodes, by their names."""

    kept: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]


def _decide(plugin: Plugin, question: Question) -> Decision:
    verdict = judge(plugin, question.pod, question.nodes, "filter")
    if verdict is None:
        return Decision(list(question.nodes.names), {}, {})
    return Decision(list(verdict.kept.names), verdict.failed, verdict.unresolvable)


def _describe(decision: Decision, names: Sequence[str]) -> Sequence[str]:
    words = dict.fromkeys(names, "passes")
    words |= {name: f"rejected: {reason}" for name, reason in decision.failed.items()}
    words |= {name: f"rejected for good: {reason}" for name, reason in decision.unresolvable.items()}
    return list(map(words.__getitem__, names))


FILTER: Final = JudgingVerb("filter", "filterVerb", ("prefilter", "filter"), _decide, _describe)


def _reject_all(plugin: Plugin, nodes: Nodes, code: Code, reason: str) -> Verdict:
    reasons = dict.fromkeys(nodes.names, reason or _unexplained(plugin))
    none = nodes.select(())
    if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return Verdict(none, {}, reasons)
    return Verdict(none, reasons, {})


def _narrow(plugin: Plugin, nodes: Nodes, names: frozenset[str] | None) -> Verdict:
    """Keeps the nodes that PreFilter named. Preemption cannot help the others."""
    if names is None:
        return Verdict(nodes, {}, {})
    named = list(map(names.__contains__, nodes.names))
    others = compress(nodes.names, map(not_, named))
    reason = f"node(s) not among those that PreFilter of plugin {plugin.name} names"
    return Verdict(nodes.select(named), {}, dict.fromkeys(others, reason))


def _split(plugin: Plugin, before: Verdict, results: NodeResults) -> Verdict:
    """Parts those that Filter keeps from the others; PreFilter has failed none but for good."""
    codes = results.codes
    if not codes:
        return before
    kept = before.kept.select(codes.translate(_PASSES))
    reasons = results.reasons
    if not all(reasons):
        reasons = [reason or _unexplained(plugin) for reason in reasons]
    rejected = list(zip(compress(before.kept.names, codes), reasons, strict=True))
    if _UNRESOLVABLE not in codes:
        return Verdict(kept, dict(rejected), before.unresolvable)
    unresolvable = list(map(_UNRESOLVABLE.__eq__, filter(None, codes)))
    return Verdict(
        kept,
        dict(compress(rejected, map(not_, unresolvable))),
        _joined(before.unresolvable, dict(compress(rejected, unresolvable))),
    )


def _joined(reasons: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    """All of both; thousands are not copied for nothing."""
    return reasons | more if reasons else more


def _unexplained(plugin: Plugin) -> str:
    return f"node(s) rejected by plugin {plugin.name} without a reason"
