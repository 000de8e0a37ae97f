"""filter: PreFilter once, Filter on each node, plugin after plugin."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import compress
from operator import not_
from typing import Final, NamedTuple

from extender.scheduling.findings import Filtered, distinct
from extender.scheduling.prioritize import Totals
from extender.scheduling.profile import Profile
from extender.scheduling.verb import JudgingVerb, Question
from wasm_runtime.abi import Code
from wasm_runtime.engine import NO_RESULTS, NodeResults
from wasm_runtime.guests.guest import NO_PRE_FILTER, SUCCESS, CycleStage, Guest, Pod, PreFilter, Status
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
    filtered: tuple[Filtered, ...] = ()
    """What each plugin said, as it came."""
    totals: Totals | None = None
    """With `topNodes`, the scores of all nodes that pass: `kept` has the best."""


def run(profile: Profile, pod: Pod, nodes: Nodes) -> Verdict:
    """The nodes that every plugin keeps, and why each other one was rejected by the first to do so.

    Where several plugins filter, a guest's reason ends in its plugin's name: `no free GPU (gpus)`. Equal reasons stay
    equal, so that kube-scheduler counts them. Always begins a new cycle of the pod. Raises PluginFailedError.
    """
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    filtered: tuple[Filtered, ...] = ()
    for profile_plugin in profile.plugins:
        if not nodes.names:
            profile_plugin.plugin.end_cycle(pod)
            continue
        verdict = profile_plugin.attempt("filter", judge, pod, nodes, "filter", signs=profile.names_plugins)
        if verdict is None:
            continue
        profile_plugin.outcomes.rejected_nodes += len(nodes) - len(verdict.kept)
        nodes = verdict.kept
        failed = _joined(failed, verdict.failed)
        unresolvable = _joined(unresolvable, verdict.unresolvable)
        filtered += verdict.filtered
    return Verdict(nodes, failed, unresolvable, filtered)


def judge(
    plugin: Plugin,
    pod: Pod,
    nodes: Nodes,
    stage: CycleStage,
    run_filter: Callable[[Guest, Nodes, float], NodeResults] | None = None,
    *,
    signs: bool = False,
) -> Verdict | None:
    """What a plugin's PreFilter and Filter say; None if it has neither. Raises GuestError.

    If the plugin `signs`, each reason in `failed` and `unresolvable` ends in its name. The reasons in `filtered` stay
    as the guest gave them.

    Source of the order and of what each status means: `findNodesThatFitPod` and `findNodesThatPassFilters` in
    `pkg/scheduler/schedule_one.go` of Kubernetes.
    """
    if not (plugin.runs("prefilter") or plugin.runs("filter")):
        plugin.end_cycle(pod)
        return None
    begun, results = time.perf_counter(), NO_RESULTS
    with plugin.guest(pod, nodes, stage) as (guest, deadline):
        pre_filter = guest.pre_filter if plugin.runs("prefilter") else NO_PRE_FILTER
        before, left_out = _narrow(plugin, nodes, pre_filter, signs=signs)
        kept = before.kept
        if kept.names and pre_filter.status.code is not Code.SKIP and plugin.runs("filter"):
            results = run_filter(guest, kept, deadline) if run_filter else guest.filter(kept, deadline)
    if not all(results.reasons):
        results = results._replace(reasons=[reason or _unexplained(plugin) for reason in results.reasons])
    asked = nodes.without_names()
    named = asked if kept is nodes else kept.without_names()
    seconds = time.perf_counter() - begun
    filtered = Filtered(plugin.name, plugin.digest, seconds, asked, named, left_out, results.codes, results.reasons)
    if signs and results.reasons:
        results = results._replace(reasons=_signed(plugin, results.reasons))
    return Verdict(*_split(before, results), (filtered,))


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


class _Split(NamedTuple):
    """The first fields of a Verdict."""

    kept: Nodes
    failed: dict[str, str]
    unresolvable: dict[str, str]


def _narrow(plugin: Plugin, nodes: Nodes, pre_filter: PreFilter, *, signs: bool) -> tuple[_Split, Status]:
    """Keeps the nodes that PreFilter named, none if it rejected the pod. Also returns the status of all others."""
    (code, reason), names = pre_filter
    if code not in (Code.SUCCESS, Code.SKIP):
        status = Status(code, reason or _unexplained(plugin))
        told = _sign(plugin, status.reason) if signs else status.reason
        none, reasons = nodes.select(()), dict.fromkeys(nodes.names, told)
        return _Split(none, {}, reasons) if code == _UNRESOLVABLE else _Split(none, reasons, {}), status
    if names is None or code is Code.SKIP:
        return _Split(nodes, {}, {}), SUCCESS
    named = list(map(names.__contains__, nodes.names))
    others = compress(nodes.names, map(not_, named))
    reason = f"node(s) not among those that PreFilter of plugin {plugin.name} names"
    status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
    return _Split(nodes.select(named), {}, dict.fromkeys(others, reason)), status


def _split(before: _Split, results: NodeResults) -> _Split:
    """Parts the nodes that Filter keeps from those that it rejects. `before` is what PreFilter left to Filter."""
    codes = results.codes
    if not codes:
        return before
    kept = before.kept.select(codes.translate(_PASSES))
    rejected = list(zip(compress(before.kept.names, codes), results.reasons, strict=True))
    if _UNRESOLVABLE not in codes:
        return _Split(kept, dict(rejected), before.unresolvable)
    unresolvable = list(map(_UNRESOLVABLE.__eq__, filter(None, codes)))
    return _Split(
        kept,
        dict(compress(rejected, map(not_, unresolvable))),
        _joined(before.unresolvable, dict(compress(rejected, unresolvable))),
    )


def _joined(reasons: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    """Both together. If there are no reasons yet, the new ones are not copied: they may be thousands."""
    return reasons | more if reasons else more


def _signed(plugin: Plugin, reasons: Sequence[str]) -> list[str]:
    """The reasons, each with the plugin's name behind it unless it has that. Equal reasons are made once."""
    signed = {reason: _sign(plugin, reason) for reason in distinct(reasons)}
    return list(signed.values()) * len(reasons) if len(signed) == 1 else list(map(signed.__getitem__, reasons))


def _sign(plugin: Plugin, reason: str) -> str:
    return reason if f"plugin {plugin.name} " in reason else f"{reason} ({plugin.name})"


def _unexplained(plugin: Plugin) -> str:
    return f"node(s) rejected by plugin {plugin.name} without a reason"
