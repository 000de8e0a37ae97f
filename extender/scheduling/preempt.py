"""preempt: the candidates that the plugins would let the pod on, narrowed by PostFilter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from extender.scheduling.filter import Verdict, judge
from extender.scheduling.profile import Profile
from extender.scheduling.verb import JudgingVerb, Question, Victims
from wasm_runtime.abi import Code, NominatingMode
from wasm_runtime.engine import NodeResults
from wasm_runtime.errors import GuestError
from wasm_runtime.guests.guest import Guest, Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes

_PASSES: Final = bytes([Code.SUCCESS])


def run(profile: Profile, pod: Pod, nodes: Nodes, victims: Victims) -> Sequence[str]:
    """The names of the candidates that stay. Raises PluginFailedError and what `victims` raises."""
    for profile_plugin in profile.plugins:
        if not nodes.names:
            break
        verdict = profile_plugin.attempt("preempt", filter_without_victims, pod, nodes, victims)
        if verdict is not None:
            nodes = verdict.kept
    for profile_plugin in profile.plugins:
        if not nodes.names or not profile_plugin.plugin.runs("postfilter"):
            continue
        chosen = profile_plugin.attempt("preempt", nominate, pod, nodes)
        if chosen is not None:
            return chosen
    return nodes.names


def filter_without_victims(plugin: Plugin, pod: Pod, nodes: Nodes, victims: Victims) -> Verdict | None:
    """What a plugin says of the candidates without their victims. Raises GuestError and what `victims` raises."""
    if not (plugin.runs("removepod") or plugin.runs("addpod")):
        return judge(plugin, pod, nodes, "preempt")

    evicted = {name: victims(name) for name in nodes.names}

    def filter_without(guest: Guest, nodes: Nodes, deadline: float) -> NodeResults:
        results = [_filter_without(plugin, guest, node, evicted[node.names[0]], deadline) for node in nodes.singly()]
        codes = b"".join([result.codes or _PASSES for result in results])
        reasons = [reason for result in results for reason in result.reasons]
        return NodeResults(len(codes), codes if any(codes) else b"", [], reasons)

    return judge(plugin, pod, nodes, "preempt", filter_without)


def _filter_without(
    plugin: Plugin, guest: Guest, node: Nodes, victims: Sequence[bytes], deadline: float
) -> NodeResults:
    """Filter on one node between RemovePod and AddPod of its victims, which leave the cycle's state as it was."""
    try:
        for victim in victims if plugin.runs("removepod") else ():
            guest.remove_pod(victim, node, deadline)
        results = guest.filter(node, deadline)
        for victim in victims if plugin.runs("addpod") else ():
            guest.add_pod(victim, node, deadline)
    except GuestError:
        guest.end_cycle()  # Some victims may be missing from its state.
        raise
    return results


def nominate(plugin: Plugin, pod: Pod, nodes: Nodes) -> Sequence[str] | None:
    """The candidates that PostFilter leaves: the node that it nominates, or all; None if it cannot help the pod.

    The first plugin that succeeds ends PostFilter (`RunPostFilterPlugins` in
    `pkg/scheduler/framework/runtime/framework.go` of Kubernetes). Raises GuestError.
    """
    with plugin.guest(pod, nodes, "postFilter") as (guest, deadline):
        status, mode, node = guest.post_filter(nodes, deadline)
    if status.code is not Code.SUCCESS:
        return None
    if mode != NominatingMode.OVERRIDE or not node:
        return nodes.names
    return [node] if node in nodes.names else []


def _decide(plugin: Plugin, question: Question) -> list[str]:
    verdict = filter_without_victims(plugin, question.pod, question.nodes, question.victims.__getitem__)
    kept = question.nodes if verdict is None else verdict.kept
    chosen = nominate(plugin, question.pod, kept) if kept.names and plugin.runs("postfilter") else None
    return list(kept.names if chosen is None else chosen)


def _describe(kept: list[str], names: Sequence[str]) -> Sequence[str]:
    return ["passes" if name in kept else "rejected" for name in names]


PREEMPT: Final = JudgingVerb(
    "preempt", "preemptVerb", ("prefilter", "filter", "addpod", "removepod", "postfilter"), _decide, _describe
)
